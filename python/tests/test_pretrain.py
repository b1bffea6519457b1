"""Runs with callbacks, in threads, stopped."""

from __future__ import annotations

import logging
import os
import tempfile
import threading
import unittest
from typing import Any, Dict, List
from unittest import mock

import phalanx
from phalanx import _run

from .support import metrics, run_python, saving, tiny


class Pretrain(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.save = os.path.join(directory.name, "run")

    def tearDown(self) -> None:
        self.assertEqual(_run._runs, set())

    def saved_iteration(self) -> int:
        return phalanx.Checkpoint(self.save).iteration

    def test_callbacks(self) -> None:
        steps: List[Dict[str, Any]] = []
        events: List[str] = []
        threads = set()

        def on_step(step: Dict[str, Any]) -> None:
            threads.add(threading.current_thread())
            steps.append(step)

        def on_event(kind: str, event: Dict[str, Any]) -> None:
            threads.add(threading.current_thread())
            events.append(kind)

        result = phalanx.pretrain("gpt", on_step, on_event, **tiny(**saving(self.save)))
        self.assertEqual(result, phalanx.RunResult("finished", 4, 8))
        self.assertTrue(result.finished)
        self.assertEqual([step["iteration"] for step in steps], [1, 2, 3, 4])
        self.assertEqual(steps, metrics(self.save))
        self.assertEqual(threads, {threading.current_thread()})
        self.assertEqual(events[0], "begin")
        self.assertEqual(events[-1], "end")
        self.assertEqual(events.count("iteration"), 4)

    def test_true_stops(self) -> None:
        steps = []

        def on_step(step: Dict[str, Any]) -> bool:
            steps.append(step["iteration"])
            return len(steps) == 2

        result = phalanx.pretrain("gpt", on_step, **tiny(**saving(self.save), train_iters=1000))
        self.assertFalse(result.finished)
        self.assertEqual((steps, result.iteration, self.saved_iteration()), ([1, 2], 2, 2))

    def test_other_values_go_on(self) -> None:
        result = phalanx.pretrain("gpt", lambda step: step["lm_loss"], **tiny())
        self.assertTrue(result.finished)

    def test_an_exception_stops_and_is_raised(self) -> None:
        class Mine(Exception):
            pass

        steps = []

        def on_step(step: Dict[str, Any]) -> None:
            steps.append(step["iteration"])
            raise Mine("of the callback")

        with self.assertRaisesRegex(Mine, "of the callback"):
            phalanx.pretrain("gpt", on_step, **tiny(**saving(self.save), train_iters=1000))
        self.assertEqual((steps, self.saved_iteration()), ([1], 1))

    def test_an_exception_of_on_event(self) -> None:
        for kind in ("begin", "end"):

            def on_event(name: str, event: Dict[str, Any]) -> None:
                if name == kind:
                    raise ZeroDivisionError

            with self.assertRaises(ZeroDivisionError):
                phalanx.pretrain("gpt", None, on_event, **tiny())

    def test_a_stop_from_another_thread(self) -> None:
        stop = phalanx.Stop()
        results = []
        flags = tiny(train_iters=100_000)
        started = threading.Event()

        def train() -> None:
            results.append(
                phalanx.pretrain("gpt", lambda step: started.set(), stop=stop, **flags)
            )

        thread = threading.Thread(target=train)
        thread.start()
        self.assertTrue(started.wait(60))
        stop.request()
        stop.request()
        thread.join()
        self.assertFalse(results[0].finished)
        self.assertGreaterEqual(results[0].iteration, 1)

    def test_two_threads(self) -> None:
        losses: Dict[int, List[float]] = {0: [], 1: [], 2: []}

        def train(number: int) -> None:
            phalanx.pretrain("gpt", lambda step: losses[number].append(step["lm_loss"]), **tiny())

        threads = [threading.Thread(target=train, args=(number,)) for number in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        train(2)
        self.assertEqual(len(losses[0]), 4)
        self.assertEqual(losses[0], losses[2])
        self.assertEqual(losses[1], losses[2])

    def test_errors(self) -> None:
        for flags, code in (
            ({"num_attention_heads": 3}, phalanx.ExitCode.CONFIGURATION),
            ({"data_path": "/nowhere/x"}, phalanx.ExitCode.INPUT_MISSING),
            ({"hidden_sice": 8}, phalanx.ExitCode.USAGE),
        ):
            with self.subTest(flags), self.assertRaises(phalanx.PhalanxError) as caught:
                phalanx.pretrain("gpt", lambda step: None, **tiny(**flags))
            self.assertEqual(caught.exception.code, code, caught.exception)

    def test_no_thread(self) -> None:
        with mock.patch("threading.Thread.start", side_effect=RuntimeError("no thread")):
            with self.assertRaisesRegex(RuntimeError, "no thread"):
                phalanx.pretrain("gpt", **tiny())

    def test_logging(self) -> None:
        phalanx.set_logging(True)
        self.addCleanup(phalanx.set_logging, False)
        with self.assertLogs("phalanx", logging.INFO) as logs:
            phalanx.pretrain("gpt", **tiny())
        self.assertTrue(any("training" in line for line in logs.output), logs.output)


class Exit(unittest.TestCase):
    """The interpreter ends while a run goes on."""

    def test_a_daemon_threads_run_saves(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            save = os.path.join(directory, "run")
            child = run_python(
                "import logging, sys, threading, phalanx\n"
                "from tests.support import saving, tiny\n"
                "logging.basicConfig(level=logging.INFO)\n"
                "phalanx.set_logging(True)\n"
                "begun = threading.Event()\n"
                "flags = tiny(train_iters=10**5, **saving(sys.argv[1]))\n"
                "call = lambda: phalanx.pretrain('gpt', lambda step: begun.set(), **flags)\n"
                "threading.Thread(target=call, daemon=True).start()\n"
                "assert begun.wait(60)\n",
                save,
            )
            _, err = child.communicate()
            self.assertEqual(child.returncode, 0, err)
            self.assertGreaterEqual(phalanx.Checkpoint(save).iteration, 1)
