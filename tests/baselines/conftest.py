"""Real human text that every Python carries: its manual."""

import pydoc_data.topics

import pytest


@pytest.fixture(scope="session")
def manual():
    """The topics of the manual."""
    return list(pydoc_data.topics.topics.values())


@pytest.fixture(scope="session")
def manual_pieces(manual):
    """The manual in pieces of 100 words."""
    topics = [text.split() for text in manual]
    return [" ".join(words[i : i + 100]) for words in topics for i in range(0, len(words) - 99, 100)]
