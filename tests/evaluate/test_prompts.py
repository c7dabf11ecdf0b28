"""Texts dealt to other prompts: every function that compares texts sees them, and says what it looked at."""

import gzip
import itertools
import json
import re

import numpy as np
import pytest

import mallow
from mallow import InputError, Monitor, Samples
from mallow.embed import embed_shards
from mallow.evidence import Witness

pytestmark = pytest.mark.filterwarnings("ignore::mallow.EstimateWarning")

COUNT = 200


def read_webtext(shared, name):
    with gzip.open(shared / "data" / "webtext-gpt2-large" / f"{name}.jsonl.gz", "rt") as lines:
        rows = [json.loads(line) for line in itertools.islice(lines, COUNT)]
    texts = [row["gen"][0] if isinstance(row["gen"], list) else row["gen"] for row in rows]
    return Samples(texts=[text if text.strip() else "." for text in texts], prompts=[row["prefix"] for row in rows])


def deal(samples, share=1.0):
    """The same texts, of which a share is dealt to other prompts."""
    count = round(share * len(samples))
    texts = [*np.roll(samples.texts[:count], 1), *samples.texts[count:]] if count else samples.texts
    return Samples(texts=list(map(str, texts)), prompts=samples.prompts)


@pytest.fixture(scope="module")
def human(shared):
    return read_webtext(shared, "human")


@pytest.fixture(scope="module")
def nucleus(shared):
    return read_webtext(shared, "nucleus")


@pytest.fixture(scope="module")
def dealt(human):
    return deal(human)


OPTIONS = {"embedder": "style", "repeats": 1}


@pytest.fixture(scope="module")
def score(human, dealt):
    return mallow.score(human, dealt, **OPTIONS)


def test_a_score_says_what_texts_prove_alone_and_with_their_prompts(score, human, dealt):
    assert score.certified["mauve"].high < 0.3
    assert score.texts_alone["mauve"].high == 1.0
    assert re.search(r"\nTexts alone: no gap is proven; with their prompts: MAUVE at most 0\.\d{4}\.\n", str(score))
    again = mallow.Score.from_json(score.to_json())
    assert again.texts_alone == score.texts_alone
    alone = mallow.score(human, dealt, prompts="ignore", **OPTIONS)
    assert alone.texts_alone == {}
    assert "Texts alone" not in str(alone)


def test_texts_alone_are_judged_as_if_prompts_were_ignored(human, shared):
    contrastive = read_webtext(shared, "contrastive")
    joint = mallow.score(human, contrastive, **OPTIONS)
    ignored = mallow.score(human, contrastive, prompts="ignore", **OPTIONS)
    # The same views of the same texts; only the folds differ, which are dealt by the order of the rows.
    assert joint.texts_alone["mauve"].high == pytest.approx(ignored.certified["mauve"].high, abs=0.02)
    assert joint.texts_alone["mauve"].high < 1.0


def test_texts_alone_with_views_of_a_user_do_not_see_prompts(dealt, human):
    widths = set()

    def first_column(reference, model, others):
        widths.add(others.shape[1])
        return others[:, 0]

    some = slice(0, 100)
    sides = [Samples(texts=list(side.texts[some]), prompts=list(side.prompts[some])) for side in (human, dealt)]
    measure = mallow.Measure(witness=Witness(views=(first_column,), assignments=1))
    score = mallow.score(*sides, measure=measure, **OPTIONS)
    assert score.certified["mauve"].high < 1.0
    assert len(widths) == 2  # with the columns of the prompts, and without
    assert score.texts_alone["mauve"].high == 1.0


def test_a_comparison(human, nucleus, dealt, score):
    comparison = mallow.compare(human, {"nucleus": nucleus, "dealt": dealt}, **OPTIONS)
    assert comparison.winner == "nucleus"
    assert comparison.scores["dealt"].certified == score.certified
    assert comparison.scores["dealt"].texts_alone == score.texts_alone
    [reason] = [reason for reason in comparison.scores["dealt"].reasons if "prompts" in reason.text]
    assert re.fullmatch(r"farther from their prompts \(mean cosine 0\.\d\d, reference 0\.\d\d\)", reason.text)
    assert reason.values["model"] < reason.values["reference"]


def test_a_diagnosis_lists_what_is_off_topic(human, score):
    model = deal(human, share=0.2)
    diagnosis = mallow.diagnose(human, model, embedder="style")
    assert len(diagnosis.off_topic) == 10
    for one in diagnosis.off_topic:
        assert one.place < 40
        assert (one.text, one.prompt) == (model.texts[one.place], model.prompts[one.place])
        assert one.cosine < one.reference
    gaps = [one.cosine - one.reference for one in diagnosis.off_topic]
    assert gaps == sorted(gaps)
    assert "Off topic: farther from their prompts than the reference's texts\nprompt" in str(diagnosis)
    assert type(diagnosis).from_json(diagnosis.to_json()).off_topic == diagnosis.off_topic
    assert any("farther from their prompts" in reason.text for reason in diagnosis.reasons)
    assert mallow.diagnose(human, human, embedder="style").off_topic == ()
    without = Samples(texts=model.texts)
    assert mallow.diagnose(Samples(texts=human.texts), without, embedder="style").off_topic == ()


def test_a_series(human, score):
    checkpoints = {f"step {step}": deal(human, share) for step, share in enumerate((1.0, 0.7, 0.1))}
    series = mallow.track(human, checkpoints, **OPTIONS)
    assert series.trend.tau == 1.0
    assert series.changes[-1].at == "step 2"
    scores = series.comparison.scores
    assert scores["step 0"].signature.spaces == "prompts"
    assert scores["step 0"].certified == score.certified


class TestCheck:
    def test_a_model_that_answers_other_prompts_is_a_regression(self, human, nucleus, dealt):
        before = mallow.score(human, nucleus, **OPTIONS)
        check = mallow.check_regression(human, dealt, before, embedder="style")
        assert check.outcome == "regression"
        assert mallow.check_regression(human, nucleus, before, embedder="style").outcome == "passed"

    def test_a_baseline_that_ignores_prompts_is_compared_without_them(self, human, nucleus, dealt):
        before = mallow.score(human, nucleus, prompts="ignore", **OPTIONS)
        check = mallow.check_regression(human, dealt, before, embedder="style")
        assert check.score.signature.spaces == ""
        assert check.outcome != "regression"

    def test_a_baseline_with_prompts_needs_them_again(self, human, dealt, score):
        message = (
            "`baseline` must use the same evidence as this score, features; it used features, prompts. "
            "More evidence proves a larger gap. Score the baseline again, with prompts on both sides or on neither."
        )
        with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
            mallow.check_regression(Samples(texts=human.texts), Samples(texts=dealt.texts), score, embedder="style")


def test_a_plan_sees_the_difference(human, dealt):
    plan = mallow.plan_samples(human, deal(human, 0.5), dealt, detect=0.1, embedder="style")
    assert plan.pilot["low"] > 0.0
    alone = [Samples(texts=side.texts) for side in (human, deal(human, 0.5), dealt)]
    with pytest.raises(InputError, match="the pilot shows no gap"):
        mallow.plan_samples(*alone, detect=0.1, embedder="style")


@pytest.fixture(scope="module")
def halves(human):
    order = np.random.default_rng(0).permutation(COUNT)
    return human.take(order[:100]), human.take(order[100:])


class TestMonitor:
    def test_an_alarm_for_texts_that_answer_other_prompts(self, halves):
        reference, others = halves
        monitor = Monitor(reference, embedder="style")
        monitor.update(deal(others))
        assert monitor.alarm
        assert min(monitor.p_values, key=monitor.p_values.get).startswith("prompts: ")
        monitor.reset()
        monitor.update(others)
        assert not monitor.alarm
        ignoring = Monitor(reference, embedder="style", prompts="ignore")
        ignoring.update(deal(others))
        assert not ignoring.alarm
        assert set(ignoring.p_values) == {"mean", "fine mean", "spread", "bins"}

    def test_samples_without_prompts_silence_what_prompts_say(self, halves):
        reference, others = halves
        monitor = Monitor(reference, embedder="style")
        monitor.update(Samples(texts=others.texts[:20]))
        monitor.update(deal(others.take(range(20, 100))))
        assert monitor.p_values["prompts: mean"] == 1.0
        assert not monitor.alarm
        assert monitor.combine([monitor.counted()]).p_values["prompts: mean"] == 1.0

    def test_parts_add_up(self, halves):
        reference, others = halves
        monitor = Monitor(reference, embedder="style")
        parts = []
        for places in (range(50), range(50, 100)):
            monitor.update(deal(others).take(places))
            parts.append(monitor.counted())
            monitor.reset()
        monitor.update(deal(others))
        whole = monitor.combine([monitor.counted()])
        assert monitor.combine(parts).p_values == whole.p_values
        assert monitor.combine(parts[::-1]).p_values == whole.p_values

    def test_style_is_seen_beside_features(self):
        rng = np.random.default_rng(0)
        words = np.array(["ability", "able", "about", "accept", "across", "act", "action", "after", "age", "agency"])
        texts = [" ".join(rng.choice(words, 12)) for _ in range(300)]

        def lengths(texts):
            return np.array([[len(text), text.count("a")] for text in texts], dtype=float)

        monitor = Monitor(texts[:150], embedder=lengths)
        monitor.update([text.replace("c", "k") for text in texts[150:]])
        assert monitor.alarm
        assert min(monitor.p_values, key=monitor.p_values.get).startswith("style: ")

    def test_a_space_of_ones_own_must_be_there(self):
        rng = np.random.default_rng(0)
        features, own = rng.normal(size=(100, 3)), rng.normal(size=(100, 2))
        monitor = Monitor(Samples(features=features, spaces={"mine": own}))
        monitor.update(Samples(features=features, spaces={"mine": own + 2.0}))
        assert monitor.alarm
        message = "`batch` must have the space 'mine' with 2 columns, as the reference has."
        for batch in (Samples(features=features), Samples(features=features, spaces={"mine": own[:, :1]})):
            with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
                monitor.update(batch)

    def test_bad_words(self, human):
        with pytest.raises(InputError, match=r'^`prompts` must be "joint" or "ignore"; got .some.\.$'):
            Monitor(human, embedder="style", prompts="some")


FEATURES_ALONE = (
    "evidence looks at the embedder's features only: neither at the style of the texts nor at their prompts, which are "
    "not read with the features. Where the texts fit the memory, pass the texts themselves."
)


class TestShards:
    def test_shards_of_texts_say_that_evidence_looks_at_features_only(self, human, dealt, tmp_path):
        sets = []
        for name, side in (("human", human), ("dealt", dealt)):
            lines = [json.dumps({"text": t, "prompt": p}) for t, p in zip(side.texts, side.prompts, strict=True)]
            (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
            sets.append(embed_shards(tmp_path / f"{name}.jsonl", tmp_path / name, embedder="style"))
        result = mallow.score(*sets, repeats=1)
        found = [caveat for caveat in result.caveats if caveat.kind == "features alone"]
        assert [caveat.system for caveat in found] == ["reference", "model"]
        assert {caveat.message for caveat in found} == {FEATURES_ALONE}
        assert result.signature.spaces == ""
        comparison = mallow.compare(str(tmp_path / "human"), {"dealt": str(tmp_path / "dealt")}, repeats=1)
        assert FEATURES_ALONE in {caveat.message for caveat in comparison.caveats}

    def test_features_that_were_no_texts_say_nothing(self, tmp_path):
        rows = np.random.default_rng(0).normal(size=(2, 60, 3))
        for name, own in zip("ab", rows, strict=True):
            (tmp_path / name).mkdir()
            np.save(tmp_path / name / "rows.npy", own)
        result = mallow.score(str(tmp_path / "a"), str(tmp_path / "b"), repeats=1)
        assert all(caveat.kind != "features alone" for caveat in result.caveats)


def answers(topics, noise, rng):
    """Six answers to each prompt."""
    features = np.repeat(topics, 6, axis=0) + noise * rng.normal(size=(6 * len(topics), topics.shape[1]))
    return Samples(features=features, prompts=[f"prompt {row // 6}" for row in range(len(features))])


class TestAnswers:
    def test_how_alike_answers_to_a_prompt_are_is_reported(self):
        rng = np.random.default_rng(0)
        topics = rng.normal(size=(40, 8))
        human, model = answers(topics, 1.0, rng), answers(topics, 0.5, rng)
        result = mallow.score(human, model, repeats=1)
        expected = []
        for side in (model, human):
            units = (side.features / np.linalg.norm(side.features, axis=1, keepdims=True)).reshape(40, 6, 8)
            expected.append(((units @ units.swapaxes(1, 2)).sum() - 240) / (40 * 30))
        assert [result.answers["model"], result.answers["reference"]] == pytest.approx(expected)
        line = f"Answers to one prompt: mean cosine of two {expected[0]:.2f}, reference {expected[1]:.2f}."
        assert line in str(result)
        assert result.to_dict()["answers"] == result.answers
        comparison = mallow.compare(human.take(rng.permutation(240)), {"model": model}, repeats=1)
        assert comparison.scores["model"].answers == result.answers

    def test_they_are_a_reason_where_the_score_sees_it(self):
        """To every other prompt, the model always gives the same answer."""
        rng = np.random.default_rng(0)
        topics = rng.normal(size=(60, 8))
        human, model = answers(topics, 1.0, rng), answers(topics, 1.0, rng)
        canned = np.array([int(prompt.split()[1]) % 2 == 0 for prompt in model.prompts])
        features = np.where(canned[:, None], np.r_[2.0, -2.0, 2.0, -2.0, 0.0, 0.0, 0.0, 0.0], model.features)
        features += 0.3 * canned[:, None] * rng.normal(size=features.shape)
        result = mallow.score(human, Samples(features=features, prompts=model.prompts), repeats=1)
        [reason] = [reason for reason in result.reasons if "alike" in reason.text]
        numbers = f"(mean cosine {result.answers['model']:.2f}, reference {result.answers['reference']:.2f})"
        assert reason.text == f"answers to one prompt that are more alike {numbers}"

    def test_one_answer_to_a_prompt_is_not_compared_with_others(self, score):
        rng = np.random.default_rng(0)
        several = Samples(features=rng.normal(size=(60, 3)), prompts=[str(row // 3) for row in range(60)])
        one = Samples(features=rng.normal(size=(20, 3)), prompts=[str(row) for row in range(20)])
        result = mallow.score(one, several, repeats=1)
        assert result.answers == score.answers == {}
        assert "Answers to one prompt" not in str(result)


def test_embedded_samples_keep_their_spaces(human, dealt, score):
    sets = mallow.embed.embed_all({"reference": human, "model": dealt}, "style", prompts="joint")
    again = mallow.score(sets["reference"], sets["model"], repeats=1)
    assert again.certified == score.certified
    assert again.signature.spaces == "prompts"
