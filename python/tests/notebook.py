"""Runs the code cells of a notebook in order. With --write their outputs are kept in the file.

usage: PYTHONPATH=python python3 -m tests.notebook [--write] FILE.ipynb
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import pathlib
import sys
import tempfile
from typing import Any, Dict, List


def _outputs_of(printed: str, value: Any) -> List[Dict[str, Any]]:
    """As Jupyter writes them."""
    outputs: List[Dict[str, Any]] = []
    if printed:
        lines = printed.splitlines(keepends=True)
        outputs.append({"name": "stdout", "output_type": "stream", "text": lines})
    if value is not None:
        data = {"text/plain": repr(value).splitlines(keepends=True)}
        if hasattr(value, "_repr_svg_"):
            data["image/svg+xml"] = value._repr_svg_().splitlines(keepends=True)
        outputs.append({"data": data, "metadata": {}, "output_type": "display_data"})
    return outputs


def run_notebook(notebook: Dict[str, Any]) -> None:
    """Runs the cells in the current directory, and sets their outputs."""
    names: Dict[str, Any] = {"__name__": "__main__"}
    number = 0
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        number += 1
        tree = ast.parse("".join(cell["source"]))
        value = None
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            last = tree.body[-1] if tree.body else None
            if isinstance(last, ast.Expr):
                tree.body.pop()
            exec(compile(tree, f"cell {number}", "exec"), names)
            if isinstance(last, ast.Expr):
                expression = ast.Expression(last.value)
                value = eval(compile(expression, f"cell {number}", "eval"), names)
        cell["execution_count"] = number
        cell["outputs"] = _outputs_of(printed.getvalue(), value)


def run_file(path: pathlib.Path) -> Dict[str, Any]:
    """Runs a notebook in a directory of its own, and returns it with its new outputs."""
    notebook: Dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        try:
            run_notebook(notebook)
        finally:
            os.chdir(before)
    return notebook


def main() -> None:
    words = sys.argv[1:]
    writes = "--write" in words
    for name in words:
        if name == "--write":
            continue
        path = pathlib.Path(name)
        notebook = run_file(path)
        if writes:
            text = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
            path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
