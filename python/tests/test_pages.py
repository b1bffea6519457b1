"""The notebook, and docs/python.md."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

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
    def test_the_tutorial_runs(self) -> None:
        tutorial = PAGE.read_text().split("\n## Reference")[0]
        blocks = re.findall(r"```python\n(.*?)```", tutorial, re.DOTALL)
        self.assertGreater(len(blocks), 4)
        before = os.getcwd()
        with tempfile.TemporaryDirectory() as directory:
            os.chdir(directory)
            try:
                names: dict = {}
                with contextlib.redirect_stdout(io.StringIO()):
                    for block in blocks:
                        exec(compile(block, "docs/python.md", "exec"), names)
            finally:
                os.chdir(before)

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
