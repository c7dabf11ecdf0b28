"""The clock for timing answers and lending pairs: it never jumps while the page is served."""

from __future__ import annotations

import time


def _elapsed() -> float:
    """Seconds since the machine was started; on Linux also while it was suspended."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


_START = time.time() - _elapsed()


def now() -> float:
    """Seconds since 1970, by the clock as it was set when mallow was imported."""
    return _START + _elapsed()
