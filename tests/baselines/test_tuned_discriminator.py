"""A fine-tuned discriminator: tells word order apart where averaged features cannot, not what is the same, and is deterministic."""

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs torch, of the extra `text`")
transformers = pytest.importorskip("transformers", reason="needs transformers, of the extra `text`")

from mallow import InputError  # noqa: E402
from mallow.baselines import TunedDiscriminator, discriminator_accuracy, tuned_discriminator_accuracy  # noqa: E402
from tiny_models import save_tiny_model, tiny_config, tiny_tokenizer  # noqa: E402

WORDS = ["one", "two", "three", "four", "five", "six"]


def texts(count, seed, ordered):
    """Six words in the order of the alphabet, or in any: how often each word occurs is the same."""
    rng = np.random.default_rng(seed)
    drawn = [rng.choice(WORDS, size=6).tolist() for _ in range(count)]
    return [" ".join(sorted(words) if ordered else words) for words in drawn]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    tokenizer = tiny_tokenizer(texts(20, 0, ordered=False), special=("<s>", "</s>", "<x>"))
    path = tmp_path_factory.mktemp("gpt2")
    return str(save_tiny_model(path, tiny_config("gpt2", vocabulary=300), tokenizer))


def counts(some):
    return np.array([[text.split().count(word) for word in WORDS] for text in some], float)


def test_it_sees_the_order_of_words_which_counts_do_not(folder):
    human, machine = texts(160, 1, ordered=False), texts(160, 2, ordered=True)
    options = TunedDiscriminator(folder, rounds=6, rate=3e-3, device="cpu")
    assert tuned_discriminator_accuracy(human, machine, options) > 0.8
    assert discriminator_accuracy(counts(human), counts(machine)) < 0.65


def test_what_is_the_same_cannot_be_told_apart(folder):
    human = texts(60, 3, ordered=False)
    options = TunedDiscriminator(folder, rounds=1, device="cpu")
    assert tuned_discriminator_accuracy(human, list(human), options) == 0.5
    again = [tuned_discriminator_accuracy(human, texts(60, 4, ordered=False), options, rng=5) for _ in range(2)]
    assert again[0] == again[1]
    assert 0.2 < again[0] < 0.8


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TunedDiscriminator("x", rounds=0), r"`rounds` must be an integer of at least 1; got 0\."),
        (lambda: TunedDiscriminator("x", rate=0.0), r"`rate` must be a finite number above 0; got 0\.0"),
        (
            lambda: tuned_discriminator_accuracy(["a"] * 7, ["b"] * 9, TunedDiscriminator("x")),
            r"`reference` must hold at least 8 texts, to be split; got 7\.",
        ),
        (
            lambda: tuned_discriminator_accuracy(["a"] * 8, [1] * 9, TunedDiscriminator("x")),
            r"`model` must be a list of texts; got list with other things\.",
        ),
    ],
)
def test_bad_arguments_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()
