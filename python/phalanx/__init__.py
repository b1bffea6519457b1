"""Phalanx trains Transformer language models that are too big for one device, on CPUs.

This package is the library libphalanx.so in Python: plans, training, datasets, checkpoints, text.
docs/python.md explains it.
"""

from ._checkpoint import Checkpoint
from ._command import CommandOutput, command
from ._dataset import Dataset
from ._errors import ExitCode, PhalanxError
from ._inference import generate, score
from ._library import version
from ._logging import set_logging
from ._plan import Plan, grid, plan
from ._report import Report
from ._run import RunResult, Stop, pretrain
from ._schedule import Schedule, schedule
from ._tokenizer import Tokenizer

__version__ = "0.1.0"

__all__ = [
    "Checkpoint",
    "CommandOutput",
    "Dataset",
    "ExitCode",
    "PhalanxError",
    "Plan",
    "Report",
    "RunResult",
    "Schedule",
    "Stop",
    "Tokenizer",
    "command",
    "generate",
    "grid",
    "plan",
    "pretrain",
    "schedule",
    "score",
    "set_logging",
    "version",
]
