"""Compares phalanx with transformers on tiny random models, case by case (see ../compare-hugging-face --help)."""

import argparse
import json
import logging
import pathlib
import shutil
import subprocess
import sys

import cases
import torch
import transformers


class Difference(Exception):
    pass


class Phalanx:
    def __init__(self, program):
        self.program = program

    def __call__(self, *words, text=""):
        words = [str(word) for word in words]
        done = subprocess.run([self.program, *words], input=text, capture_output=True, text=True)
        if done.returncode != 0:
            raise Difference(f"phalanx {' '.join(words[:2])}: exit status {done.returncode}: "
                             f"{done.stderr.strip().splitlines()[-1:]}")
        return done.stdout


def error(actual, expected):
    """The largest difference, relative to the largest number."""
    if len(actual) != len(expected):
        raise Difference(f"{len(actual)} numbers for {len(expected)}")
    largest = max(abs(value) for value in expected)
    return max(abs(a - b) for a, b in zip(actual, expected)) / largest


def score(phalanx, case, checkpoint, expected):
    words = ["score", "--load", checkpoint, "--json"]
    if case.kind == "masked":
        text = " ".join(cases.WORDS[i] for i in expected["tokens"])
        return json.loads(phalanx(*words, text=text))
    ids = " ".join(map(str, expected["tokens"]))
    if case.kind == "text-to-text":
        return json.loads(phalanx(*words, "--tokens", ids, "--target", " ".join(map(str, expected["target"]))))
    return json.loads(phalanx(*words, "--tokens", ids, "--logits"))


def until_end(case, tokens):
    """A text ends with the model's [EOS]; a GPT's also with the id that the null tokenizer takes for one."""
    marks = (1,) if case.kind == "text-to-text" else (2, cases.VOCABULARY - 1)
    ends = [i for i, token in enumerate(tokens) if token in marks]
    return tokens[:ends[0]] if ends else tokens


def greedy(phalanx, checkpoint, expected):
    count = len(expected["greedy"])
    result = json.loads(phalanx("generate", "--load", checkpoint, "--prompt", " ".join(map(str, expected["tokens"])),
                                "--temperature", 0, "--max-tokens", count, "--json"))
    tokens = result["tokens"]
    return tokens[len(expected["tokens"]):] if len(tokens) > count else tokens


class Warnings(logging.Handler):
    def __init__(self):
        super().__init__(logging.WARNING)
        self.lines = []

    def emit(self, record):
        self.lines.append(record.getMessage())


def load_again(case, model, folder, expected):
    """transformers' view of what was exported: no warning but its own about an untied T5, the same logits."""
    warnings = Warnings()
    transformers.utils.logging.get_logger("transformers").addHandler(warnings)
    try:
        _, report = type(model).from_pretrained(folder, output_loading_info=True, dtype=case.dtype)
    finally:
        transformers.utils.logging.get_logger("transformers").removeHandler(warnings)
    if report["missing_keys"] or report["unexpected_keys"]:
        raise Difference(f"transformers misses {report['missing_keys']} and does not know {report['unexpected_keys']}")
    lines = [line for line in warnings.lines if not (case.kind == "text-to-text" and "tie" in line)]
    if lines:
        raise Difference(f"transformers warns: {lines[0]}")
    if cases.expectation(case, model, folder) != expected:
        raise Difference("transformers computes other numbers of the exported folder")


def compare(phalanx, case, work, tolerance):
    folder, checkpoint, back = work / "folder", work / "checkpoint", work / "back"
    model = cases.write_folder(case, case.make(), folder)
    expected = cases.expectation(case, model, folder)
    phalanx("import", "hf", "--input", folder, "--output", checkpoint)
    result = score(phalanx, case, checkpoint, expected)
    numbers = {key: error(result[key], expected[key]) for key in ("log_probabilities", "logits") if key in expected}
    worst = max(numbers.values())
    if worst > tolerance:
        raise Difference(f"{max(numbers, key=numbers.get)} differ by {worst:.1e}")
    same = "-"
    if "greedy" in expected:
        tokens = until_end(case, greedy(phalanx, checkpoint, expected))
        if tokens != until_end(case, expected["greedy"]):
            raise Difference(f"greedy tokens are {tokens}, not {expected['greedy']}")
        same = "same"
    phalanx("export", "hf", "--load", checkpoint, "--output", back)
    before, after = cases.tensors_of(folder), cases.tensors_of(back)
    if before.keys() != after.keys():
        raise Difference(f"other tensors: {sorted(before.keys() ^ after.keys())[:3]}")
    for name, tensor in before.items():
        if tensor.dtype != after[name].dtype or not torch.equal(tensor, after[name]):
            raise Difference(f"{name} is not what it was")
    load_again(case, model, back, expected)
    return worst, same


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    parser.add_argument("--cases", default="")
    parser.add_argument("--tolerance", type=float, default=1e-5)
    options = parser.parse_args()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    wanted = [word for word in options.cases.split(",") if word]
    failures = 0
    print(f"{'model':28} {'difference':>10} {'greedy':>7}  tensors and folder")
    for case in cases.CASES:
        if wanted and not any(word in case.name for word in wanted):
            continue
        shutil.rmtree(options.work, ignore_errors=True)
        options.work.mkdir(parents=True)
        try:
            worst, tokens = compare(Phalanx(options.program), case, options.work, options.tolerance)
            print(f"{case.name:28} {worst:10.1e} {tokens:>7}  same")
        except Difference as difference:
            failures += 1
            print(f"{case.name:28} FAILS: {difference}")
    print("nothing differs" if failures == 0 else f"{failures} differ")
    sys.exit(failures != 0)


if __name__ == "__main__":
    main()
