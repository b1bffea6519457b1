"""What each kind of tokenizer is compared with: encode(text as bytes, mode) and decode(ids).

A mode is "data" (nothing in the text is special), "parsed" (special tokens in it become their ids) or "added" (also
those that the kind puts around a text)."""

import re
import unicodedata

import sentencepiece
import tiktoken
import tokenizers

MODES = ("data", "parsed", "added")


class Reference:
    """What follows from a kind's modes."""

    modes = MODES
    adds_to_parsed = True  # "added" also parses

    def flags(self, mode):
        parses = mode == "parsed" or (mode == "added" and self.adds_to_parsed)
        return (["--parse-special-tokens"] if parses else []) + (["--add-special-tokens"] if mode == "added" else [])


def stretches(data):
    """The longest stretches of UTF-8 as str, and of bytes that are none as bytes."""
    parts, position = [], 0
    while position < len(data):
        try:
            parts.append(data[position:].decode())
            break
        except UnicodeDecodeError as error:
            if error.start:
                parts.append(data[position:position + error.start].decode())
            bad = data[position + error.start:position + error.end]
            if parts and isinstance(parts[-1], bytes):
                parts[-1] += bad
            else:
                parts.append(bad)
            position += error.end
    return parts


def replaced(data):
    """As str, with U+FFFD for each byte that is no UTF-8."""
    return "".join(part if isinstance(part, str) else "\ufffd" * len(part) for part in stretches(data))


def byte_symbols():
    """GPT-2's printable symbol of each byte."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    return {b: chr(b) for b in printable} | {b: chr(256 + i) for i, b in enumerate(others)}


SYMBOLS = byte_symbols()
BYTES = {symbol: byte for byte, symbol in SYMBOLS.items()}


class Library(Reference):
    """A tokenizer of `tokenizers`; byte-level ones encode bytes that are no UTF-8 as a word of their own."""

    def __init__(self, tokenizer, byte_level):
        self.tokenizer, self.byte_level = tokenizer, byte_level

    def encode(self, data, mode):
        self.tokenizer.encode_special_tokens = mode == "data"
        parts = stretches(data) if self.byte_level else [replaced(data)]
        if len(parts) < 2 and not (parts and isinstance(parts[0], bytes)):
            return self.tokenizer.encode(parts[0] if parts else "", add_special_tokens=mode == "added").ids
        ids = []
        for part in parts:
            if isinstance(part, str):
                ids += self.tokenizer.encode(part, add_special_tokens=False).ids
            else:
                ids += [t.id for t in self.tokenizer.model.tokenize("".join(SYMBOLS[b] for b in part))]
        return ids

    def decode(self, ids):
        return self.tokenizer.decode(ids, skip_special_tokens=False)


class Tiktoken(Reference):
    def __init__(self, pattern, ranks, special, shift=0):
        self.encoding = tiktoken.Encoding("compared", pat_str=pattern, mergeable_ranks=ranks, special_tokens=special)
        self.shift, self.special = shift, special
        self.modes = ("data", "parsed")

    def encode(self, data, mode):
        ids = []
        for part in stretches(data):
            if isinstance(part, bytes):
                ids += [i + self.shift for i in self.encoding._core_bpe.encode_single_piece(part)]
            elif mode == "data":
                ids += [i + self.shift for i in self.encoding.encode_ordinary(part)]
            else:
                names = {i: s for s, i in self.special.items()}
                found = self.encoding.encode(part, allowed_special="all")
                # Special tokens lie behind the ranks here, and before them in Megatron's files.
                ids += [i + self.shift if i not in names else i - self.encoding.max_token_value - 1 + len(names)
                        if self.shift else i for i in found]
        return ids

    def decode(self, ids):
        return self.encoding.decode(ids) if not self.shift else None


class SentencePiece(Reference):
    """`special` maps texts to ids, for the type that parses them; `bos` is what adding adds. The library reads bytes: one
    that is no UTF-8 is U+FFFD behind its normaliser."""

    adds_to_parsed = False

    def __init__(self, path, special=None, bos=None):
        self.processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
        self.special, self.bos = special, bos
        self.modes = ("data",) + (("parsed",) if special else ()) + (("added",) if bos is not None else ())

    def encode(self, data, mode):
        if mode == "parsed":
            ids, position = [], 0
            for match in longest_of(t.encode() for t in self.special).finditer(data):
                ids += self.processor.encode(data[position:match.start()]) if match.start() > position else []
                ids.append(self.special[match[0].decode()])
                position = match.end()
            return ids + (self.processor.encode(data[position:]) if position < len(data) else [])
        return ([self.bos] if mode == "added" else []) + self.processor.encode(data)

    def decode(self, ids):
        return self.processor.decode(ids) if max(ids, default=0) < self.processor.vocab_size() else None


def longest_of(texts):
    texts = sorted(texts, key=len, reverse=True)
    separator = b"|" if isinstance(texts[0], bytes) else "|"
    return re.compile(separator.join(map(re.escape, texts)))


class WordPiece(Reference):
    """Google's BERT (tokenization.py), as Megatron-LM has it."""

    LIMIT = 200

    def __init__(self, vocabulary, lower_case):
        tokens = list(vocabulary)
        tokens += [token for token in ("[BOS]", "[EOS]") if token not in tokens]
        self.ids = {token: i for i, token in enumerate(tokens)}
        self.lower_case = lower_case
        self.special = [t for t in ("[CLS]", "[SEP]", "[MASK]", "[PAD]", "[UNK]", "[BOS]", "[EOS]")]
        self.known = {}

    @staticmethod
    def is_cjk(c):
        return any(a <= ord(c) <= b for a, b in (
            (0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F),
            (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)))

    @staticmethod
    def is_punctuation(c):
        n = ord(c)
        if 33 <= n <= 47 or 58 <= n <= 64 or 91 <= n <= 96 or 123 <= n <= 126:
            return True
        return unicodedata.category(c).startswith("P")

    def clean(self, text):
        out = []
        for c in text:
            if c in " \t\n\r" or unicodedata.category(c) == "Zs":
                out.append(" ")
            elif c in "\0\ufffd" or unicodedata.category(c) in ("Cc", "Cf"):
                continue
            else:
                out.append(f" {c} " if self.is_cjk(c) else c)
        return "".join(out)

    def words(self, text):
        for word in self.clean(text).split():
            if self.lower_case:
                word = "".join(c for c in unicodedata.normalize("NFD", word.lower()) if unicodedata.category(c) != "Mn")
            part = ""
            for c in word:
                if self.is_punctuation(c):
                    yield from ([part] if part else [])
                    yield c
                    part = ""
                elif c.isspace():
                    yield from ([part] if part else [])
                    part = ""
                else:
                    part += c
            yield from ([part] if part else [])

    def pieces(self, word):
        if word not in self.known:
            self.known[word] = self.cut(word)
        return self.known[word]

    def cut(self, word):
        if len(word) > self.LIMIT:
            return [self.ids["[UNK]"]]
        ids, start = [], 0
        while start < len(word):
            for end in range(len(word), start, -1):
                piece = ("##" if start else "") + word[start:end]
                if piece in self.ids:
                    ids.append(self.ids[piece])
                    start = end
                    break
            else:
                return [self.ids["[UNK]"]]
        return ids

    def encode_data(self, text):
        return [i for word in self.words(text) for i in self.pieces(word)]

    def encode(self, data, mode):
        text, ids, position = replaced(data), [], 0
        if mode == "data":
            return self.encode_data(text)
        for match in longest_of(self.special).finditer(text):
            ids += self.encode_data(text[position:match.start()]) + [self.ids[match[0]]]
            position = match.end()
        ids += self.encode_data(text[position:])
        return [self.ids["[CLS]"], *ids, self.ids["[SEP]"]] if mode == "added" else ids

    def decode(self, ids):
        return None


def gpt2(vocab, merges):
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    tokenizer = Tokenizer(models.BPE.from_file(str(vocab), str(merges)))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken("<|endoftext|>", special=True, normalized=False)])
    return Library(tokenizer, byte_level=True)


def from_file(path, byte_level):
    return Library(tokenizers.Tokenizer.from_file(str(path)), byte_level)
