"""`python -m mallow`."""

from mallow.cli import main

__all__: list[str] = []

main()
