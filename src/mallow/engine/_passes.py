"""Passes over many tasks, whose progress is shown and kept in a folder, so that no work is lost."""

from __future__ import annotations

import hashlib
import logging
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mallow._files import atomic_file, make_folder, refuse_special
from mallow.engine._engine import Engine
from mallow.engine._progress import bar
from mallow.errors import InputError

_LOG = logging.getLogger("mallow")
_EVERY = 20.0  # seconds between two checkpoints; chosen: at most this much work is lost
_SHARE = 0.05  # share of the time that checkpoints may take; chosen
Arrays = dict[str, NDArray[Any]]
Task = TypeVar("Task")
Result = TypeVar("Result")


class Passes:
    """Passes over the tasks of one piece of work, by one engine.

    Parameters
    ----------
    engine : Engine
        Its `checkpoint`, if it has one, is the folder in which progress is kept.
    work : str
        Everything that the work depends on. Different work does not continue from this checkpoint.
    within : Passes, optional
        The passes of the larger work that contains this one. Progress is kept until the larger work is complete.
    """

    def __init__(self, engine: Engine, work: str, within: Passes | None = None) -> None:
        self.engine = engine
        self._folder: Path | None = None
        chosen: str | None = getattr(engine, "checkpoint", None)
        above = within._folder if within is not None else None if chosen is None else Path(chosen)
        self._work = hashlib.sha256(work.encode()).hexdigest()
        if above is not None:
            self._folder = make_folder(above / self._work[:16])

    def run(
        self,
        name: str,
        function: Callable[[Task], Result],
        tasks: Sequence[Task],
        state: Arrays,
        add: Callable[[Arrays, Task, Result], None],
    ) -> Arrays:
        """The state after `add` has put the results of all tasks into it, in their order.

        Parameters
        ----------
        name : str
            The name of this pass, different for all passes of the work.
        function : callable
            Computes the result of a task.
        state : dict of arrays
            Only `add` changes it, in place. A checkpoint holds it, with the number of its tasks. An interruption may
            come between any two operations. A state that does not agree with the number is not saved, and the
            previous checkpoint stays.
        """
        done = self._load(name, state)
        if not 0 <= done <= len(tasks):
            raise InputError(f"{self._folder}: the checkpoint of {name} is damaged. Remove the folder and start again.")
        if done:
            _LOG.warning("%s: continuing from the checkpoint, %d of %d tasks are done", name, done, len(tasks))
        saved = began = time.monotonic()
        spent = 0.0
        agree = True  # whether `state` holds exactly the first `done` tasks
        with bar(name, len(tasks), done=done) as show:
            try:
                for result in self.engine.map(function, tasks[done:]):
                    agree = False
                    add(state, tasks[done], result)
                    done += 1
                    agree = True
                    show(done, f"{done}/{len(tasks)}")
                    now = time.monotonic()
                    if now - saved > _EVERY and spent <= _SHARE * (now - began):
                        self._save(name, state, done)
                        saved = time.monotonic()
                        spent += saved - now
            except BaseException:
                if agree:
                    self._save(name, state, done)
                raise
        self._save(name, state, done)
        _LOG.info("%s: %d tasks in %.1f s", name, len(tasks), time.monotonic() - began)
        return state

    def keep(self, name: str, make: Callable[[], Arrays]) -> Arrays:
        """The result of `make`, or its saved result from before an interruption."""
        state: Arrays = {}
        if self._load(name, state):
            _LOG.warning("%s: taken from the checkpoint", name)
            return state
        began = time.monotonic()
        state = make()
        self._save(name, state, 1)
        _LOG.info("%s: %.1f s", name, time.monotonic() - began)
        return state

    def finish(self) -> None:
        """Remove the checkpoint: the work is complete."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _save(self, name: str, state: Arrays, done: int) -> None:
        if self._folder is None:
            return
        try:
            with atomic_file(self._folder / f"{name}.npz") as stream:
                digest = np.frombuffer(self._digest(name, state, done), np.uint8)
                np.savez(stream, done=np.int64(done), digest=digest, **state)  # type: ignore[arg-type]
        except OSError as error:
            raise InputError(
                f"{self._folder}: the checkpoint cannot be written: {error.strerror or error}. Free some space, or "
                "choose another folder; what was written before stays valid."
            ) from error

    def _load(self, name: str, state: Arrays) -> int:
        """Fill the state from a checkpoint. The number of tasks in it, 0 without one."""
        path = None if self._folder is None else self._folder / f"{name}.npz"
        if path is None or not path.exists():
            return 0
        refuse_special(path)
        try:
            with path.open("rb") as stream, np.load(stream) as arrays:  # from a path, numpy leaves damaged files open
                done, digest = int(arrays["done"]), arrays["digest"].tobytes()
                kept = {key: arrays[key] for key in arrays.files if key not in ("done", "digest")}
        except Exception as error:  # numpy and zipfile may raise anything for a damaged file
            raise InputError(f"{path}: the checkpoint is damaged: {error}. Remove it and start again.") from error
        if digest != self._digest(name, kept, done):
            raise InputError(f"{path}: the checkpoint is damaged: its values were changed. Remove it and start again.")
        state.update(kept)
        return done

    def _digest(self, name: str, state: Arrays, done: int) -> bytes:
        """The digest of the content of a checkpoint and of its pass."""
        total = hashlib.blake2b(repr((self._work, name, done)).encode(), digest_size=16)
        for key, array in sorted(state.items()):
            values = np.ascontiguousarray(array)
            total.update(repr((key, array.shape, array.dtype.str)).encode())
            total.update(values.reshape(-1).view(np.uint8).data)
        return total.digest()
