"""Regions and examples in print."""

from dataclasses import replace

from mallow.explain import Example, Region

REGION = Region(
    side="missed",
    bin=3,
    share=0.5,
    reference=20,
    model=4,
    expected=(12.0, 12.0),
    p_value=0.001,
    adjusted=0.012,
    reference_examples=(Example(7, text="a  cat\nsat"),),
    model_examples=(),
    terms=("cat", "sat"),
    lengths={"region": 3.0, "elsewhere": 6.5},
)


def test_a_region_prints_its_numbers_terms_and_examples():
    assert str(REGION) == (
        "50% of what the model misses: 20 reference and 4 model samples, 12.0 and 12.0 expected; adjusted p = 0.012\n"
        "  typical    cat, sat\n"
        "  length     3 words; elsewhere 6.5\n"
        "  reference  a cat sat"
    )
    assert str(replace(REGION, score=-0.456)).splitlines()[1] == "  score      -0.46 on average, held out"
    doubtful = replace(REGION, side="invented", adjusted=0.2, terms=(), lengths={}, reference_examples=())
    assert str(doubtful) == (
        "50% of what the model invents: 20 reference and 4 model samples, 12.0 and 12.0 expected; adjusted p = 0.2, "
        "not significant"
    )


def test_significance_is_at_the_five_per_cent_level():
    assert replace(REGION, adjusted=0.049).significant
    assert not replace(REGION, adjusted=0.05).significant


def test_an_example_prints_in_one_line_without_control_characters():
    assert str(Example(3)) == "sample 3"
    assert str(Example(3, id="x")) == "sample 3 (x)"
    assert str(Example(3, id="x", path="folder/x.png")) == "folder/x.png"
    line = str(Example(0, text="\x1b[2Jcleared\n\n screen " + "long " * 100))
    assert line.startswith(r"\x1b[2Jcleared screen long")
    assert line.endswith("…")
    assert len(line) == 88
