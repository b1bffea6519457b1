"""Training: the run goes on in a thread of its own, callbacks are called by the caller's thread."""

from __future__ import annotations

import atexit
import ctypes
import dataclasses
import json
import os
import queue
import sys
import threading
import time
import weakref
from typing import Any, Callable, Dict, Optional, Sequence, Set, Tuple, Union

from ._errors import PhalanxError
from ._library import EventFunction, call, check_computes_here, library, to_request
from ._logging import stop_logging
from ._requests import FlagValue, request_of

StepFunction = Callable[[Dict[str, Any]], object]
EventHandler = Callable[[str, Dict[str, Any]], object]


class Stop:
    """A request to stop, from any thread or from a signal handler.

    The run sees it after its iteration, saves if it has a directory, and pretrain() returns. A
    Stop stays requested: the next run needs a new one.

    >>> stop = phalanx.Stop()
    >>> before = signal.signal(signal.SIGTERM, lambda *_: stop.request())
    >>> phalanx.pretrain("gpt", stop=stop, **flags).end
    'finished'
    """

    def __init__(self) -> None:
        functions = library()
        self._pointer = ctypes.c_void_p(functions.phalanx_stop_new())
        self._request = functions.phalanx_stop_request
        weakref.finalize(self, functions.phalanx_stop_free, self._pointer).atexit = False

    def request(self) -> None:
        """Asks the runs that have this object to stop. A second request changes nothing."""
        self._request(self._pointer)


@dataclasses.dataclass(frozen=True)
class RunResult:
    """How a run ended: `end` is "finished"; "preempted" if it was asked to stop, and saved; or
    "stopped" if it was asked to stop and has no save=DIR.

    >>> phalanx.pretrain("gpt", **flags)
    RunResult(end='finished', iteration=20, consumed_samples=80)
    """

    end: str
    iteration: int
    consumed_samples: int

    @property
    def finished(self) -> bool:
        """Whether the run made all its iterations."""
        return self.end == "finished"


def _asks_to_stop(result: object) -> bool:
    """A true bool, Python's or NumPy's."""
    return type(result).__name__ in ("bool", "bool_") and bool(result)


# What the run's thread tells the caller's.
_Event = Tuple[str, bytes]
_Outcome = Union[Dict[str, Any], BaseException]


class _Run:
    """A run, and the thread that it goes on in."""

    def __init__(self, request: bytes, types: Optional[Set[str]], stop: Stop) -> None:
        self.stop = stop
        self._request = request
        self._types = types  # None: all
        self._is_left = False
        # An event, or None when the run has ended.
        self.events: queue.SimpleQueue[Optional[_Event]] = queue.SimpleQueue()
        self.answers: queue.SimpleQueue[int] = queue.SimpleQueue()
        self.outcome: _Outcome = RuntimeError("the run has not ended")
        self._has_ended = False
        # A daemon: the interpreter waits for it in _end_runs(), which Ctrl-C ends.
        self._thread = threading.Thread(target=self._train, name="phalanx run", daemon=True)

    def _train(self) -> None:
        try:
            function = EventFunction(self._tell)
            self.outcome = call("phalanx_run", self._request, function, None, self.stop._pointer)
        except BaseException as error:
            self.outcome = error
        finally:
            with _lock:
                _runs.discard(self)
            self._has_ended = True
            self.events.put(None)

    def _tell(self, kind: Optional[bytes], text: Optional[bytes], data: Optional[int]) -> int:
        """Called by a thread of the run, which waits for the callback's answer."""
        name = (kind or b"").decode()
        if self._is_left:
            return 1
        if self._types is not None and name not in self._types:
            return 0
        self.events.put((name, text or b"{}"))
        return self.answers.get()

    def start(self) -> None:
        with _lock:
            _runs.add(self)
        try:
            self._thread.start()
        except RuntimeError:  # the system gives no thread
            with _lock:
                _runs.discard(self)
            self._has_ended = True
            raise

    def wait(self) -> None:
        """Returns when the run has ended. Ctrl-C may end the wait at any point.

        Of Thread.join() and Event.wait() an interruption leaves a wrong state behind.
        """
        while not self._has_ended:
            time.sleep(0.002)

    def leave(self) -> None:
        """The run stops by itself: nobody listens to it any more."""
        self._is_left = True
        self.stop.request()
        self.answers.put(1)


_lock = threading.Lock()
_runs: Set[_Run] = set()


def _end_runs() -> None:
    """At the interpreter's exit: runs that were left, or belong to daemon threads, save and end."""
    try:
        with _lock:
            runs = list(_runs)
        for run in runs:
            run.leave()
        for run in runs:
            run.wait()
        stop_logging()
    except BaseException:
        # No thread of a run may call Python when the interpreter is gone.
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(130)


def _forget_runs() -> None:
    """The runs of the parent do not go on in a child of fork()."""
    global _lock
    _lock = threading.Lock()
    _runs.clear()


atexit.register(_end_runs)
os.register_at_fork(after_in_child=_forget_runs)


def _listen(
    run: _Run, on_step: Optional[StepFunction], on_event: Optional[EventHandler]
) -> None:
    """Calls the callbacks until the run has ended."""
    while True:
        event = run.events.get()
        if event is None:
            return
        name, text = event
        document = json.loads(text)
        stops = False
        if on_step is not None and name == "iteration":
            stops = _asks_to_stop(on_step(document))
        if on_event is not None:
            stops = _asks_to_stop(on_event(name, document)) or stops
        run.answers.put(1 if stops else 0)


def _wait_for_end(run: _Run) -> None:
    """Waits until a run that shall stop has saved. A second Ctrl-C leaves it to itself."""
    run.leave()
    run.wait()


def pretrain(
    model: str = "gpt",
    on_step: Optional[StepFunction] = None,
    on_event: Optional[EventHandler] = None,
    *,
    arguments: Optional[Sequence[Any]] = None,
    stop: Optional[Stop] = None,
    **flags: FlagValue,
) -> RunResult:
    """Trains. All ranks are threads of this process.

    Flags are those of `phalanx pretrain`: num_layers=2 is --num-layers 2, True gives the flag
    alone, False and None leave it out, a list gives one word for each element. arguments=[...]
    has words of a command line; keywords win over them.

    on_step(step) is called after each iteration with its line of metrics.jsonl, as a dict;
    on_event(type, event) with every event: "begin", "iteration", "evaluation", "note", "end".
    The caller's thread calls them, and the run waits for them. Where one returns True the run
    stops: it saves if it has save=DIR, and pretrain returns. An exception of theirs stops the run
    likewise, and pretrain raises it.

    Ctrl-C: the run stops and saves, then KeyboardInterrupt is raised. A second Ctrl-C raises it
    at once, and the run saves and ends in the background. The interpreter's exit waits for that;
    Ctrl-C ends the process there with 130.

    >>> losses = []
    >>> phalanx.pretrain("gpt", lambda step: losses.append(step["lm_loss"]), **flags)
    RunResult(end='finished', iteration=20, consumed_samples=80)
    >>> len(losses)
    20
    """
    check_computes_here()
    request = to_request(request_of(model, arguments, flags))
    if on_event is not None:
        types: Optional[Set[str]] = None
    else:
        types = {"iteration"} if on_step is not None else set()
    run = _Run(request, types, stop if stop is not None else Stop())
    try:
        run.start()
        _listen(run, on_step, on_event)
    except BaseException as error:
        # Of a callback, or KeyboardInterrupt: the state is saved before it is raised.
        _wait_for_end(run)
        if isinstance(run.outcome, PhalanxError):
            raise error from run.outcome
        raise
    outcome = run.outcome
    if isinstance(outcome, BaseException):
        raise outcome
    return RunResult(outcome["end"], outcome["iteration"], outcome["consumed_samples"])
