"""Wordings that make readers stumble stay rare (tools/language.py counts them, after the style guide)."""

import language
import pytest

MOST = {
    "docs": language.LIMIT,
    "help": language.LIMIT,
    "messages": language.LIMIT,
    "comments": language.LIMIT,
    "docstrings": 2.0,  # 1.0 at present
}


@pytest.mark.parametrize("kind", list(MOST))
def test_few_wordings_make_readers_stumble(kind):
    texts = language.sources()[kind]
    per_thousand, words = language.rate(texts)
    assert words > 5000
    worst = sorted(((name, place) for name, text in texts.items() for place in language.places(text)))
    assert per_thousand < MOST[kind], worst


def test_no_page_is_much_worse_than_the_others():
    rates = {name: language.rate({name: text}) for name, text in language.sources()["docs"].items()}
    internal = ("docs/paper.md", "docs/architecture.md")  # lists of labels and of files
    assert {
        name: found for name, (found, words) in rates.items() if found > 6 and words > 300 and name not in internal
    } == {}


@pytest.mark.parametrize(
    "sentence",
    [
        "The error is that of a mean over units.",
        "A caveat says where rows look like pairs.",
        "It holds in 5 % of trials, where 5 % are meant.",
        "MAUVE is at most so much.",
        "The first is exact; the second is an estimate.",
        "Of 100 pairs one was named.",
    ],
)
def test_a_stumble_is_counted(sentence):
    assert list(language.places(language.prose(sentence)))


def test_code_and_plain_sentences_are_not_counted():
    text = "It prints a table.\n\n    that of; it is so\n\n```text\nwhat is certified; the rest\n```\n\nUse `that of` here, please."
    assert list(language.places(language.prose(text))) == []
    assert language.comments("x = 1  # seconds; chosen: that of a\n# rest\n# goes on  # noqa: E501\n") == (
        "seconds, that of a\nrest goes on"
    )
    source = 'def f():\n    """That of; it is."""\n    raise ValueError(f"`n` must be at least {1}; got {0}.")\n'
    assert list(language.places(language.messages(source))) == []
