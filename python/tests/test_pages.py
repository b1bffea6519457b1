"""The notebook, and docs/python.md."""

from __future__ import annotations

import contextlib
import doctest
import io
import json
import logging
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest
from typing import Any, Dict

import phalanx

from .notebook import run_file
from .support import ROOT, needs_numpy

PAGE = ROOT / "docs" / "python.md"


class Notebooks(unittest.TestCase):
    @needs_numpy
    def test_runs(self) -> None:
        path = ROOT / "examples" / "notebook" / "first_steps.ipynb"
        kept = json.loads(path.read_text(encoding="utf-8"))
        made = run_file(path)
        for before, after in zip(kept["cells"], made["cells"]):
            kinds = [
                [(one["output_type"], sorted(one.get("data", ()))) for one in cell["outputs"]]
                for cell in (before, after)
                if cell["cell_type"] == "code"
            ]
            if kinds:
                self.assertEqual(kinds[0], kinds[1], "".join(before["source"]))
        self.assertLess(path.stat().st_size, 100_000)


class Page(unittest.TestCase):
    @needs_numpy
    def test_the_tutorial_and_the_examples_run(self) -> None:
        tutorial = PAGE.read_text().split("\n## Reference")[0]
        blocks = re.findall(r"```python\n(.*?)```", tutorial, re.DOTALL)
        self.assertGreater(len(blocks), 4)
        before = os.getcwd()
        terminates = signal.getsignal(signal.SIGTERM)
        with tempfile.TemporaryDirectory() as directory:
            os.chdir(directory)
            try:
                names: Dict[str, Any] = {}
                with contextlib.redirect_stdout(io.StringIO()):
                    for block in blocks:
                        exec(compile(block, "docs/python.md", "exec"), names)
                self.run_examples(names)
            finally:
                os.chdir(before)
                signal.signal(signal.SIGTERM, terminates)
                phalanx.set_logging(False)

    def run_examples(self, names: Dict[str, Any]) -> None:
        """The examples of the docstrings, behind the tutorial."""
        names.update(logging=logging, signal=signal, tokenizer=phalanx.Tokenizer(load="run"))
        finder = doctest.DocTestFinder()
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
        failures = io.StringIO()
        for name in phalanx.__all__:
            for test in finder.find(getattr(phalanx, name), name, globs=names):
                runner.run(test, out=failures.write)
        self.assertEqual(failures.getvalue(), "")
        self.assertGreater(runner.tries, 20)

    def test_the_reference_is_of_the_docstrings(self) -> None:
        tool = ROOT / "tools" / "draw-python-page"
        check = subprocess.run(
            [sys.executable, str(tool), "--check"], stderr=subprocess.PIPE, text=True
        )
        self.assertEqual(check.returncode, 0, check.stderr)

    def test_every_name_is_explained(self) -> None:
        text = PAGE.read_text()
        for name in phalanx.__all__:
            self.assertIn(f"phalanx.{name}", text)
            self.assertTrue(getattr(phalanx, name).__doc__, name)
