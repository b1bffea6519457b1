"""See tools/compare-tokenizers."""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

import kinds as kinds_of
import references
import texts as texts_of

class Program:
    def __init__(self, build):
        self.path = str(pathlib.Path(build) / "phalanx")
        self.help = subprocess.run([self.path, "tokenize", "--help"], capture_output=True, text=True, check=True).stdout

    def has(self, word):
        return re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", self.help) is not None

    def run(self, kind, words, data):
        command = [self.path, "tokenize", "--tokenizer-type", kind.type, *kind.flags, *words]
        result = subprocess.run(command, input=data, capture_output=True)
        if result.returncode:
            raise RuntimeError(f"exit {result.returncode}: {result.stderr.decode(errors='replace').strip()[-300:]}")
        return result.stdout

    def lines(self, kind, mode, lines):
        output = self.run(kind, ["--lines", "--json", *kind.reference.flags(mode)], b"".join(line + b"\n" for line in lines))
        ids = [json.loads(line) for line in output.splitlines()]
        if len(ids) != len(lines):
            raise RuntimeError(f"{len(ids)} lists for {len(lines)} lines")
        return ids

    def whole(self, kind, mode, text):
        return json.loads(self.run(kind, ["--json", *kind.reference.flags(mode)], text))

    def decode(self, kind, ids):
        return self.run(kind, ["--decode"], json.dumps(ids).encode())


class Tally:
    """What was compared of one kind."""

    SHOWN = 3

    def __init__(self, kind):
        self.kind, self.strings, self.bytes, self.ids, self.different = kind, 0, 0, 0, 0

    def compare(self, what, text, ours, theirs):
        self.strings += 1
        self.bytes += len(text)
        self.ids += len(theirs)
        if ours == theirs:
            return
        self.different += 1
        if self.different <= self.SHOWN:
            at = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), min(len(ours), len(theirs)))
            print(f"  {self.kind.name}, {what}: {text[:400]!r}\n    from {at}: {ours[max(0, at - 2):at + 8]!r}, "
                  f"theirs {theirs[max(0, at - 2):at + 8]!r}")


def shrunk(program, kind, mode, line):
    """A short text that still differs."""
    reference = kind.reference

    def differs(text):
        return program.lines(kind, mode, [text])[0] != reference.encode(text, mode)
    parts = [c.encode("utf-8", "surrogateescape") for c in line.decode("utf-8", "surrogateescape")]
    step = max(1, len(parts) // 2)
    for _ in range(60):
        for start in range(0, len(parts), step):
            rest = parts[:start] + parts[start + step:]
            if rest and differs(b"".join(rest)):
                parts = rest
                break
        else:
            if step == 1:
                break
            step //= 2
    return b"".join(parts)


def compare_kind(program, kind, corpus):
    tally = Tally(kind)
    reference = kind.reference
    small = corpus["mixed"][:len(corpus["mixed"]) // 10] + corpus["unicode"]
    for mode in reference.modes:
        lines = corpus["mixed"] + corpus["unicode"] if mode == "data" else small
        if mode == "data":
            lines = lines + corpus["bytes"]
        for line, ours in zip(lines, program.lines(kind, mode, lines)):
            theirs = reference.encode(line, mode)
            if ours != theirs and tally.different < tally.SHOWN:
                line = shrunk(program, kind, mode, line)
                ours, theirs = program.lines(kind, mode, [line])[0], reference.encode(line, mode)
            tally.compare(mode, line, ours, theirs)
    for text in corpus["wholes"]:
        tally.compare("a text of several lines", text, program.whole(kind, "data", text), reference.encode(text, "data"))
    for text in corpus["wholes"][:20]:
        ids = reference.encode(text, "data")
        theirs = reference.decode(ids)
        if theirs is not None:
            ours = program.decode(kind, ids).decode(errors="replace")
            tally.compare(f"decoded from {ids[:40]}", text, ours, theirs)
    return tally


def compare(program, kinds, corpus):
    print(f"{'kind':40} {'strings':>8} {'MB':>7} {'ids':>10} {'differing strings':>18}")
    bad, skipped = 0, {}
    for kind in kinds:
        if not program.has(kind.type):
            skipped.setdefault(kind.type, []).append(kind.name)
            continue
        try:
            tally = compare_kind(program, kind, corpus)
        except RuntimeError as error:
            bad += 1
            print(f"{kind.name:40} {error}", flush=True)
            continue
        bad += tally.different > 0
        print(f"{kind.name:40} {tally.strings:8} {tally.bytes / 1e6:7.2f} {tally.ids:10} {tally.different:18}", flush=True)
    for type_name, names in skipped.items():
        print(f"skipped: the program has no {type_name} ({len(names)} kinds)")
    return bad


def rate_of(size, body):
    """By processor time: one thread works, and others may want its core."""
    begin = time.process_time()
    body()
    return size / (time.process_time() - begin) / 1e6


def their_encoder(kind, documents):
    reference = kind.reference
    if isinstance(reference, references.Library):
        reference.tokenizer.encode_special_tokens = True
        return lambda: reference.tokenizer.encode_batch_fast(documents, add_special_tokens=False)
    if isinstance(reference, references.Tiktoken):
        return lambda: [reference.encoding.encode_ordinary(d) for d in documents]
    if isinstance(reference, references.SentencePiece):
        return lambda: reference.processor.encode(documents, num_threads=1)
    return None


def compare_rates(program, bench, work, kinds, lines, rounds=5):
    """Ours and theirs by turns, one core each; the ratio is the median of the ratios of neighbours."""
    file = work / "rates.txt"
    file.write_bytes(b"".join(line.replace(b"\r", b" ") + b"\n" for line in lines))
    print(f"\n{'encode, MB/s of one core':40} {'ours':>8} {'theirs':>8} {'ratio':>7}   (medians of {rounds})")
    for kind in kinds:
        if not kind.is_fast or not program.has(kind.type):
            continue
        for name, size in (("lines", 0), ("documents", 1 << 14)):
            documents = documents_of(file, size)
            encode = their_encoder(kind, documents)
            if encode is None:
                continue
            ours, theirs = [], []
            for _ in range(rounds):
                theirs.append(rate_of(file.stat().st_size, encode))
                command = [bench, "--only", "encode", "--with-tokenizer", "--input", file, "--document-bytes", str(size),
                           "--tokenizer-type", kind.type, *kind.flags]
                output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
                ours.append(float(re.search(r"([0-9.]+) MB/s", output)[1]))
            ratio = statistics.median(a / b for a, b in zip(ours, theirs))
            print(f"{kind.name + ', ' + name:40} {statistics.median(ours):8.2f} {statistics.median(theirs):8.2f} {ratio:7.2f}",
                  flush=True)


def documents_of(file, size):
    """The lines, or as many of them as reach so many bytes: what the bench cuts too."""
    documents, part, length = [], [], 0
    for line in file.read_bytes().split(b"\n")[:-1]:
        part.append(line)
        length += len(line) + 1
        if length >= size:
            documents.append(b"\n".join(part).decode())
            part, length = [], 0
    return documents + ([b"\n".join(part).decode()] if part else [])


def compare_training(program, work, megabytes, rounds=1):
    file = work / "training.txt"
    with file.open("wb") as out:
        size, seed = 0, 10
        while size < megabytes * 1000000:
            block = "\n".join(texts_of.mixed_lines(5000000, seed)).encode() + b"\n"
            size, seed = size + out.write(block), seed + 1
    for threads in {1, os.cpu_count()}:
        os.environ["RAYON_NUM_THREADS"] = str(threads)
        os.environ["TOKENIZERS_PARALLELISM"] = "true" if threads > 1 else "false"
        code = ("import sys; from tokenizers import *; from tokenizers import models, pre_tokenizers, trainers\n"
                "t = Tokenizer(models.BPE()); t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)\n"
                "t.train([sys.argv[1]], trainers.BpeTrainer(vocab_size=32768, show_progress=False, min_frequency=2,"
                "initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=['<|endoftext|>']))")
        output = work / "trained"
        times = {"ours": [], "theirs": []}
        for _ in range(rounds):
            for name, command in (("theirs", [sys.executable, "-c", code, file]),
                                  ("ours", ["taskset", "-c", f"0-{threads - 1}", program.path, "train-tokenizer", "--input",
                                            file, "--vocab-size", "32768", "--overwrite", "--output", output])):
                before = os.times()
                subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
                after = os.times()
                times[name].append((after.elapsed - before.elapsed, after.children_user - before.children_user +
                                    after.children_system - before.children_system))
        medians = {name: [statistics.median(column) for column in zip(*rows)] for name, rows in times.items()}
        ours, theirs = medians["ours"], medians["theirs"]
        print(f"learn 32,768 ids of {megabytes} MB, {threads} threads: ours {ours[0]:.1f} s ({ours[1]:.1f} s of processor "
              f"time), theirs {theirs[0]:.1f} s ({theirs[1]:.1f} s): {theirs[0] / ours[0]:.2f} times as fast "
              f"({theirs[1] / ours[1]:.2f})", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path)
    parser.add_argument("--megabytes", type=float)
    parser.add_argument("--kinds")
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--training-megabytes", type=int)
    options = parser.parse_args()
    program = Program(options.build)
    learned_from = [line for line in texts_of.mixed_lines(1500000, seed=9) if "\r" not in line]
    wanted = [word for word in options.kinds.split(",") if word]
    kinds = kinds_of.all_kinds(program.path, options.work / "models", learned_from, wanted)
    bad = 0
    mixed = [line.encode() for line in texts_of.mixed_lines(int(max(options.megabytes, 1) * 1000000))]
    if options.megabytes:
        if not program.has("--lines"):
            sys.exit("compare-tokenizers: this program's `phalanx tokenize` has no --lines")
        count = max(100, int(1000 * options.megabytes))
        bad = compare(program, kinds, {
            "mixed": mixed, "unicode": [s.encode() for s in texts_of.random_unicode(count)],
            "bytes": texts_of.random_bytes(count),
            "wholes": [s.encode() for s in texts_of.wholes([line.decode() for line in mixed], 40)]})
        print(f"{bad} kinds differ")
    if options.speed:
        compare_rates(program, options.build / "bench/bench_data", options.work, kinds, mixed)
    if options.training_megabytes:
        compare_training(program, options.work, options.training_megabytes)
    sys.exit(1 if bad else 0)


main()
