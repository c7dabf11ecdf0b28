"""The checks together: silent on halves of real data, in order, in linear time."""

import itertools
import json
import re
import time
from dataclasses import asdict

import numpy as np
import pytest

from caveats.real_texts import TEXTS, halves
from mallow import InputError, Samples, read
from mallow.caveats import find_confounds


def test_there_is_enough_real_text():
    assert len(TEXTS) > 1000


@pytest.mark.parametrize("size", [5, 20, 100, 500])
@pytest.mark.parametrize("seed", range(4))
def test_halves_of_real_text_give_no_caveats(seed, size):
    one, other = halves(seed, size)
    assert find_confounds(one, {"other": other}) == ()


def test_halves_of_human_webtext_give_no_caveats(shared):
    human = read(shared / "data" / "webtext-gpt2-large" / "human.jsonl.gz", field="gen").texts
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(human))
        for size in (30, 500):
            one, other = ([human[i] for i in part] for part in (order[:size], order[500 : 500 + size]))
            assert find_confounds(one, {"other": other}) == ()


def test_the_lost_leading_space_of_published_samples_is_reported(shared):
    folder = shared / "data" / "webtext-gpt2-large"
    names = ("human", "nucleus", "typical")
    human, nucleus, typical = (read(folder / f"{name}.jsonl.gz", field="gen", skip_bad=True) for name in names)
    caveats = find_confounds(human, {"nucleus": nucleus, "typical": typical})
    (space,) = [caveat for caveat in caveats if caveat.kind == "space"]
    assert space.system == "typical"
    assert space.values["share"] == 0.0
    assert space.values["share_reference"] == pytest.approx(0.77)
    (empty, _) = [caveat for caveat in caveats if caveat.kind == "empty"]
    assert empty.values["left_out"] == 1


def test_caveats_come_in_order_and_can_be_written():
    one, other = halves()
    systems = {"a": [text.lower() for text in other], "b": [" " + text for text in other[:300]]}
    caveats = find_confounds([*one, " "], systems)
    assert [(caveat.system, caveat.kind) for caveat in caveats[:2]] == [("reference", "empty"), ("a", "case")]
    assert [caveat.system for caveat in caveats] == ["reference", *["a"] * (len(caveats) - 3), "b", "b"]
    assert json.loads(json.dumps([asdict(caveat) for caveat in caveats]))[0]["kind"] == "empty"
    assert str(caveats[0]) == f"reference: {caveats[0].message}"
    assert str(caveats[-1]).startswith("b: ")
    for caveat in caveats:
        assert re.search(r"\d", caveat.message)


def test_embedded_texts_are_checked_as_texts():
    one, other = halves(size=100)
    shifted = np.arange(200.0).reshape(100, 2)
    sides = [Samples(texts=one, features=shifted), Samples(texts=[" " + text for text in other], features=9 * shifted)]
    assert [caveat.kind for caveat in find_confounds(sides[0], {"model": sides[1]})] == ["space"]


def test_a_system_may_be_called_reference():
    one, other = halves(size=100)
    (caveat,) = find_confounds(one, {"reference": [" " + text for text in other]})
    assert caveat.values["share"] == 1.0


def test_refused():
    with pytest.raises(InputError, match=r"`systems` must be a mapping of names to samples.*; got \['c'\]\."):
        find_confounds(["a", "b"], ["c"])
    for systems in ({}, {"": ["c"]}):
        with pytest.raises(InputError, match=r"with at least one entry and no empty name; got {.*}\.$"):
            find_confounds(["a", "b"], systems)
    with pytest.raises(InputError, match=r"All samples must be of one kind; got reference: text, x: features\."):
        find_confounds(["a", "b"], {"x": np.zeros((2, 2))})


def test_the_time_is_linear():
    def seconds(count):
        texts = [f"{text} {i}." for i, text in zip(range(count), itertools.cycle(TEXTS))]
        best = 9e9
        for _ in range(2):
            start = time.process_time()
            find_confounds(texts[::2], {"model": texts[1::2]})
            best = min(best, time.process_time() - start)
        return best

    assert seconds(6000) < 9 * seconds(1500)
