"""What mallow raises and warns with."""

__all__ = ["EstimateWarning", "InputError"]


class InputError(ValueError):
    """An argument breaks a rule; the message names the argument, the rule, the value and the way out."""


class EstimateWarning(UserWarning):
    """An estimate is legal but doubtful; the result carries the same sentence in its `caveats`."""
