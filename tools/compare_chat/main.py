"""Renders, encodes and masks conversations with transformers and with phalanx, and counts what is the same."""

import argparse
import datetime
import json
import subprocess
import sys
import sysconfig
from collections import Counter
from pathlib import Path

import jinja2
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast
from transformers.utils import chat_template_utils

DATE = datetime.date(2024, 7, 26)


def conversation(*contents, system=None, first="user"):
    """Turns of two speakers, the first one named."""
    speakers = ["user", "assistant"] if first == "user" else ["assistant", "user"]
    messages = [{"role": speakers[i % 2], "content": text} for i, text in enumerate(contents)]
    return ([{"role": "system", "content": system}] if system is not None else []) + messages


CONVERSATIONS = [
    conversation("a", "b"),
    conversation(" hi ", " yo\n", "é?", "ok", system="S"),
    conversation("a", "b", "c", "d"),
    conversation("What now?", system="  Be brief.\n"),
    conversation("a", "<think>\nhm\n</think>\n\nanswer", "b", "<think>x</think>y"),
    conversation("hello", "I begin", first="assistant"),
    conversation("日本語 \u3000", "\u00a0Emoji 😀 naïve\n\n"),
    conversation("{{ x }} {% if %}", "'\"\\ <b>& 1 < 2"),
    conversation("/think w", "<|channel|>final z", "v", "ends with é", system="/no_think s"),
    conversation(*["a", "b"] * 8),
    [{"role": "developer", "content": "D"}, *conversation("x", "y")],
    [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}],
    conversation("", "no question"),
    # Keys beside role and content, and another order of these.
    [{"role": "user", "content": "2+2?", "name": "Ann"},
     {"role": "assistant", "reasoning_content": " two and two ", "content": "4"},
     {"role": "user", "content": "3+3?"},
     {"content": "6", "reasoning_content": "é", "thinking": "hm", "weight": 1, "role": "assistant"}],
    [{"role": "user", "content": "a", "tool_call_id": "x", "n": [1, 2.5, True, {"k": None}]},
     {"role": "assistant", "content": "b", "thinking": "t", "reasoning": "r", "thought": "s"}],
]


class Raised(Exception):
    """What a template raises."""


def make_tokenizer(texts, folder):
    """A byte-level BPE whose merges go across the borders of turns, in a folder as published ones are."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=700, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False,
            special_tokens=["<s>", "</s>", "<pad>", "<|im_start|>", "<|im_end|>", "<|eot_id|>"]))
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>")
    fast.save_pretrained(folder)
    return fast


class Library:
    """transformers' own environment for templates."""

    def __init__(self, source):
        self.template = chat_template_utils._compile_jinja_template(source)
        self.tracks = "endgeneration" in source

    def render(self, messages, prompt, tokens):
        """The text, and the spans of generation in characters."""
        pieces, spans = [], []
        variables = {"messages": messages, "tools": None, "documents": None,
                     "add_generation_prompt": prompt, **tokens}
        with self.template.environment.activate_tracker(pieces, spans):
            for piece in self.template.generate(**variables):
                pieces.append(piece)
        return "".join(pieces), spans

    def spans(self, messages, text, spans, tokens):
        """What is trained; None where the template does not show it."""
        if self.tracks:
            return spans
        found = []
        for k, message in enumerate(messages):
            if message["role"] != "assistant":
                continue
            if k == 0:
                return None
            try:
                before = self.render(messages[:k], True, tokens)[0]
                after = self.render(messages[: k + 1], False, tokens)[0]
            except (Raised, jinja2.TemplateError, TypeError):
                return None
            if not text.startswith(before) or not text.startswith(after):
                return None
            found.append((len(before), len(after)))
        return found


def expected(library, tokenizer, messages, prompt):
    """A line as phalanx prints it."""
    tokens = tokenizer.special_tokens_map
    try:
        text, spans = library.render(messages, prompt, tokens)
    except Raised as raised:
        return {"error": str(raised)}
    except (jinja2.TemplateError, TypeError) as error:
        return {"fault": repr(error)}
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    spans = library.spans(messages, text, spans, tokens)
    mask = None
    if spans is not None:
        mask = [int(any(max(a, begin) < min(b, end) for a, b in spans))
                for begin, end in encoded["offset_mapping"]]
    return {"text": text, "ids": list(encoded["input_ids"]), "mask": mask}


def phalanx(arguments, folder, template, prompt):
    """The lines, or the message where the template is refused."""
    command = [arguments.build + "/phalanx", "tokenize", "--chat", "--lines", "--json", "--tokenizer-type",
               "HuggingFaceTokenizer", "--tokenizer-model", str(folder), "--chat-template", str(template),
               "--chat-template-date", DATE.isoformat()]
    lines = "".join(json.dumps({"messages": messages}) + "\n" for messages in CONVERSATIONS)
    done = subprocess.run(command + ["--add-generation-prompt"] * prompt, input=lines.encode(),
                          capture_output=True, check=False)
    if done.returncode != 0:
        return done.stderr.decode().strip()
    return [json.loads(line) for line in done.stdout.decode().split("\n") if line]


def main():
    parser = argparse.ArgumentParser()
    for name in ("--work", "--build", "--templates"):
        parser.add_argument(name, required=True)
    arguments = parser.parse_args()
    words = [word for word in arguments.templates.split(",") if word]
    found = sorted(Path(sysconfig.get_path("purelib")).glob("trl/chat_templates/*.jinja"))
    found = [file for file in found if not words or any(word in file.name for word in words)]

    libraries = {}
    for file in found:
        library = libraries[file] = Library(file.read_text())

        def refuse(message):
            raise Raised(message)

        library.template.globals["raise_exception"] = refuse
        library.template.globals["strftime_now"] = lambda form: DATE.strftime(form)

    texts = [message["content"] for messages in CONVERSATIONS for message in messages]
    texts += ["assistant\n", "<|im_end|>\n<|im_start|>user\n", "<|start_header_id|>assistant<|end_header_id|>\n\n"] * 3
    folder = Path(arguments.work) / "tokenizer"
    tokenizer = make_tokenizer(texts, folder)

    lines, same, different, refused = Counter(), 0, [], []
    for file, library in libraries.items():
        equal = True
        for prompt in (False, True):
            ours = phalanx(arguments, folder, file, prompt)
            if isinstance(ours, str):
                refused.append(f"{file.name}: {ours}")
                equal = None
                break
            for messages, line in zip(CONVERSATIONS, ours, strict=True):
                theirs = expected(library, tokenizer, messages, prompt)
                if "fault" in theirs:
                    kind, is_same = "faults of the template", "error" in line
                elif "error" in theirs:
                    kind, is_same = "refused conversations", line == theirs
                else:
                    kind, is_same = "texts", line.get("text") == theirs["text"]
                    lines["ids", line.get("ids") == theirs["ids"]] += 1
                    has_mask = theirs["mask"] is not None
                    mask_is_same = line.get("mask", 0) == theirs["mask"]
                    lines["masks" if has_mask else "masks that there are not", mask_is_same] += 1
                    if is_same and (line.get("ids") != theirs["ids"] or not mask_is_same):
                        equal = False
                        different.append(f"{file.name}: ids or mask of {messages}: {theirs} against {line}")
                lines[kind, is_same] += 1
                if not is_same:
                    equal = False
                    different.append(f"{file.name}: {messages}: {theirs} against {line}")
        same += equal is True
    for kind in sorted({kind for kind, _ in lines}):
        print(f"{kind}: {lines[kind, True]} the same, {lines[kind, False]} others")
    for text in (different[:20] + refused):
        print(text[:1000])
    print(f"{same} of {len(found)} templates the same, {len(refused)} refused")
    return 0 if same == len(found) else 1


if __name__ == "__main__":
    sys.exit(main())
