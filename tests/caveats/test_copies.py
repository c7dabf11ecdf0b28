"""Duplicates, copies of other sets, and entries that were left out."""

import numpy as np

from caveats.real_texts import caveats_of_kind, halves, only_caveat
from mallow import read
from mallow.caveats import find_confounds


def test_duplicates():
    one, other = halves()
    doubled = [*other[:480], *(f" {other[0].upper()}\n" for _ in range(7)), *other[1:14]]
    (caveat,) = caveats_of_kind(one, doubled, "duplicates")
    assert caveat.values == {"repeats": 20, "n": 500, "share": 0.04, "most": 8}
    assert caveat.message.startswith("20 of 500 texts (4.0%) are duplicates. The most frequent one occurs 8 times (")
    assert repr(other[0][:20])[:-1] in caveat.message
    assert caveat.message.endswith("Keep one copy of each, unless the source itself repeats as often.")
    first = find_confounds(doubled, {"model": one})[0]
    assert (first.system, first.kind) == ("reference", "duplicates")
    assert caveats_of_kind(one, [*other[:496], *other[:4]], "duplicates") == []  # fewer than one in a hundred


def test_copies_of_the_reference():
    one, other = halves()
    caveat = only_caveat(one, [*other[:488], *(text.replace(" ", "  ") for text in one[:12])], "shared")
    assert caveat.values == {"copies": 12, "n": 500, "share": 0.024, "expected": 0.0}
    assert caveat.message.startswith("12 of 500 texts (2.4%) also occur in the reference, for example ")
    assert "This usually means that the model has memorised them or was given them." in caveat.message
    assert caveats_of_kind(one, [*other[:495], *one[:5]], "shared") == []


def test_a_set_that_is_passed_twice():
    one, other = halves()
    (caveat,) = find_confounds(one, {"first": other, "second": other[::-1]})
    assert (caveat.system, caveat.kind) == ("second", "shared")
    assert caveat.message.startswith("500 of 500 texts (100.0%) also occur in `first`, for example ")
    assert caveat.message.endswith("This usually means that the same samples were passed twice. Check the files.")


def test_checkpoints_that_share_texts_get_one_line_each():
    one, other = halves()
    mixed = {f"ckpt-{k}": [*other[: 50 * k], *(f"{text} {k}" for text in other[50 * k :])] for k in range(6)}
    caveats = [caveat for caveat in find_confounds(one, mixed) if caveat.kind == "shared"]
    assert [caveat.system for caveat in caveats] == ["ckpt-3", "ckpt-4", "ckpt-5"]
    assert caveats[-1].message.startswith("200 of 500 texts (40.0%) also occur in `ckpt-4` (and some of them in ")


def test_short_answers_that_recur_on_both_sides_are_not_shared():
    answers = ["yes", "no", "maybe so"]
    rng = np.random.default_rng(0)
    one, other = ([answers[i] for i in rng.integers(3, size=300)] for _ in range(2))
    assert {caveat.kind for caveat in find_confounds(one, {"other": other})} == {"duplicates"}


def test_a_few_more_copies_than_the_reference_repeats_may_be_chance():
    one, other = (side[:100] for side in halves())
    repeating = [*one[:75], *one[:25]]  # half of its texts occur twice; four standard errors are 40 points
    assert caveats_of_kind(repeating, [*one[:70], *other[:30]], "shared") == []
    (caveat,) = caveats_of_kind(repeating, [*one[:75], *one[:17], *other[:8]], "shared")
    assert caveat.values == {"copies": 92, "n": 100, "share": 0.92, "expected": 0.5}


def test_blank_texts_and_entries_that_were_left_out():
    one, other = halves()
    caveat = only_caveat(one, read([*other, "", "  ", "\n"], skip_bad=True), "empty")
    assert caveat.values == {"blank": 2, "left_out": 1, "n": 503, "share": 3 / 503}
    assert caveat.message == (
        "2 of 503 texts contain only white space and 1 of 503 entries were left out as empty (the first: list[500]: "
        "empty text). An empty text is an answer too: fix the source, or report this share with the score."
    )
    caveat = only_caveat(one, read([*other, {"x": 1}], skip_bad=True), "skipped")
    assert caveat.values == {"left_out": 1, "n": 501, "share": 1 / 501}
    assert caveat.message.startswith(
        "1 of 501 entries were left out as unusable (the first: list[500]: no field 'text'"
    )
    assert caveat.message.endswith("The score describes the remaining ones only.")
