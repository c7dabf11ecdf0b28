"""Whether two sets of completions come from one model."""

import json
import subprocess
import sys

import numpy as np
import pytest

import mallow
from mallow import InputError, Samples
from mallow.embed import style
from mallow.evaluate import SameModel


def completions(seed, *, prompts=8, size=4, shift=0.0, odd=()):
    """Features of answers; those of the `odd` prompts are moved by `shift`."""
    rng = np.random.default_rng(seed)
    unit = np.repeat(np.arange(prompts), size)
    rows = np.random.default_rng(9).normal(size=(prompts, 4))[unit] + rng.normal(size=(len(unit), 4))
    rows[np.isin(unit, odd)] += shift
    return Samples(features=rows, prompts=[f"prompt {number}" for number in unit])


def same(a, b, **options):
    return mallow.same_model(a, b, embedder=None, permutations=99, **options)


def test_the_prompts_that_differ_come_first():
    result = same(completions(0, size=8), completions(1, size=7, shift=6.0, odd=(2, 5)))
    assert result.differs
    assert result.p_value < 0.01
    assert {one.prompt for one in result.prompts[:2]} == {"prompt 2", "prompt 5"}
    assert result.prompts[0].n == (8, 7)
    assert result.verdict.startswith("The completions come from different models (p")
    assert "Prompts that differ most" in str(result)


def test_a_proven_difference_says_how_many_prompts_and_samples_show_one_of_its_size():
    wide = {"prompts": 20, "size": 6}
    clear, faint = (
        same(completions(0, **wide), completions(1, shift=shift, odd=range(20), **wide)) for shift in (3, 0.7)
    )
    assert clear.prompts_needed < faint.prompts_needed
    assert clear.samples_needed <= faint.samples_needed
    assert 5 <= clear.prompts_needed < 20
    words = f"To detect a difference of this size with 80% power: {faint.prompts_needed} prompts with as many samples"
    assert words in str(faint)


def test_without_a_proven_difference_no_number_is_given():
    result = same(completions(0), completions(1))
    assert result.prompts_needed is None
    assert result.samples_needed is None
    assert "80% power" not in str(result)


def test_one_model():
    result = same(completions(0), completions(1))
    assert not result.differs
    assert result.verdict.startswith("No difference between the models is proven (p = ")
    assert result.shared == 8
    assert len(result.prompts) == 8


def test_there_and_back():
    result = same(completions(0), completions(1, shift=3.0, odd=(1,)))
    again = SameModel.from_json(result.to_json())
    assert str(again) == str(result)
    assert again.prompts == result.prompts


def test_ids_of_rows_do_not_hide_prompts():
    a, b = completions(0, size=8), completions(1, size=8, shift=6.0, odd=(2, 5))
    named = [
        Samples(features=side.features, prompts=side.prompts, ids=[f"{name} {row}" for row in range(len(side))])
        for name, side in zip("ab", (a, b), strict=True)
    ]
    assert same(*named).p_value == same(a, b).p_value


def test_prompts_of_one_side_are_left_out():
    with pytest.warns(
        mallow.EstimateWarning, match=r"1 prompt was left out, because only one of the sets has completions for it\."
    ):
        result = same(completions(0), completions(1, prompts=7))
    assert result.shared == 7


def test_one_sample_per_prompt_is_said():
    with pytest.warns(mallow.EstimateWarning, match=r"fewer than five prompts have two samples or more in both sets"):
        result = same(completions(0, prompts=30, size=1), completions(1, prompts=30, size=1))
    assert result.prompts == ()


def test_texts_that_begin_with_their_prompt_on_one_side():
    a = Samples(texts=[f"word {place}" for place in range(20)], prompts=[f"Go {place // 2}" for place in range(20)])
    b = Samples(texts=[f"{prompt}: {text}" for prompt, text in zip(a.prompts, a.texts, strict=True)], prompts=a.prompts)
    words = r"0\.0% of the texts of `a` begin with their prompt, and 100\.0% of `b`, so that they differ even if the"
    with pytest.warns(mallow.EstimateWarning, match=words):
        mallow.same_model(a, b, permutations=9)


def test_bad_input():
    a = completions(0)
    with pytest.raises(InputError, match=r"`b` must have prompts: which completions answer the same prompt"):
        same(a, Samples(features=a.features))
    with pytest.raises(InputError, match=r"`a` and `b` must answer the same prompts, but they share none\."):
        same(a, Samples(features=a.features, prompts=["other " + prompt for prompt in a.prompts]))
    texts = Samples(texts=["Yes."] * 20, prompts=[f"{place // 2}" for place in range(20)])
    with pytest.raises(
        InputError, match=r"must have samples that differ, but all completions look equal to the embedder"
    ):
        mallow.same_model(texts, texts)


def test_on_the_command_line(tmp_path):
    rng = np.random.default_rng(0)
    paths = []
    for name, words in (("a", ["red", "green", "blue", "grey"]), ("b", ["cat", "dog", "cow", "hen"])):
        rows = [
            {"prompt": f"Question {place // 4}", "text": " ".join(rng.choice(words, size=6))} for place in range(32)
        ]
        paths.append(tmp_path / f"{name}.jsonl")
        paths[-1].write_text("\n".join(map(json.dumps, rows)))
    command = [sys.executable, "-m", "mallow", "same", *map(str, paths), "--permutations", "99", "--format", "json"]
    out = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert out["kind"] == "mallow same model"
    assert out["differs"]
    assert out["embedder"] == style.name  # unless another is named, even where one is installed
