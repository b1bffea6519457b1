"""Flags, errors and the library's file: what needs no run."""

from __future__ import annotations

import ctypes
import os
import pathlib
import pickle
import re
import unittest
from unittest import mock

import phalanx
from phalanx import _library, _requests

from .support import HAS_NUMPY, ROOT


class Flags(unittest.TestCase):
    def test_values(self) -> None:
        flags = {
            "num_layers": 2,
            "lr": 1e-3,
            "bf16": True,
            "fp16": False,
            "seed": None,
            "data_path": ["1", pathlib.Path("a")],
            "save": pathlib.Path("run"),
        }
        self.assertEqual(
            _requests.request_of("gpt", None, flags),
            {"model": "gpt", "flags": {**flags, "data_path": ["1", "a"], "save": "run"}},
        )

    @unittest.skipUnless(HAS_NUMPY, "there is no NumPy")
    def test_values_of_numpy(self) -> None:
        import numpy as np

        flags = {"a": np.int64(2), "b": np.float32(0.5), "c": np.bool_(True), "d": np.arange(2)}
        self.assertEqual(
            _requests.to_flags(flags), {"a": 2, "b": 0.5, "c": True, "d": [0, 1]}
        )
        self.assertIs(_requests.to_flags(flags)["c"], True)

    def test_words(self) -> None:
        request = _requests.request_of("gpt", ["--lr", 1e-3, pathlib.Path("x")], {"seed": 1})
        words = ["--lr", "0.001", "x"]
        self.assertEqual(request, {"model": "gpt", "arguments": words, "flags": {"seed": 1}})

    def test_what_is_no_flag(self) -> None:
        for flags, message in (
            ({"lr": float("nan")}, "lr=nan"),
            ({"lr": object()}, "lr is a object"),
            ({"lr": {"a": 1}}, "lr is a dict"),
            ({"data_path": ["a", None]}, "data_path has None"),
        ):
            with self.assertRaisesRegex((TypeError, ValueError), message):
                _requests.to_flags(flags)
        with self.assertRaisesRegex(TypeError, "arguments is one text"):
            phalanx.plan(arguments="--lr 1")

    def test_texts_that_are_not_utf8(self) -> None:
        with self.assertRaisesRegex(ValueError, "not UTF-8"):
            phalanx.plan(data_path=os.fsdecode(b"\xff"))
        with self.assertRaisesRegex(ValueError, "zero byte"):
            phalanx.Dataset("a\0b")


class Errors(unittest.TestCase):
    def test_code_and_message(self) -> None:
        with self.assertRaises(phalanx.PhalanxError) as caught:
            phalanx.plan("gpt", num_layer=2)
        self.assertIs(caught.exception.code, phalanx.ExitCode.USAGE)
        self.assertIn("num-layer", caught.exception.message)
        self.assertEqual(str(caught.exception), caught.exception.message)

    def test_a_missing_file(self) -> None:
        for opening in (phalanx.Dataset, phalanx.Checkpoint):
            with self.assertRaises(phalanx.PhalanxError) as caught:
                opening("/nowhere/x")
            self.assertEqual(caught.exception.code, phalanx.ExitCode.INPUT_MISSING)
            self.assertIn("/nowhere/x", caught.exception.message)

    def test_pickle(self) -> None:
        copy = pickle.loads(pickle.dumps(phalanx.PhalanxError(65, "x")))
        self.assertEqual((copy.code, copy.message), (65, "x"))

    def test_codes_are_those_of_the_page(self) -> None:
        page = (ROOT / "docs" / "exit-codes.md").read_text()
        told = {
            re.sub(r"(?<!^)(?=[A-Z])", "_", name).upper(): int(code)
            for code, name in re.findall(r"\| (\d+) \| `k(\w+)` \|", page)
        }
        self.assertEqual({code.name: code.value for code in phalanx.ExitCode}, told)


class LibraryFile(unittest.TestCase):
    def test_a_named_file_that_is_not_there(self) -> None:
        with mock.patch.dict(os.environ, PHALANX_LIBRARY="/nowhere/libphalanx.so"):
            with self.assertRaisesRegex(ImportError, "/nowhere/libphalanx.so"):
                _library.library_path()

    def test_a_file_of_the_current_directory(self) -> None:
        path = _library.library_path()
        before = os.getcwd()
        os.chdir(os.path.dirname(path))
        try:
            with mock.patch.dict(os.environ, PHALANX_LIBRARY=os.path.basename(path)):
                self.assertEqual(_library.library_path(), path)
        finally:
            os.chdir(before)

    def test_another_version(self) -> None:
        with mock.patch.object(_library, "INTERFACE_VERSION", 99):
            with self.assertRaisesRegex(ImportError, "this package needs 99"):
                _library._open(_library.library_path())

    def test_another_library(self) -> None:
        with self.assertRaisesRegex(ImportError, "is no libphalanx.so"):
            _library._open(ctypes.util.find_library("c") or "libc.so.6")

    def test_all_functions_of_the_header(self) -> None:
        header = (ROOT / "src" / "phalanx" / "library" / "phalanx.h").read_text()
        declared = set(re.findall(r"\b(phalanx_\w+)\(", header))
        self.assertEqual(set(_library.function_names()), declared)

    def test_version(self) -> None:
        self.assertEqual(phalanx.version(), phalanx.__version__)
        project = (ROOT / "CMakeLists.txt").read_text()
        self.assertIn(f"project(phalanx VERSION {phalanx.__version__} ", project)
