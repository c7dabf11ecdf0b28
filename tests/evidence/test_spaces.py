"""Evidence that looks at several spaces: style, prompts, and a user's own."""

import json
import sys

import numpy as np
import pytest

import mallow
from mallow import InputError, Samples, cli

LETTERS = np.array(list("abcdefghijklmnopqrstuvwxyz"))


def words(rng, count):
    return ["".join(rng.choice(LETTERS, size=rng.integers(3, 9))) for _ in range(count)]


def answers(count=60, *, seed=0):
    """Prompts of random words, and texts that take up the words of their prompt."""
    rng = np.random.default_rng(seed)
    prompts, texts = [], []
    for _ in range(count):
        topic = words(rng, 6)
        prompts.append(" ".join(topic))
        texts.append(" ".join([*rng.permutation(topic), *words(rng, 6)]))
    return prompts, texts


@pytest.fixture(scope="module")
def dealt():
    prompts, texts = answers()
    other = list(np.roll(texts, 1))
    return Samples(texts=texts, prompts=prompts), Samples(texts=other, prompts=prompts)


def quick(reference, model, **options):
    return mallow.score(reference, model, embedder="style", repeats=1, **options)


@pytest.mark.filterwarnings("ignore::mallow.EstimateWarning")
class TestPrompts:
    def test_texts_dealt_to_other_prompts_are_seen_with_their_prompts_alone(self, dealt):
        joint, alone = quick(*dealt), quick(*dealt, prompts="ignore")
        assert joint.p_value < 1e-3
        assert joint.certified["mauve"].high < 0.3
        assert alone.p_value > 0.9
        assert alone.certified["mauve"].high == 1.0
        assert joint.signature.spaces == "prompts"
        assert alone.signature.spaces == ""
        assert "Evidence looks at features, prompts." in str(joint)
        assert any("farther from their prompts" in reason.text for reason in joint.reasons)

    def test_the_test_alone_and_a_comparison_say_the_same(self, dealt):
        reference, model = dealt
        assert mallow.permutation_test(reference, model, embedder="style") < 1e-3
        assert mallow.permutation_test(reference, model, embedder="style", prompts="ignore") > 0.9
        comparison = mallow.compare(reference, {"dealt": model}, embedder="style", repeats=1)
        assert comparison.scores["dealt"].certified == quick(*dealt).certified

    def test_the_order_of_rows_changes_nothing(self, dealt):
        shuffled = [
            side.take(np.random.default_rng(number).permutation(len(side))) for number, side in enumerate(dealt)
        ]
        assert quick(*shuffled).certified == quick(*dealt).certified
        assert quick(*shuffled).p_value == quick(*dealt).p_value

    def test_other_prompts_are_not_looked_at(self, dealt):
        """A prompt that only one side has says nothing about how its texts are."""
        reference, model = dealt
        other = Samples(texts=model.texts, prompts=[prompt + " x" * (i % 2) for i, prompt in enumerate(model.prompts)])
        result = quick(reference, other)
        assert result.signature.spaces == ""
        [caveat] = [caveat for caveat in result.caveats if caveat.kind == "unmatched prompts"]
        assert "Evidence looks at the texts without their prompts." in caveat.message

    def test_a_few_missing_answers_do_no_harm(self, dealt):
        reference, model = dealt
        assert quick(reference, model.take(range(58))).signature.spaces == "prompts"

    @pytest.mark.parametrize("prompts", [[""] * 60, ["Write a story."] * 60])
    def test_one_prompt_for_all_is_none(self, dealt, prompts):
        result = quick(*(Samples(texts=side.texts, prompts=prompts) for side in dealt))
        assert result.signature.spaces == ""
        assert result.p_value > 0.9

    def test_bad_words(self, dealt):
        with pytest.raises(InputError, match=r'`prompts` must be "joint" or "ignore"; got .yes.'):
            quick(*dealt, prompts="yes")

    def test_on_the_command_line(self, dealt, tmp_path, monkeypatch, capsys):
        paths = []
        for name, side in zip(("human", "model"), dealt, strict=True):
            lines = [json.dumps({"text": t, "prompt": p}) for t, p in zip(side.texts, side.prompts, strict=True)]
            paths.append(tmp_path / f"{name}.jsonl")
            paths[-1].write_text("\n".join(lines))
        found = {}
        for mode in ("joint", "ignore"):
            command = ["mallow", "score", *map(str, paths), "--embedder", "style", "--repeats", "1"]
            monkeypatch.setattr(sys, "argv", [*command, "--prompts", mode, "--format", "json"])
            with pytest.raises(SystemExit) as left:
                cli.main()
            assert not left.value.code
            found[mode] = json.loads(capsys.readouterr().out)["p_value"]
        assert found["joint"] < 1e-3
        assert found["ignore"] > 0.9


@pytest.mark.filterwarnings("ignore::mallow.EstimateWarning")
class TestSpaces:
    def sides(self, shift, more, *, size=150, seed=0):
        rng = np.random.default_rng(seed)
        sides = []
        for side in (0, 1):
            features, others = rng.normal(side * shift, 1, size=(size, 6)), rng.normal(side * more, 1, size=(size, 4))
            sides.append(Samples(features=features, spaces={"mine": others}))
        return sides

    def test_a_gap_in_a_space_of_the_user_is_seen(self):
        sides = self.sides(0.0, 0.8)
        alone = mallow.score(*(Samples(features=side.features) for side in sides), repeats=1)
        result = mallow.score(*sides, repeats=1)
        assert alone.p_value > 0.05
        assert alone.certified["mauve"].high == 1.0
        assert result.p_value < 1e-3
        assert result.certified["mauve"].high < 0.8
        assert result.signature.spaces == "mine"
        statistics = result.evidence.test.statistics
        assert min(p for name, p in statistics.items() if name.startswith("mine: ")) < 0.01

    def test_a_space_of_noise_costs_little(self):
        sides = self.sides(0.5, 0.0, size=400)
        alone = mallow.score(*(Samples(features=side.features) for side in sides), repeats=1)
        result = mallow.score(*sides, repeats=1)
        assert result.certified["mauve"].value == pytest.approx(alone.certified["mauve"].value, abs=0.02)

    def test_two_halves_of_a_gap_add_up(self):
        sides = self.sides(0.3, 0.4, size=400)
        parts = [
            [Samples(features=side.features) for side in sides],
            [Samples(features=side.spaces["mine"]) for side in sides],
        ]
        both = mallow.score(*sides, repeats=1).certified["mauve"].value
        assert both < min(mallow.score(*part, repeats=1).certified["mauve"].value for part in parts) - 0.05

    def test_no_gap_is_no_gap(self):
        p_values = [mallow.permutation_test(*self.sides(0.0, 0.0, size=40, seed=seed)) for seed in range(40)]
        assert np.mean(np.array(p_values) < 0.05) <= 0.15

    def test_spaces_go_with_their_samples(self):
        samples = Samples(texts=["a", "b", "c"], spaces={"mine": np.arange(6.0).reshape(3, 2)})
        assert samples.take([2, 0]).spaces["mine"].tolist() == [[4.0, 5.0], [0.0, 1.0]]
        assert samples.first(2).spaces["mine"].tolist() == [[0.0, 1.0], [2.0, 3.0]]

    def test_a_space_has_a_row_for_each_sample(self):
        with pytest.raises(
            InputError, match=r"`spaces\['mine'\]` must have one entry for each of the 2 samples; got 3"
        ):
            Samples(texts=["a", "b"], spaces={"mine": np.zeros((3, 1))})
        with pytest.raises(InputError, match=r"`spaces\['mine'\]` must be finite"):
            Samples(texts=["a", "b"], spaces={"mine": [[0.0], [np.nan]]})

    def test_texts_have_their_style_beside_the_features_of_an_embedder(self):
        """The embedder sees lengths alone, which are equal; the style sees that one side has no vowels."""
        rng = np.random.default_rng(0)
        texts = [" ".join(words(rng, 12)) for _ in range(120)]
        model = [text.translate(str.maketrans("aeiou", "bcdfg")) for text in texts[60:]]

        def lengths(texts):
            return np.array([[len(text), text.count(" ")] for text in texts], dtype=float)

        result = mallow.score(texts[:60], model, embedder=lengths, repeats=1)
        assert result.p_value < 1e-3
        assert result.signature.spaces == "style"

    def test_a_difference_of_systems_with_spaces(self):
        reference, near = self.sides(0.0, 0.2, size=200)
        far = self.sides(0.0, 1.2, size=200, seed=1)[1]
        comparison = mallow.compare(reference, {"near": near, "far": far}, repeats=1)
        assert comparison.winner == "near"

    @pytest.mark.parametrize("engine", [None, "threads"], ids=["in memory", "in chunks"])
    def test_a_space_of_one_system_does_not_decide_between_two(self, engine):
        """Both are equally far; the gap is clearest in a space that was only given for one of them."""
        reference, first = self.sides(0.3, 1.5, size=200)
        second = self.sides(0.3, 1.5, size=200, seed=1)[1]
        second = Samples(features=second.features)
        for systems in ({"first": first, "second": second}, {"second": second, "first": first}):
            comparison = mallow.compare(reference, systems, repeats=1, engine=engine)
            scores = comparison.scores
            assert scores["first"].certified["mauve"].high < scores["second"].certified["mauve"].value
            assert comparison.winner is None
            assert comparison.differences[0].p_value["mauve"] > 0.05

    def test_prompts_of_one_system_do_not_decide_between_two(self, dealt):
        """Both are dealt to other prompts, but one has too few of the reference's prompts to be judged with them."""
        reference, model = dealt
        comparison = mallow.compare(
            reference, {"all": model, "half": model.take(range(30))}, embedder="style", repeats=1
        )
        assert comparison.scores["all"].certified["mauve"].high < 0.3
        assert comparison.scores["half"].certified["mauve"].high == 1.0
        assert comparison.winner is None


@pytest.fixture
def pictures(tmp_path):
    """Images of one mean colour each; the second set has fine noise, which the mean does not show."""
    pillow = pytest.importorskip("PIL.Image", reason="needs pip install 'mallow[images]'")
    rng = np.random.default_rng(0)
    sides = []
    for name, noise in (("real", 2), ("made", 6)):
        paths = []
        for number, colour in enumerate(rng.integers(60, 200, size=(60, 1, 1, 3))):
            pixels = colour + noise * rng.normal(size=(16, 16, 3))
            paths.append(tmp_path / f"{name} {number}.png")
            pillow.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(paths[-1])
        sides.append(Samples(images=paths))
    return sides


def mean_colours(images):
    from PIL import Image

    return [np.asarray(Image.open(path), np.float64).mean(axis=(0, 1)) for path in images]


@pytest.mark.filterwarnings("ignore::mallow.EstimateWarning")
class TestTexture:
    def test_images_are_also_seen_by_their_texture(self, pictures):
        result = mallow.score(*pictures, embedder=mean_colours, repeats=1)
        assert result.signature.spaces == "texture"
        assert result.p_value < 1e-3
        assert result.certified["mauve"].high < 0.3
        assert mallow.permutation_test(*pictures, embedder=mean_colours) < 1e-3
        features = [mean_colours(side.images) for side in pictures]
        assert mallow.permutation_test(*features) > 0.05

    def test_texture_is_not_looked_at_twice(self, pictures):
        assert mallow.score(*pictures, embedder="texture", repeats=1).signature.spaces == ""

    def test_features_whose_images_are_elsewhere_are_enough(self, pictures):
        sides = [
            Samples(images=[f"elsewhere/{path.name}" for path in side.images], features=mean_colours(side.images))
            for side in pictures
        ]
        assert mallow.permutation_test(*sides) > 0.05
