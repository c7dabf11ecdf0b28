"""Samples to features: cached, in order, with provenance; one embedder for all."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from mallow.embed import Cache, NGramKernel, add_spaces, embed_all, embed_samples, shares_prompts, style
from mallow.errors import InputError
from mallow.samples import Samples, read, write


def measured(text: str) -> list[float]:
    return [len(text), sum(map(ord, text)) / 100, text.count("a")]


@dataclass(frozen=True)
class Streaming:
    """Gives rows from the last to the first, in batches of two; may stop in the middle."""

    kind: ClassVar[str] = "text"
    name: str = "Streaming(test)"
    fail_after: int | None = None
    asked: list[str] = field(default_factory=list)

    def stream(self, samples: Sequence[str]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for high in range(len(samples), 0, -2):
            places = np.arange(max(0, high - 2), high)
            if self.fail_after is not None and len(self.asked) >= self.fail_after:
                raise RuntimeError("pulled the plug")
            self.asked.extend(samples[i] for i in places)
            yield places, np.array([measured(samples[i]) for i in places], np.float32)

    def __call__(self, samples: Sequence[str]) -> np.ndarray:
        raise AssertionError("a streaming embedder is streamed")


@given(texts=st.lists(st.text(min_size=1, max_size=6), min_size=1, max_size=12), known=st.integers(0, 12))
def test_rows_are_in_order_whatever_is_cached(tmp_path_factory, texts, known):
    cache, embedder = Cache(tmp_path_factory.mktemp("cache")), Streaming()
    if texts[:known]:
        embed_samples(texts[:known], embedder, cache=cache)
    found = embed_samples(texts, embedder, cache=cache)
    np.testing.assert_allclose(found.features, np.array([measured(text) for text in texts], np.float32))
    assert len(embedder.asked) == len(set(texts))  # each text once, in all


def test_a_second_run_embeds_nothing(tmp_path):
    texts = [f"text {i}" for i in range(7)]
    first = embed_samples(texts, Streaming(), cache=Cache(tmp_path))
    again = Streaming()
    second = embed_samples(texts, again, cache=Cache(tmp_path))
    assert again.asked == []
    np.testing.assert_array_equal(first.features, second.features)
    other = Streaming(name="Streaming(other revision)")
    embed_samples(texts, other, cache=Cache(tmp_path))
    assert len(other.asked) == 7


def test_what_was_done_before_a_failure_is_kept(tmp_path):
    texts = [f"text {i}" for i in range(10)]
    with pytest.raises(RuntimeError, match="pulled the plug"):
        embed_samples(texts, Streaming(fail_after=4), cache=Cache(tmp_path))
    again = Streaming()
    embed_samples(texts, again, cache=Cache(tmp_path))
    assert len(again.asked) == 6


def test_without_a_cache_nothing_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("MALLOW_CACHE", str(tmp_path))
    embed_samples(["a"], Streaming(), cache=None)
    assert list(tmp_path.iterdir()) == []
    embed_samples(["a"], Streaming())
    assert list(tmp_path.glob("features/*/[0-9]*"))


def test_a_plain_function_is_an_embedder_and_is_not_cached(tmp_path, monkeypatch):
    monkeypatch.setenv("MALLOW_CACHE", str(tmp_path))
    calls = []

    def plain(texts):
        calls.append(texts)
        return [measured(text) for text in texts]

    for _ in range(2):
        found = embed_samples(["a", "bb", "a"], plain)
    assert calls == [["a", "bb", "a"]] * 2
    assert found.provenance["embedder"].endswith("plain")
    assert list(tmp_path.iterdir()) == []


def test_an_embedder_may_be_named(tmp_path, monkeypatch):
    monkeypatch.setenv("MALLOW_CACHE", str(tmp_path))
    texts = ["one two three", "two three four", "five"]
    named, given = (embed_samples(texts, embedder) for embedder in ("ngram", NGramKernel()))
    assert np.array_equal(named.features, given.features)
    with pytest.raises(InputError, match="Features need no embedder"):
        embed_samples(np.ones((3, 2)), "ngram")


def test_a_function_may_take_what_nobody_else_knows():
    graphs = [{1, 2}, {3}, set()]
    assert embed_samples(graphs, lambda items: [[len(item)] for item in items]).features.tolist() == [[2], [1], [0]]
    pictures = np.ones((4, 5, 5))
    assert embed_samples(pictures, lambda items: items.mean(axis=2)).features.shape == (4, 5)


@pytest.mark.parametrize("things", [[], (), set(), np.zeros((0, 3)), {1, 2}, [{3}, {4}, {5}]])
def test_a_function_is_asked_about_as_many_things_as_there_are(things):
    asked = []

    def embed(these):
        asked.append(these)
        return np.ones((len(these), 2))

    samples = embed_samples(things, embed)
    assert (len(samples), samples.features.shape) == (len(things), (len(things), 2))
    assert all(these is things for these in asked)


def test_ids_prompts_and_provenance_survive_a_file(tmp_path):
    given = read([{"id": 1, "text": ["a", "b"], "prompt": "p"}, {"id": 2, "text": ["c", "d"], "prompt": "q"}])
    found = embed_samples(given, Streaming(), cache=None)
    assert found.ids == ("1", "1", "2", "2")
    assert found.prompts == ("p", "p", "q", "q")
    write(found, tmp_path / "points.npz")
    back = read(tmp_path / "points.npz")
    assert back.provenance == {"embedder": "Streaming(test)", "source": "list", "n": 4}
    np.testing.assert_array_equal(back.features, found.features)
    assert back.ids == found.ids


def test_features_of_two_embedders_are_refused(tmp_path):
    one = embed_samples(["a", "b"], Streaming(), cache=None)
    two = embed_samples(["a", "b"], Streaming(name="Streaming(other)"), cache=None)
    message = (
        "Features of different embedders cannot be compared: reference by Streaming(test); system by Streaming(other). "
        "Embed all with one."
    )
    with pytest.raises(InputError, match=re.escape(message)):
        embed_all({"": one, "system": two}, None)
    same = embed_all({"": one, "system": one, "bare": np.ones((2, 3))}, None)
    assert [each.embedder for each in same.values()] == ["Streaming(test)", "Streaming(test)", None]
    assert list(same) == ["", "system", "bare"]


def test_samples_of_two_kinds_are_refused(tmp_path):
    with pytest.raises(InputError, match="All samples must be of one kind; got reference: text, system: features"):
        embed_all({"": ["a text"], "system": np.ones((2, 3))}, None)
    with pytest.raises(InputError, match=r"holds image samples, but Streaming\(test\) embeds text samples"):
        embed_samples(Samples(images=[Path("a.png")], source="folder"), Streaming())


class Bad:
    name = "Bad(test)"

    def __init__(self, rows):
        self.rows = rows

    def __call__(self, samples):
        return self.rows


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[1.0]], r"must return an array \(n, d\) of 2 rows for list; got shape \(1, 1\)"),
        ([1.0, 2.0], r"got shape \(2,\)"),
        ([[1.0], [np.nan]], "features that are not finite for 1 of 2 samples of list"),
        ([["a"], ["b"]], "must return real numbers for list; got dtype <U1"),
    ],
    ids=["too few", "one axis", "nan", "text"],
)
def test_bad_rows_are_refused_and_not_kept(tmp_path, rows, message):
    for embedder in (Bad(rows), lambda samples: rows):
        with pytest.raises(InputError, match=message):
            embed_samples(["a", "b"], embedder, cache=Cache(tmp_path))
    assert Cache(tmp_path).entries() == []


def test_a_name_that_two_embedders_share_is_found_out(tmp_path):
    embed_samples(["a"], Bad([[1.0]]), cache=Cache(tmp_path))
    with pytest.raises(InputError, match=r"rows of different widths, \[1, 2\]: two embedders share one name"):
        embed_samples(["a", "b"], Bad([[1.0, 2.0]]), cache=Cache(tmp_path))


def test_a_stream_that_forgets_samples_is_refused():
    @dataclass(frozen=True)
    class Forgetful(Streaming):
        def stream(self, samples):
            yield np.array([0]), np.ones((1, 2), np.float32)

    with pytest.raises(InputError, match="must return features for all 3 samples; 2 are missing"):
        embed_samples(["a", "b", "c"], Forgetful(), cache=None)


def test_progress_says_how_many_texts_are_done(monkeypatch, capsys):
    notes = []

    @contextmanager
    def bar(verb, total, wanted=None):
        notes.append((verb, wanted))
        yield lambda done, note: notes.append(note)

    monkeypatch.setattr("mallow.embed._embed.bar", bar)
    embed_samples([f"text {i}" for i in range(6)], Streaming(), cache=None, progress=True)
    assert notes[0] == ("embedding", True)
    assert re.fullmatch(r"6/6 texts, \d+/s", notes[-1])
    assert capsys.readouterr() == ("", "")


def test_a_joint_embedder_sees_all_samples_at_once():
    class Joint:
        name = "Joint(test)"
        kind = "text"

        def points(self, texts):
            order = sorted(texts)
            return np.array([[order.index(text)] for text in texts], float)

    found = embed_all({"": ["b", "d"], "system": ["a", "c", "e"]}, Joint())
    assert found[""].embedder == found["system"].embedder == "Joint(test)"
    assert found["system"].texts == ("a", "c", "e")
    assert found[""].features.tolist() == [[1.0], [3.0]]
    assert found["system"].features.tolist() == [[0.0], [2.0], [4.0]]


def test_embedded_texts_meet_bare_features():
    texts = embed_samples(["a", "bb", "ccc"], lambda samples: [[len(text)] for text in samples])
    sets = embed_all({"": texts, "system": np.ones((4, 1))})
    assert [each.kind for each in sets.values()] == ["features", "features"]
    assert sets[""].features.tolist() == [[1], [2], [3]]
    with pytest.raises(InputError, match="All samples must be of one kind; got reference: text, system: features"):
        embed_all({"": ["a", "b"], "system": np.ones((4, 1))}, len)


def test_errors_about_arrays_say_whose_they_are():
    with pytest.raises(InputError, match=r"^system: .*features must be finite; got nan in column 0"):
        embed_all({"": np.ones((3, 1)), "system": np.full((3, 1), np.nan)})


def with_prompts(word, *, prompts=True, **options):
    texts = [f"{word} number {row} is told in a few words" for row in range(6)]
    asked = [f"tell story {row} please" for row in range(6)] if prompts else None
    return Samples(texts=texts, prompts=asked, **options)


@pytest.mark.parametrize(("reference", "model"), [(True, True), (True, False), (False, True), (False, False)])
def test_only_sets_with_the_same_prompts_get_spaces_of_prompts(reference, model):
    sets = {"reference": with_prompts("story", prompts=reference), "model": with_prompts("tale", prompts=model)}
    assert shares_prompts(*sets.values()) == (reference and model)
    expected = {"style", "prompts"} if reference and model else {"style"}
    for name, samples in add_spaces(sets, None, prompts="joint").items():
        assert set(samples.spaces) == expected, name
    for samples in add_spaces(sets, None, prompts="ignore").values():
        assert set(samples.spaces) == {"style"}


@given(st.integers(1, 45), st.integers(0, 4), st.integers(0, 4))
def test_a_few_prompts_may_be_missing_on_either_side(both, first, second):
    """At least 95% of the prompts of the larger side, and more than one."""
    sides = []
    for own, count in (("a", first), ("b", second)):
        prompts = [f"prompt {i}" for i in range(both)] + [f"{own} {i}" for i in range(count)]
        sides.append(Samples(texts=[f"text {i}" for i in range(len(prompts) * 2)], prompts=prompts * 2))
    larger = both + max(first, second)
    assert shares_prompts(*sides) == (both > 1 and 100 * both >= 95 * larger)


def test_agreement_with_prompts_is_a_cosine_for_features_and_one_for_style():
    sets = {name: embed_samples(with_prompts(name), Streaming(), cache=None) for name in ("story", "tale", "x")}
    found = add_spaces(sets, Streaming(), prompts="joint")
    for name, samples in found.items():
        asked = np.array([measured(prompt) for prompt in samples.prompts])
        assert samples.spaces["prompt"] == approx(asked), name
        pairs = ((samples.features, asked), (samples.spaces["style"], style(list(samples.prompts))))
        for column, (a, b) in enumerate(pairs):
            a, b = a.astype(float), b.astype(float)
            cosine = (a * b).sum(axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
            assert samples.spaces["prompts"][:, column] == approx(cosine), name
        assert samples.spaces["prompts"].shape == (6, 2)
    zeros = {name: embed_samples(with_prompts(name), Streaming(), cache=None) for name in ("story", "tale")}
    zeros["story"] = zeros["story"].with_features(np.zeros((6, 3)), provenance={"embedder": "Streaming(test)"})
    assert not add_spaces(zeros, Streaming(), prompts="joint")["story"].spaces["prompts"][:, 0].any()


@pytest.mark.parametrize(("seconds", "speed"), [(0.5, "12/s"), (0.625, "9.6/s"), (4.0, "1.5/s"), (0.0, "6000000000/s")])
def test_the_speed_beside_the_bar_is_that_of_the_samples_so_far(monkeypatch, seconds, speed):
    shown, now = [], [100.0]

    @contextmanager
    def bar(verb, total, wanted=None):
        shown.append(total)
        yield lambda done, note: shown.append((done, note))

    class Timed(Streaming):
        def stream(self, samples):
            for places, rows in super().stream(samples):
                now[0] = 100.0 + seconds * (6 - places[0]) / 6
                yield places, rows

    monkeypatch.setattr("mallow.embed._embed.bar", bar)
    monkeypatch.setattr("mallow.embed._embed.time", SimpleNamespace(monotonic=lambda: now[0]))
    texts = ["a" * length for length in range(1, 7)]
    embed_samples(Samples(texts=texts, source="folder/of/" + "a" * 40 + ".txt"), Timed(), cache=None)
    name = "a" * 26 + ".txt"  # its last thirty characters
    assert shown[0] == 6 * 20 + 21  # a text counts as its length and 20 more
    assert [note.split(", ")[0] for _, note in shown[1:]] == [f"{name}: {done}/6 texts" for done in (2, 4, 6)]
    assert [done for done, _ in shown[1:]] == [51, 98, 141]
    assert shown[-1][1].split(", ")[1] == speed


def test_a_space_of_ones_own_is_kept_beside_those_that_are_added():
    lengths, styles = np.arange(6.0)[:, None], np.ones((6, 2))
    sets = {
        "reference": with_prompts("story", spaces={"lengths": lengths, "style": styles}),
        "model": with_prompts("x"),
    }
    found = add_spaces(sets, None, prompts="ignore")["reference"].spaces
    assert {name: rows.tolist() for name, rows in found.items()} == {
        "lengths": lengths.tolist(),
        "style": styles.tolist(),
    }


def test_prompts_that_both_sides_have_are_embedded_once():
    class Lengths:
        name, cached = "lengths", False

        def __init__(self):
            self.seen = []

        def __call__(self, texts):
            self.seen += texts
            return np.array([[len(text), 1.0] for text in texts])

    prompts, embedder = ["One?", "Two, or three?"], Lengths()
    sides = [Samples(texts=[f"{word} one.", f"{word} two."], prompts=prompts) for word in ("Some", "Any other")]
    both = embed_all(dict(zip("ab", sides, strict=True)), embedder, prompts="joint")
    assert sorted(embedder.seen) == sorted([*prompts, *sides[0].texts, *sides[1].texts])
    for samples in both.values():
        assert samples.spaces["prompt"].tolist() == [[4.0, 1.0], [14.0, 1.0]]
        assert samples.spaces["prompts"].shape == (2, 2)
