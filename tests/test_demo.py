"""The demonstration is a function of its seed."""

import re

import numpy as np
import pytest

from mallow import EstimateWarning, compare, demo


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


def test_it_prints_verdict_table_and_what_they_mean(monkeypatch, tmp_path):
    rng = np.random.default_rng(0)
    points = {"people": rng.normal(size=(150, 4)), "nucleus 5-grams": rng.normal(0.8, 1.0, size=(150, 4))}

    def compared(reference, systems, **options):
        assert (len(reference), set(systems)) == (20, {"people", *demo.SYSTEMS})
        with pytest.warns(EstimateWarning, match="only 150 samples"):
            return compare(rng.normal(size=(150, 4)), points, repeats=1), {}

    few = demo.passages(0)
    monkeypatch.setattr(demo, "passages", lambda seed: (few[0][:20], few[1][:20], few[2][:200]))
    monkeypatch.setattr(demo.report, "compare_and_diagnose", compared)
    monkeypatch.setattr(demo, "digits", lambda seed: (points["people"], {"narrow Gaussian": 0.5 * points["people"]}))
    text = "\n".join(demo.demo(tmp_path / "out"))
    assert "Smallest proven gap: people. Every other system has a larger one" in text
    assert text.lower().count("self-score") >= 3
    assert "narrow Gaussian was compared with the reference only. The gap is real" in text
    numbers = [line for line in text.splitlines() if re.search(r"\d\.\d{4}", line)]
    assert len(numbers) >= 3
    assert max(map(len, text.splitlines()[:-2])) <= 80
    assert (tmp_path / "out" / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_names_fit_the_table():
    assert max(map(len, [*demo.SYSTEMS, *demo.digits(0)[1]])) <= 15
