"""Features: norms, duplicates and copies of rows."""

import numpy as np
import pytest

from caveats.real_texts import only_caveat
from mallow.caveats import find_confounds

ONE, OTHER = np.random.default_rng(0).normal(size=(2, 400, 8)).astype(np.float32)


def test_similar_features_give_no_caveats():
    assert find_confounds(ONE, {"other": OTHER}) == ()
    assert find_confounds(ONE, {"other": 1.2 * OTHER}) == ()


def test_norms():
    caveat = only_caveat(ONE, 4 * OTHER, "norm")
    own, reference = caveat.values["norm"], caveat.values["norm_reference"]
    assert own == pytest.approx(4 * reference, rel=0.1)
    assert caveat.message == (
        f"the median norm of the rows is {own:.4g} (reference: {reference:.4g}). Embed both sides in the same way, with the "
        "same scaling."
    )


def test_duplicates_and_copies():
    assert only_caveat(ONE, np.concatenate([OTHER, ONE[:9]]), "shared").values["copies"] == 9
    caveat = only_caveat(ONE, np.concatenate([OTHER, OTHER[:9]]), "duplicates")
    assert caveat.values["repeats"] == 9
    assert caveat.message.startswith(
        "9 of 409 rows (2.2%) are duplicates. The most frequent one occurs 2 times ('row 0')."
    )
    (caveat,) = find_confounds(ONE, {"first": OTHER, "second": OTHER})
    assert (caveat.system, caveat.kind, caveat.values["copies"]) == ("second", "shared", 400)


def test_rows_are_compared_across_precisions_and_all_systems():
    caveats = find_confounds(ONE.astype(np.float64), {"a": OTHER, "b": ONE[:100]})
    assert [(caveat.system, caveat.kind, caveat.values["share"]) for caveat in caveats] == [("b", "shared", 1.0)]


def test_different_widths_are_left_to_the_score():
    assert find_confounds(np.ones((9, 2)), {"a": np.ones((9, 3))}) == ()
