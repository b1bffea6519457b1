"""Texts that are the same in every run: mixed lines, random Unicode, random bytes."""

import pathlib
import random
import shutil
import subprocess
import unicodedata

SPECIAL = ["<|endoftext|>", "<|end|>", "[CLS]", "[SEP]", "[MASK]", "[BOS]", "<s>", "</s>", "<unk>", "<EOD>", "<pad>",
           "<extra_id_1>", "<0x41>", "ABX", "abx", "\u2581"]

# First and last character of the letters of scripts.
SCRIPTS = [(0xC0, 0xFF), (0x100, 0x17F), (0x391, 0x3C9), (0x410, 0x44F), (0x531, 0x556), (0x5D0, 0x5EA), (0x621, 0x64A),
           (0x905, 0x939), (0xE01, 0xE2E), (0x10D0, 0x10F0), (0x1200, 0x1246), (0x3041, 0x3093), (0x30A1, 0x30F6),
           (0xAC00, 0xD7A3), (0x4E00, 0x9FA5), (0x3400, 0x4DB5), (0x20000, 0x2A6D6), (0x1E00, 0x1E99), (0x1F00, 0x1F15)]
WITHOUT_BLANKS = {0xE01, 0x3041, 0x30A1, 0x4E00, 0x3400, 0x20000}
BLANKS = [" ", "  ", "   ", "\t", "\u00a0", "\u3000", "\u2003", "\u0085", "\u2028", "\u180e", "\u200b", "\u200d", "\x1c",
          "\r", "\x0b", "\x0c", "\u202f", "\u1680", "\ufeff"]
ODD = ["\u0130stanbul", "\u03a3\u0399\u03a3", "\u039f\u0394\u039f\u03a3.", "stra\u00dfe", "\ufb01n", "\uff21\uff22\uff23",
       "\u2163", "\u00bd", "\u00b2", "\u0661\u0662\u0663", "12345678", "1,234.5", "'s", "'LL", "'\u017f", "\u2019s", "don't",
       "I'VE", "a\u0301", "e\u0301\u0323", "\u0928\u093f", "\u1100\u1161\u11a8", "\u212b", "\ufdfa", "\u01c5", "\u02b0",
       "\U0001f600", "\U0001f469\u200d\U0001f4bb", "\U0001f44d\U0001f3fd", "\U0001f1e9\U0001f1ea", "\u2764\ufe0f", "\u203f",
       "a_b", "#$%", "C++", "\x00", "\x7f", "\ufffd", "\u2581a", "\u0120x", "\u24d0", "\ud55c\uae00", "\u110b", "..."]


def long_assigned():
    """Code points that meant the same 20 years ago: libraries are of different versions of Unicode."""
    old = unicodedata.ucd_3_2_0
    return [c for c in map(chr, range(0x110000))
            if old.category(c) == unicodedata.category(c) and unicodedata.category(c) not in ("Cn", "Cs", "Co")]


def english():
    if shutil.which("bible"):
        text = subprocess.run(["bible", "-f", "gen1:1-rev22:21"], capture_output=True, check=True).stdout
        return [line.partition(" ")[2] for line in text.decode("latin-1").splitlines()]
    rng = random.Random(7)
    letters = "etaoinshrdlucmfwypvbgk"
    words = ["".join(rng.choices(letters, weights=range(22, 0, -1), k=rng.randint(1, 9))) for _ in range(9000)]
    weights = [1 / (i + 2) for i in range(len(words))]
    return [" ".join(rng.choices(words, weights, k=rng.randint(5, 30))).capitalize() + "." for _ in range(35000)]


def code():
    root = pathlib.Path("src")
    return [line for path in sorted(root.rglob("*.cc")) for line in path.read_text().splitlines() if line]


class Mixer:
    """Lines of every sort, one after the other."""

    def __init__(self, seed=1):
        self.rng = random.Random(seed)
        self.english = english()
        self.code = code()
        self.marks = [c for c in long_assigned() if unicodedata.category(c) == "Mn"]

    def letter(self, first, last):
        """The first ones of a script are frequent, so that a vocabulary can hold them."""
        return chr(first + min(last - first, int(self.rng.expovariate(1 / 25))))

    def script_line(self):
        rng = self.rng
        first, last = rng.choice(SCRIPTS)
        gap = "" if first in WITHOUT_BLANKS and rng.random() < 0.8 else " "
        words = ["".join(self.letter(first, last) for _ in range(rng.randint(1, 8))) for _ in range(rng.randint(2, 20))]
        line = gap.join(words) + rng.choice(["", ".", "!", "\u3002", "\u060c", " -", "?!"])
        return unicodedata.normalize(rng.choice(["NFC", "NFD"]), line) if rng.random() < 0.3 else line

    def odd_line(self):
        rng = self.rng
        parts = []
        for _ in range(rng.randint(1, 20)):
            kind = rng.random()
            if kind < 0.35:
                parts.append(rng.choice(BLANKS))
            elif kind < 0.65:
                parts.append(rng.choice(ODD))
            elif kind < 0.7:
                parts.append(rng.choice(self.marks))
            elif kind < 0.76:
                parts.append(rng.choice(SPECIAL))
            else:
                parts.append(rng.choice(rng.choice(self.english).split() or ["a"]))
        return "".join(parts)

    def line(self):
        kind = self.rng.random()
        if kind < 0.45:
            return self.rng.choice(self.english)
        if kind < 0.65:
            return self.rng.choice(self.code)
        return self.script_line() if kind < 0.85 else self.odd_line()


def mixed_lines(size, seed=1):
    mixer, lines = Mixer(seed), []
    while size > 0:
        line = mixer.line().replace("\n", " ")
        lines.append(line)
        size -= len(line.encode())
    return lines


def random_unicode(count, seed=2):
    rng, letters = random.Random(seed), long_assigned()
    letters.remove("\n")
    low = [c for c in letters if ord(c) < 0x250]
    return ["".join(rng.choice(low if rng.random() < 0.4 else letters) for _ in range(rng.randint(1, 40)))
            for _ in range(count)]


def random_bytes(count, seed=3):
    """Lines of bytes, some of them UTF-8 that is broken here and there."""
    rng, lines = random.Random(seed), []
    for text in random_unicode(count, seed):
        if rng.random() < 0.5:
            line = rng.randbytes(rng.randint(1, 40))
        else:
            line = bytearray(text.encode())
            for _ in range(rng.randint(1, 4)):
                line[rng.randrange(len(line))] = rng.randrange(256)
        lines.append(bytes(line).replace(b"\n", b"\xc3"))
    return lines


def wholes(lines, count, seed=4):
    """Texts with line breaks of every sort in them."""
    rng, texts = random.Random(seed), []
    for _ in range(count):
        parts = []
        for _ in range(rng.randint(1, 12)):
            parts += [rng.choice(lines)[:200], rng.choice(["\n", "\n", "\n\n", "\r\n", " \n", "\n  ", "\n\n\n\t", "\r"])]
        texts.append("".join(parts[:-1] if rng.random() < 0.7 else parts))
    return texts + ["", "\n", " ", "a", "\n\n a"]
