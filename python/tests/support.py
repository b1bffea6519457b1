"""What tests share: a tiny model, its data, and skips."""

from __future__ import annotations

import atexit
import functools
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
from typing import Any, Dict, List

import phalanx

ROOT = pathlib.Path(__file__).parents[2]

HAS_NUMPY = importlib.util.find_spec("numpy") is not None

needs_numpy = unittest.skipUnless(HAS_NUMPY, "there is no NumPy")

# A model that trains in a fraction of a second.
_TINY: Dict[str, Any] = {
    "num_layers": 1,
    "hidden_size": 16,
    "num_attention_heads": 2,
    "seq_length": 16,
    "max_position_embeddings": 16,
    "micro_batch_size": 2,
    "global_batch_size": 2,
    "lr": 1e-2,
    "train_iters": 4,
    "eval_iters": 0,
    "threads_per_rank": 1,
    "split": "100,0,0",
}


def saving(directory: object) -> Dict[str, Any]:
    """Flags that save at the end of a run."""
    return {"save": str(directory), "save_interval": 100_000_000}


def words(flags: Dict[str, Any]) -> List[str]:
    """Flags as the program takes them."""
    line = []
    for name, value in flags.items():
        line.append("--" + name.replace("_", "-"))
        if value is not True:
            line.extend(str(one) for one in (value if isinstance(value, list) else [value]))
    return line


@functools.lru_cache(maxsize=None)
def folder() -> pathlib.Path:
    """A directory of this process, removed at its end."""
    path = tempfile.mkdtemp(prefix="phalanx_python_")
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return pathlib.Path(path)


@functools.lru_cache(maxsize=None)
def tokenizer_flags() -> Dict[str, str]:
    """A tokenizer and the dataset `folder()/data_text_document`, of a repetitive text."""
    text = folder() / "text.txt"
    lines = (f"And the {i % 7} said unto the {i % 5}, behold.\n\n" for i in range(60))
    text.write_text("".join(lines))
    phalanx.command("train-tokenizer", input=text, vocab_size=300, output=folder() / "tok")
    files = {
        "vocab_file": str(folder() / "tok" / "vocab.json"),
        "merge_file": str(folder() / "tok" / "merges.txt"),
    }
    phalanx.command(
        "preprocess-data",
        input=text,
        split_on_blank_lines=True,
        append_eod=True,
        output_prefix=folder() / "data",
        **files,
    )
    return files


def dataset_prefix() -> str:
    tokenizer_flags()
    return str(folder() / "data_text_document")


def tiny(**more: Any) -> Dict[str, Any]:
    """The flags of a tiny model on the text."""
    return {**_TINY, **tokenizer_flags(), "data_path": dataset_prefix(), **more}


@functools.lru_cache(maxsize=None)
def trained_run() -> str:
    """The save directory of a model that was trained on the text."""
    flags = saving(folder() / "run")
    phalanx.pretrain("gpt", **tiny(**flags))
    return str(flags["save"])


def metrics(save: str) -> List[Dict[str, Any]]:
    """The iterations in metrics.jsonl."""
    lines = (pathlib.Path(save) / "metrics.jsonl").read_text().splitlines()
    return [line for line in map(json.loads, lines) if "eval" not in line]


def run_python(script: str, *arguments: str) -> "subprocess.Popen[str]":
    """A child process with the package."""
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=dict(os.environ, PYTHONPATH=str(ROOT / "python")),
    )
