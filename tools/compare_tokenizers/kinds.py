"""The kinds that are compared: how the program is asked for each, and its reference. Their files are made here."""

import base64
import dataclasses
import json
import pathlib
import subprocess

import sentencepiece

import library_files
import references
from references import BYTES

PATTERNS = {
    "gpt2": r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+""",
    "cl100k": r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s""",
    "llama3": r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+""",
    "qwen2": r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+""",
    "v1": r"""[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+""",
}
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
OTHER, SUFFIX = r"[^\r\n\p{L}\p{N}]", "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
REST = r"""| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
PATTERNS["o200k"] = (rf"{OTHER}?{UPPER}*{LOWER}+{SUFFIX}|{OTHER}?{UPPER}+{LOWER}*{SUFFIX}|\p{{N}}{{1,3}}" + REST)
PATTERNS["v2"] = rf"{OTHER}?{UPPER}*{LOWER}+|{OTHER}?{UPPER}+{LOWER}*|\p{{N}}" + REST


@dataclasses.dataclass
class Kind:
    name: str
    type: str
    flags: list
    reference: object
    is_fast: bool = False  # its rate is compared too


def train_gpt2(program, texts, work, size):
    corpus, output = work / "corpus.txt", work / "gpt2"
    corpus.write_text("\n\n".join(texts))
    subprocess.run([program, "train-tokenizer", "--input", corpus, "--vocab-size", str(size), "--overwrite",
                    "--output", output], check=True, stderr=subprocess.DEVNULL)
    return output / "vocab.json", output / "merges.txt"


def ranks_of(vocab):
    tokens = {token: i for token, i in json.loads(vocab.read_text()).items() if token != "<|endoftext|>"}
    return {bytes(BYTES[symbol] for symbol in token): i for token, i in tokens.items()}


def tiktoken_kinds(work, vocab):
    ranks = ranks_of(vocab)
    first = len(ranks)
    file = work / "ranks.tiktoken"
    file.write_bytes(b"".join(base64.b64encode(t) + b" %d\n" % i for t, i in ranks.items()))
    special = {"<|endoftext|>": first, "<|end|>": first + 1}
    for pattern in ("gpt2", "cl100k", "o200k", "llama3", "qwen2"):
        flags = ["--tokenizer-model", str(file), "--tiktoken-pattern", pattern, "--tiktoken-special-tokens", *special]
        yield Kind(f"tiktoken {pattern}", "tiktoken", flags, references.Tiktoken(PATTERNS[pattern], ranks, special),
                   pattern in ("gpt2", "llama3"))
    megatron = work / "megatron.json"
    rows = [{"rank": i, "token_bytes": base64.b64encode(t).decode(), "token_str": t.decode(errors="replace")}
            for t, i in ranks.items()]
    megatron.write_text(json.dumps(rows))
    names = ["<unk>", "<s>", "</s>"] + [f"<SPECIAL_{i}>" for i in range(3, 100)]
    special = {name: first + i for i, name in enumerate(names)}
    for pattern in ("v1", "v2"):
        flags = ["--tokenizer-model", str(megatron), "--tiktoken-pattern", pattern, "--tiktoken-num-special-tokens", "100",
                 "--vocab-size", str(first + 100)]
        yield Kind(f"TikTokenizer {pattern}", "TikTokenizer", flags,
                   references.Tiktoken(PATTERNS[pattern], ranks, special, shift=100))


def wordpiece_kinds(work, texts, size):
    for name, lower in (("LowerCase", True), ("Case", False)):
        vocabulary = library_files.train_wordpiece(texts, size, lower)
        file = work / f"vocab_{name}.txt"
        file.write_text("".join(token + "\n" for token in vocabulary))
        yield Kind(f"BertWordPiece{name}", f"BertWordPiece{name}", ["--vocab-file", str(file)],
                   references.WordPiece(vocabulary, lower), lower)


def train_sentencepiece(work, texts, name, **options):
    corpus = work / "sentences.txt"
    corpus.write_text("\n".join(t.replace("\0", "") for t in texts))
    sentencepiece.SentencePieceTrainer.train(
        input=str(corpus), model_prefix=str(work / name), minloglevel=2, num_threads=1, hard_vocab_limit=False,
        max_sentence_length=100000, **options)
    return work / f"{name}.model"


def sentencepiece_kinds(work, texts, size):
    llama = dict(model_type="bpe", byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False,
                 split_digits=True, character_coverage=0.995, vocab_size=size)
    models = {"BPE, bytes": train_sentencepiece(work, texts, "sp_bpe", **llama),
              "Unigram": train_sentencepiece(work, texts, "sp_unigram", model_type="unigram", vocab_size=size,
                                             character_coverage=0.995, user_defined_symbols=["ABX", "<mask>"]),
              "Unigram, bytes": train_sentencepiece(work, texts, "sp_bytes", model_type="unigram", vocab_size=size,
                                                    byte_fallback=True, character_coverage=0.99, pad_id=3,
                                                    normalization_rule_name="nfkc_cf")}
    for name, model in models.items():
        flags = ["--tokenizer-model", str(model)]
        plain = references.SentencePiece(model)
        yield Kind(f"GPTSentencePiece {name}", "GPTSentencePieceTokenizer", flags, plain, True)
        bos = references.SentencePiece(model, bos=plain.processor.bos_id())
        yield Kind(f"Llama2 {name}", "Llama2Tokenizer", flags, bos)
        yield Kind(f"SentencePiece {name}", "SentencePieceTokenizer", [*flags, "--vocab-extra-ids", "5"],
                   references.SentencePiece(model, special=megatron_special(plain.processor, 5)))


def megatron_special(processor, extra_ids):
    """Texts that Megatron's SentencePieceTokenizer parses, and their ids: appended where the model has none."""
    pieces = {processor.id_to_piece(i): i for i in range(processor.vocab_size())}

    def named(i, otherwise):
        return processor.id_to_piece(i) if i >= 0 else otherwise
    names = ["<CLS>", "<SEP>", "<EOD>", "<MASK>", named(processor.pad_id(), "<PAD>"), named(processor.bos_id(), "<BOS>"),
             named(processor.eos_id(), "<EOS>")] + [f"<extra_id_{i}>" for i in range(extra_ids)]
    for name in names:
        pieces.setdefault(name, len(pieces))
    return {name: pieces[name] for name in names}


def library_kinds(work, texts, vocab, merges, size):
    for name, tokenizer, byte_level in library_files.make(texts, vocab, merges, size, PATTERNS):
        directory = work / "tokenizer_json" / name.replace(" ", "_").replace(",", "")
        directory.mkdir(parents=True, exist_ok=True)
        tokenizer.save(str(directory / "tokenizer.json"))
        eos = next(iter(tokenizer.get_added_tokens_decoder().values())).content
        (directory / "tokenizer_config.json").write_text(json.dumps({"eos_token": eos}))
        yield Kind(f"tokenizer.json {name}", "HuggingFaceTokenizer", ["--tokenizer-model", str(directory)],
                   references.from_file(directory / "tokenizer.json", byte_level),
                   name in ("Llama 3", "GPT-2", "BERT"))


def all_kinds(program, work, texts, wanted, size=6000):
    """Those that have one of the wanted words in their names, or all."""
    work = pathlib.Path(work)
    work.mkdir(parents=True, exist_ok=True)

    def has_any(*families):
        return not wanted or any(word in family or family in word for word in wanted for family in families)
    vocab, merges = train_gpt2(program, texts, work, size)
    kinds = [Kind("GPT2BPE", "GPT2BPETokenizer", ["--vocab-file", str(vocab), "--merge-file", str(merges)],
                  references.gpt2(vocab, merges), True)]
    if has_any("tiktoken", "TikTokenizer"):
        kinds += tiktoken_kinds(work, vocab)
    if has_any("BertWordPieceLowerCase"):
        kinds += wordpiece_kinds(work, texts, size)
    if has_any("GPTSentencePiece", "Llama2"):
        kinds += sentencepiece_kinds(work, texts, size)
    if has_any("tokenizer.json"):
        kinds += library_kinds(work, texts, vocab, merges, size)
    return [kind for kind in kinds if not wanted or any(word in kind.name for word in wanted)]
