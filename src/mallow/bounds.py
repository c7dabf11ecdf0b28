"""The paper's bounds: the public names of `mallow.theory.bounds`."""

from mallow.theory.bounds import *  # noqa: F403
from mallow.theory.bounds import __all__ as __all__
