"""`python -m mallow`."""

import contextlib
import os
import sys

__all__: list[str] = []

# Python puts the working folder first, where a file could shadow a package of the same name.
with contextlib.suppress(OSError):
    if sys.path and sys.path[0] in ("", os.getcwd()):
        del sys.path[0]

from mallow.cli import main

main()
