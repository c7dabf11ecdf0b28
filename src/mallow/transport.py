"""Optimal transport: the public names of `mallow.theory.transport`."""

from mallow.theory.transport import *  # noqa: F403
from mallow.theory.transport import __all__ as __all__
