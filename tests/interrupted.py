"""Ctrl-C between any two operations of some functions: what a user's patience may end, and when."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator


def interruptions(call: Callable[[], object], functions: tuple[Callable[..., object], ...]) -> Iterator[int]:
    """Call again and again, each time interrupted one operation later, until a call is left to end by itself.

    Yields after each interrupted call, how many operations of the functions there were before.
    """
    at = 0
    while _is_interrupted(call, {function.__code__ for function in functions}, at):
        yield at
        at += 1


def _is_interrupted(call: Callable[[], object], codes: set, at: int) -> bool:
    count = 0

    def trace(frame, event, argument):
        nonlocal count
        if frame.f_code not in codes:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            count += 1
            if count > at:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False
