"""Human texts and a small model of them, for several test files."""

import pydoc_data.topics

import pytest

from mallow.generate import NGram


@pytest.fixture(scope="session")
def texts() -> list[str]:
    """Human text that comes with Python."""
    return [text for text in pydoc_data.topics.topics.values() if len(text) > 400][:40]


@pytest.fixture(scope="session")
def model(texts) -> NGram:
    """A trigram model of the texts."""
    return NGram.fit(texts, order=3)
