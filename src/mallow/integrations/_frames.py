"""Samples and results as tables of other packages; `mallow.read` takes the same tables."""

from __future__ import annotations

from typing import Any

from mallow._optional import optional
from mallow.errors import InputError
from mallow.results import Result
from mallow.samples import Samples


def to_pandas(value: Samples | Result) -> Any:
    """Samples, one row each, or the numbers of a result, as a pandas DataFrame.

    Examples
    --------
    >>> from mallow import read
    >>> frame = to_pandas(read([{"text": "One.", "id": 1}, {"text": "Two.", "id": 2}]))
    >>> list(frame.columns), read(frame).texts
    (['id', 'text'], ('One.', 'Two.'))
    """
    if isinstance(value, Result):
        return value.to_frame()
    return optional("pandas", extra="frames").DataFrame(_columns(value))


def to_polars(value: Samples | Result) -> Any:
    """Samples, one row each, or the numbers of a result, as a polars DataFrame."""
    polars = optional("polars", extra="polars")
    if isinstance(value, Result):
        records = value.to_frame().to_dict(orient="records")
        return polars.from_dicts(records, infer_schema_length=None)
    return polars.DataFrame(_columns(value))


def to_dataset(samples: Samples) -> Any:
    """Samples, one row each, as a Hugging Face Dataset; features are a column of lists.

    `mallow.read` reads the dataset again, except for the features: ``read(dataset["features"])`` reads them.
    """
    return optional("datasets", extra="datasets").Dataset.from_dict(_columns(samples))


def _columns(samples: object) -> dict[str, list[Any]]:
    if not isinstance(samples, Samples):
        raise InputError(
            f"`samples` must be Samples, or a result; got {type(samples).__name__}. Read it with mallow.read."
        )
    named = {
        "id": samples.ids,
        "prompt": samples.prompts,
        "text": samples.texts,
        "image": None if samples.images is None else [str(path) for path in samples.images],
        "audio": None if samples.audio is None else [str(path) for path in samples.audio],
        "features": None if samples.features is None else samples.features.tolist(),
    }
    return {name: list(values) for name, values in named.items() if values is not None}
