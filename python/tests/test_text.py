"""Tokenizers, generation and scores."""

from __future__ import annotations

import math
import threading
import unittest
from typing import Any, Dict, List

import phalanx

from .support import HAS_NUMPY, tokenizer_flags, trained_run

_OPTIONS: Dict[str, Any] = {"max_tokens": 3, "temperature": 0, "threads_per_rank": 1}


class Tokenizers(unittest.TestCase):
    def test_there_and_back(self) -> None:
        tokenizer = phalanx.Tokenizer(**tokenizer_flags())
        text = "And the 3 said ☕, behold"
        ids = tokenizer.encode(text)
        self.assertEqual(tokenizer.decode(ids), text)
        self.assertEqual(tokenizer.encode([text, "x"]), [ids, tokenizer.encode("x")])
        self.assertEqual(tokenizer.decode([ids, []]), [text, ""])
        self.assertEqual((tokenizer.encode([]), tokenizer.encode("")), ([], []))
        self.assertEqual((tokenizer.decode([]), tokenizer.decode([[]])), ("", [""]))
        self.assertTrue(all(0 <= one < tokenizer.vocab_size for one in ids))
        self.assertIsInstance(tokenizer.special_tokens["eod"], int)
        eod = tokenizer.special_tokens["eod"]
        self.assertEqual(tokenizer.decode([*ids, eod], skip_special_tokens=True), text)
        written = tokenizer.decode([eod])
        self.assertEqual(tokenizer.encode(written, parse_special_tokens=True), [eod])
        self.assertNotEqual(tokenizer.encode(written), [eod])
        if HAS_NUMPY:
            import numpy as np

            self.assertEqual(tokenizer.decode(np.array(ids, np.uint16)), text)
            self.assertEqual(tokenizer.decode(np.array([ids, ids])), [text, text])

    def test_of_a_checkpoint(self) -> None:
        of_run = phalanx.Tokenizer(load=trained_run())
        of_files = phalanx.Tokenizer(**tokenizer_flags())
        self.assertEqual(of_run.vocab_size, of_files.vocab_size)
        self.assertEqual(of_run.encode("behold"), of_files.encode("behold"))

    def test_errors(self) -> None:
        tokenizer = phalanx.Tokenizer(**tokenizer_flags())
        with self.assertRaises(phalanx.PhalanxError) as caught:
            tokenizer.decode([10**6])
        self.assertEqual(caught.exception.code, phalanx.ExitCode.BAD_DATA)
        with self.assertRaisesRegex(TypeError, "not a int"):
            tokenizer.encode([1])  # type: ignore[list-item]
        with self.assertRaisesRegex(ValueError, "not UTF-8"):
            tokenizer.encode("\udcff")
        with self.assertRaises(TypeError):
            phalanx.Tokenizer()
        with self.assertRaises(TypeError):
            phalanx.Tokenizer(load=trained_run(), **tokenizer_flags())
        with self.assertRaises(phalanx.PhalanxError):
            phalanx.Tokenizer(vocab_file="/nowhere/vocab.json", merge_file="/nowhere/merges.txt")
        tokenizer.close()
        with self.assertRaisesRegex(ValueError, "this Tokenizer is closed"):
            tokenizer.encode("x")

    def test_threads_share_one(self) -> None:
        tokenizer = phalanx.Tokenizer(**tokenizer_flags())
        texts: List[str] = []

        def work(text: str) -> None:
            for _ in range(20):
                texts.append(tokenizer.decode(tokenizer.encode(text)))

        threads = [threading.Thread(target=work, args=(text,)) for text in ("one", "two")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual((texts.count("one"), texts.count("two")), (20, 20))


class Inference(unittest.TestCase):
    def test_generate(self) -> None:
        tokenizer = phalanx.Tokenizer(load=trained_run())
        answer = phalanx.generate(trained_run(), "And the", **_OPTIONS)
        self.assertEqual(answer["prompt"], tokenizer.encode("And the"))
        self.assertLessEqual(len(answer["tokens"]), 3)
        answers = phalanx.generate(
            trained_run(), ["And the", "said"], **_OPTIONS
        )
        self.assertEqual([one["prompt"] for one in answers][1], tokenizer.encode("said"))
        self.assertEqual(answers[0]["tokens"], answer["tokens"])

    def test_score(self) -> None:
        score = phalanx.score(trained_run(), "And the 3 said")
        ids: List[int] = score["tokens"]
        self.assertEqual(ids, phalanx.Tokenizer(load=trained_run()).encode("And the 3 said"))
        mean = -sum(score["log_probabilities"]) / (len(ids) - 1)
        self.assertTrue(math.isclose(score["loss"], mean, rel_tol=1e-5))
        several: List[Any] = phalanx.score(trained_run(), ["And the 3 said", "said unto"])
        self.assertEqual(several[0], score)
        self.assertEqual(phalanx.score(trained_run(), tokens=[ids])[0], score)

    def test_errors(self) -> None:
        with self.assertRaises(phalanx.PhalanxError) as caught:
            phalanx.generate("/nowhere/x", "And")
        self.assertEqual(caught.exception.code, phalanx.ExitCode.INPUT_MISSING)
        with self.assertRaises(TypeError):
            phalanx.score(trained_run())
        with self.assertRaises(phalanx.PhalanxError):
            phalanx.score(trained_run(), [""])
