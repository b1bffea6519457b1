"""tokenizer.json files of every kind of node that is read, made with `tokenizers`."""

import json

from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers)

SPECIAL = ["<unk>", "<s>", "</s>", "[CLS]", "[SEP]", "[MASK]"]


def added(tokenizer, extra=True):
    """Special tokens, and ordinary ones of every sort."""
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in ["<|endoftext|>", *SPECIAL]])
    if extra:
        tokenizer.add_tokens([AddedToken("ABX", normalized=True), AddedToken("<extra_id_1>", lstrip=True, normalized=False),
                              AddedToken("<EOD>", rstrip=True, normalized=False),
                              AddedToken("the", single_word=True, normalized=True),
                              AddedToken("\u0130stanbul", normalized=True, single_word=True),
                              AddedToken("<pad>", lstrip=True, rstrip=True, normalized=True)])
    return tokenizer


def train_wordpiece(texts, size, lower):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lower)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.train_from_iterator(texts, trainers.WordPieceTrainer(
        vocab_size=size, show_progress=False, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]))
    vocabulary = tokenizer.get_vocab()
    return sorted(vocabulary, key=vocabulary.get)


def template(tokenizer, first, last=None):
    parts = [p for p in (first, "$A", last) if p]
    return processors.TemplateProcessing(single=" ".join(parts), special_tokens=[
        (t, tokenizer.token_to_id(t)) for t in (first, last) if t])


def byte_level(texts, vocab, merges, patterns):
    def bpe(**options):
        return Tokenizer(models.BPE.from_file(str(vocab), str(merges), **options))

    def symbols(use_regex=False, prefix=False):
        return pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=use_regex)

    def cut(pattern, behavior="isolated", invert=False):
        return pre_tokenizers.Split(Regex(pattern), behavior, invert)

    def finished(tokenizer, normalizer, *pre):
        if normalizer is not None:
            tokenizer.normalizer = normalizer
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(list(pre)) if len(pre) > 1 else pre[0]
        tokenizer.decoder = decoders.ByteLevel()
        return added(tokenizer)

    gpt2 = finished(bpe(), None, symbols(True))
    gpt2.post_processor = processors.ByteLevel(trim_offsets=False)
    yield "GPT-2", gpt2, True
    roberta = finished(bpe(), None, symbols(True, True))
    roberta.post_processor = processors.RobertaProcessing(("</s>", roberta.token_to_id("</s>")),
                                                          ("<s>", roberta.token_to_id("<s>")))
    yield "RoBERTa", roberta, True
    llama = finished(bpe(ignore_merges=True), None, cut(patterns["llama3"]), symbols())
    llama.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=True), template(llama, "<s>")])
    yield "Llama 3", llama, True
    yield "Qwen 2", finished(bpe(), normalizers.NFC(), cut(patterns["qwen2"]), symbols()), True
    yield "o200k", finished(bpe(), None, cut(patterns["o200k"]), symbols()), True
    yield "cl100k", finished(bpe(), None, cut(patterns["cl100k"]), symbols()), True
    digits = pre_tokenizers.Digits(individual_digits=True)
    yield "digits, NFKC", finished(bpe(), normalizers.NFKC(), digits, symbols(True)), True
    yield "digit runs, NFD", finished(bpe(), normalizers.NFD(), pre_tokenizers.Digits(), symbols(True)), True
    lower = normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase(), normalizers.StripAccents(),
                                  normalizers.Strip()])
    yield "lower, no accents", finished(bpe(), lower, symbols(True)), True
    kelvin = normalizers.Sequence([normalizers.NFKD(), normalizers.Replace(Regex(r"\s{2,}"), " "),
                                   normalizers.Replace("don't", "do not")])
    yield "replace, NFKD", finished(bpe(), kelvin, symbols(True)), True
    for behavior in ("removed", "merged_with_previous", "merged_with_next", "contiguous"):
        yield f"split {behavior}", finished(bpe(), None, cut(r"\s|[0-9]{1,2}+|,", behavior), symbols()), True
        yield f"punctuation {behavior}", finished(bpe(), None, pre_tokenizers.Punctuation(behavior), symbols()), True
    yield "split inverted", finished(bpe(), None, cut(r"\p{L}+$|\d+", "removed", True), symbols()), True
    yield "Whitespace", finished(bpe(), None, pre_tokenizers.Whitespace(), symbols()), True
    yield "WhitespaceSplit", finished(bpe(), None, pre_tokenizers.WhitespaceSplit(), symbols()), True


def metaspace_bpe(texts, size):
    """With a vocabulary of pieces that begin with U+2581, and bytes."""
    trainer = trainers.BpeTrainer(vocab_size=size, show_progress=False, limit_alphabet=600,
                                  special_tokens=["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)])
    learned = Tokenizer(models.BPE(unk_token="<unk>"))
    learned.pre_tokenizer = pre_tokenizers.Metaspace()
    learned.train_from_iterator(texts, trainer)
    model = json.loads(learned.to_str())["model"]
    vocab, merges = model["vocab"], [tuple(pair) for pair in model["merges"]]

    def bpe(**options):
        return Tokenizer(models.BPE(vocab, merges, unk_token="<unk>", **options))

    from_symbols = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    legacy = bpe(fuse_unk=True, byte_fallback=True)
    legacy.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    legacy.decoder = decoders.Sequence(from_symbols)
    added(legacy, extra=False).post_processor = template(legacy, "<s>", "</s>")
    yield "Llama 2 legacy", legacy, False
    newer = bpe(fuse_unk=True, byte_fallback=True)
    newer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    newer.decoder = decoders.Sequence(from_symbols)
    yield "Llama 2 newer", added(newer, extra=False), False
    for scheme in ("always", "never", "first"):
        for fuse in (True, False):
            tokenizer = bpe(fuse_unk=fuse)
            tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme)
            tokenizer.decoder = decoders.Metaspace(prepend_scheme=scheme)
            yield f"Metaspace {scheme}{', fused' if fuse else ''}", added(tokenizer), False


def wordpiece(texts, size):
    for name, options in (("BERT", dict(lowercase=True)), ("BERT cased", dict(lowercase=False)),
                          ("BERT with accents", dict(lowercase=True, strip_accents=False)),
                          ("BERT no CJK", dict(lowercase=False, strip_accents=True, handle_chinese_chars=False,
                                               clean_text=False))):
        words = train_wordpiece(texts, size, options["lowercase"])
        tokenizer = Tokenizer(models.WordPiece({t: i for i, t in enumerate(words)}, unk_token="[UNK]",
                                               max_input_chars_per_word=100))
        tokenizer.normalizer = normalizers.BertNormalizer(**options)
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        tokenizer.decoder = decoders.WordPiece(cleanup="accents" not in name)
        added(tokenizer, extra="cased" in name)
        tokenizer.post_processor = processors.BertProcessing(("[SEP]", tokenizer.token_to_id("[SEP]")),
                                                             ("[CLS]", tokenizer.token_to_id("[CLS]")))
        yield name, tokenizer, False


def unigram(texts, size):
    for bytes_too in (False, True):
        learned = Tokenizer(models.Unigram())
        learned.pre_tokenizer = pre_tokenizers.Metaspace()
        learned.normalizer = normalizers.NFKC()
        names = ["<unk>", "<s>", "</s>"] + ([f"<0x{b:02X}>" for b in range(256)] if bytes_too else [])
        learned.train_from_iterator(texts, trainers.UnigramTrainer(
            vocab_size=size, show_progress=False, unk_token="<unk>", special_tokens=names, n_sub_iterations=1))
        model = json.loads(learned.to_str())["model"]
        tokenizer = Tokenizer(models.Unigram([tuple(p) for p in model["vocab"]], model["unk_id"], bytes_too))
        tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        tokenizer.decoder = (decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()]) if bytes_too
                             else decoders.Metaspace())
        added(tokenizer)
        tokenizer.post_processor = template(tokenizer, "<s>", "</s>")
        yield f"Unigram{', bytes' if bytes_too else ''}", tokenizer, False


def make(texts, vocab, merges, size, patterns):
    """Name, tokenizer, whether it is byte-level."""
    yield from byte_level(texts, vocab, merges, patterns)
    yield from metaspace_bpe(texts, size)
    yield from wordpiece(texts, size)
    yield from unigram(texts, size)
