"""Ctrl-C."""

from __future__ import annotations

import os
import signal
import tempfile
import unittest

import phalanx

from .support import run_python

# Says "begun" in an iteration, and what became of it.
SCRIPT = """
import signal, sys, time, phalanx
from tests.support import saving, tiny
signal.signal(signal.SIGINT, signal.default_int_handler)
flags = tiny(train_iters=10**5, **saving(sys.argv[1]))
def on_step(step):
    if step["iteration"] == 3:
        print("begun", flush=True)
try:
    phalanx.pretrain("gpt", on_step, **flags)
except KeyboardInterrupt:
    print("interrupted", phalanx.Checkpoint(sys.argv[1]).iteration, flush=True)
"""

# The second Ctrl-C comes while the run is asked to stop.
TWICE = """
import os, signal, sys, phalanx
from tests.support import saving, tiny
signal.signal(signal.SIGINT, signal.default_int_handler)
flags = tiny(train_iters=10**5, **saving(sys.argv[1]))
leave = phalanx._run._Run.leave
def interrupted_leave(run):
    phalanx._run._Run.leave = leave
    leave(run)
    os.kill(os.getpid(), signal.SIGINT)
def on_step(step):
    phalanx._run._Run.leave = interrupted_leave
    os.kill(os.getpid(), signal.SIGINT)
try:
    phalanx.pretrain("gpt", on_step, **flags)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


class Interrupt(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.save = os.path.join(directory.name, "run")

    def test_saves_and_is_raised(self) -> None:
        child = run_python(SCRIPT, self.save)
        assert child.stdout is not None
        self.assertEqual(child.stdout.readline(), "begun\n")
        child.send_signal(signal.SIGINT)
        out, err = child.communicate()
        self.assertEqual(child.returncode, 0, err)
        self.assertGreaterEqual(phalanx.Checkpoint(self.save).iteration, 3)
        self.assertEqual(out.split()[0], "interrupted", err)
        self.assertEqual(int(out.split()[1]), phalanx.Checkpoint(self.save).iteration)

    def test_twice_is_raised_at_once_and_the_state_is_saved_at_exit(self) -> None:
        child = run_python(TWICE, self.save)
        out, err = child.communicate()
        self.assertEqual(child.returncode, 0, err)
        self.assertEqual(out, "interrupted\n", err)
        self.assertGreaterEqual(phalanx.Checkpoint(self.save).iteration, 1)
