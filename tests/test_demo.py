"""The demonstration is a function of its seed."""

from mallow import demo


def test_passages_are_disjoint():
    reference, people, train = demo.passages(0)
    assert len({*reference, *people, *train}) == len(reference) + len(people) + len(train)
    assert (len(reference), len(people)) == (demo.COUNT, demo.COUNT)
    assert len(train) > 500


def test_the_same_seed_gives_the_same_texts():
    reference, _, train = demo.passages(0)
    texts = demo.write_with_models(reference[:3], train[:200], 0)
    assert texts == demo.write_with_models(reference[:3], train[:200], 0)
    assert set(texts) == set(demo.SYSTEMS)


def test_digits_have_one_row_each():
    reference, systems = demo.digits(0)
    assert {rows.shape for rows in (reference, *systems.values())} == {(898, 64)}
