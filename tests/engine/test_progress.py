"""Progress bars: on standard error, with a note; none when there is nothing to do or inside `quiet`."""

import pytest

from mallow.engine import bar, quiet


def show(capsys: pytest.CaptureFixture[str], **options: object) -> str:
    with bar("embedding", 10, **options) as update:
        update(7, "7 of 10 texts")
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err


def test_a_bar_shows_the_verb_and_the_note(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes standard error for a terminal
    shown = show(capsys, wanted=True)
    assert "embedding" in shown
    assert "7 of 10 texts" in shown


@pytest.mark.parametrize("options", [{"wanted": False}, {"wanted": None}, {"wanted": True, "done": 10}])
def test_no_bar_is_shown(capsys, options):
    assert show(capsys, **options) == ""  # None: standard error is no terminal here


def test_no_bar_is_shown_where_it_should_be_quiet(capsys):
    with quiet():
        assert show(capsys, wanted=True) == ""
