"""Progress: one bar for all parts of a work, on a terminal or in a notebook, and lines in a log; none inside `quiet`."""

import io
import logging
import os
import signal
import threading
import time
from types import SimpleNamespace

import pytest

from mallow.engine import _progress as progress
from mallow.engine import bar, expect, overall, quiet


class Terminal(io.StringIO):
    def isatty(self):
        return True


def open_terminal(monkeypatch):
    """Standard error as a terminal on which bars appear at once; not a fixture, since pytest captures it anew."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(progress, "_PATIENCE", 0.01)
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    return stream


def wait_for(text, shown, seconds=10.0):
    end = time.monotonic() + seconds
    while text not in shown() and time.monotonic() < end:
        time.sleep(0.01)
    assert text in shown()


def test_a_bar_shows_what_is_done_and_how_long_it_still_takes(monkeypatch):
    terminal = open_terminal(monkeypatch)
    with bar("embedding", 10) as update:
        update(7, "7 of 10 texts")
        wait_for("embedding (7 of 10 texts)", terminal.getvalue)
        wait_for("left", terminal.getvalue)


def test_bars_inside_a_bar_and_on_other_threads_are_parts_of_it(monkeypatch):
    terminal = open_terminal(monkeypatch)

    def check():
        with bar("checking the gap", 2):
            wait_for("clustering (1/2), checking the gap", terminal.getvalue)

    with overall(), bar("clustering", 2) as update:
        update(1, "1/2")
        thread = threading.Thread(target=check)
        thread.start()
        thread.join()
    assert terminal.getvalue().count("\x1b[?25l") == 1  # one display was opened
    assert not progress._OPEN


def test_the_work_of_another_thread_may_end_while_a_bar_of_this_one_begins(monkeypatch):
    other, ended = overall(False), []
    other.__enter__()

    class EndOther:
        """A lock after which the other thread ends."""

        def __enter__(self):
            pass

        def __exit__(self, *_):
            ended.append(other.__exit__(None, None, None))

    monkeypatch.setattr(progress, "_OPENING", EndOther())
    with bar("clustering", 2) as show:
        show(1, "")
    assert len(ended) == 1
    assert not progress._OPEN


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of a fork beside threads, from Python 3.12 on
def test_a_forked_process_waits_for_no_thread_of_its_parent():
    with overall(False), progress._OPENING, progress._OPEN[0].lock:
        child = os.fork()
        if child == 0:
            signal.alarm(10)  # a process that waits is ended
            with bar("clustering", 2) as show:
                show(1, "")
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not progress._OPEN


def test_a_work_that_is_done_at_once_shows_nothing(monkeypatch):
    monkeypatch.setattr("sys.stderr", stream := Terminal())
    with bar("embedding", 10) as update:
        update(7, "7 of 10 texts")
    assert stream.getvalue() == ""


@pytest.mark.parametrize("options", [{"wanted": False}, {"done": 10}])
def test_no_bar_is_shown(monkeypatch, options):
    terminal = open_terminal(monkeypatch)
    with bar("embedding", 10, **options) as update:
        update(7, "7 of 10 texts")
        time.sleep(0.1)
    assert terminal.getvalue() == ""


def test_no_part_is_shown_where_it_should_be_quiet(monkeypatch):
    terminal = open_terminal(monkeypatch)

    def inner():  # another thread does not know that it is quiet; the work does
        with bar("clustering", 2):
            time.sleep(0.1)

    with quiet(), bar("embedding", 10):
        thread = threading.Thread(target=inner)
        thread.start()
        thread.join()
    assert terminal.getvalue() == ""


def test_a_log_gets_plain_lines_after_a_while(monkeypatch, caplog):
    for name, seconds in (("_PATIENCE", 0.01), ("_FIRST_LINE", 0.02), ("_NEXT_LINES", 0.01)):
        monkeypatch.setattr(progress, name, seconds)
    with caplog.at_level(logging.INFO, "mallow.progress"), bar("embedding", 4) as update:
        update(1, "1/4 texts")
        wait_for("embedding (1/4 texts): ", lambda: caplog.text)
    assert " left" in caplog.text


def test_a_notebook_gets_a_bar(monkeypatch):
    shell = type("ZMQInteractiveShell", (), {})()
    assert not progress._in_notebook()
    monkeypatch.setitem(progress.sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    assert progress._in_notebook()


def test_the_time_left_is_that_of_parts_under_way_by_their_speed_and_of_the_others_as_expected(monkeypatch):
    now = 100.0
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now))
    with overall(False):
        expect("embedding", times=2)
        expect("clustering", 30.0)
        with bar("embedding", 10) as update:
            now = 110.0
            update(5, "")  # a quarter of both in 10 s
            text, share, left = progress._OPEN[0].state()
            assert (text, left) == ("embedding", 60.0)
            assert share == pytest.approx(10 / 70)
        with bar("embedding", 10):
            assert progress._OPEN[0].state()[2] == 40.0  # half in 10 s
        with bar("clustering", 3) as update:
            now = 116.0
            assert progress._OPEN[0].state()[2] == 24.0  # nothing is known of its speed yet
            now = 150.0
            assert progress._OPEN[0].state()[2] == 15.0
            update(2, "")
            assert progress._OPEN[0].state()[2] == pytest.approx(20.0)
    assert not progress._OPEN


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.0, "a few seconds left"),
        (4.9, "a few seconds left"),
        (5.0, "about 5 s left"),
        (62.4, "about 60 s left"),
        (89.9, "about 90 s left"),
        (90.0, "about 2 min left"),
        (5399.0, "about 90 min left"),
        (5400.0, "about 1.5 h left"),
    ],
)
def test_the_time_left_in_words(seconds, words):
    assert progress.time_left(seconds) == words


def test_what_was_done_earlier_does_not_count_and_a_bar_inside_one_of_its_name_adds_nothing(monkeypatch):
    now = 50.0
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now))
    with bar("embedding", 10, done=6) as update:
        work = progress._OPEN[0]
        now = 58.0
        update(8, "8/10")  # two of four in 8 s
        assert work.state() == ("embedding (8/10)", 0.5, 8.0)
        with bar("embedding", 2) as inner:
            inner(1, "inner")
            assert work.state() == ("embedding (8/10)", 0.5, 8.0)
        assert work.state()[0] == "embedding (8/10)"
        update(10, "10/10")
        assert work.state() == ("embedding (10/10)", 0.0, 0.0)  # nothing is known to be left
    with overall():
        assert progress._OPEN[0].state() == ("working", 0.0, 0.0)


def test_parts_that_run_share_the_time_and_the_others_follow(monkeypatch):
    now = 10.0
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now))
    with overall(False):
        expect("later", 40.0)
        expect("later", 5.0)  # it was announced already
        expect("never", 2.0)
        with bar("slow", 4) as slow, bar("quick", 4) as quick:
            now = 20.0
            slow(1, "")
            quick(2, "")
            text, share, left = progress._OPEN[0].state()
            assert (text, left) == ("slow, quick", 30.0 + 40.0 + 2.0)
            assert share == pytest.approx(10.0 / 82.0)
    assert not progress._OPEN
    expect("nothing is open", 3.0)
    with overall(False):
        assert progress._OPEN[0].parts == {}
