"""When a difference is sure and large enough."""

from caveats.real_texts import caveats_of_kind, halves
from mallow import Samples


def test_several_generations_of_a_prompt_are_less_evidence():
    # Half of 60 texts end without a full stop, and none of some 50: evidence, unless the 50 are generations of 4 prompts.
    one, other = halves(size=60)
    one = [text.rstrip(".") if i % 2 else text for i, text in enumerate(one)]
    ended = [text for text in other if text.endswith(".")]
    ids = [str(i % 4) for i in range(len(ended))]
    assert caveats_of_kind(one, Samples(texts=ended), "truncation")
    assert not caveats_of_kind(one, Samples(texts=ended, ids=ids), "truncation")
