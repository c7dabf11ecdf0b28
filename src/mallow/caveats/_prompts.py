"""Prompts that evidence cannot use: on one side only, without a partner, empty, or part of the texts."""

from __future__ import annotations

from collections.abc import Iterator

from mallow.caveats._texts import share_with_prompt
from mallow.embed import UNMATCHED
from mallow.errors import Caveat
from mallow.samples import Samples

_MOST = 0.5  # chosen: if this share of texts begins with the prompt, all are taken to contain it


def prompt_caveats(reference: Samples, samples: Samples, name: str) -> Iterator[Caveat]:
    """Caveats about the prompts of a system and its reference."""
    yield from _unmatched_caveats(reference, samples, name)
    if reference.texts is None or samples.texts is None:
        return
    sides = {"reference": reference, name: samples}
    for system, side in sides.items():
        yield from _empty_caveats(side, system)
    yield from _one_sided_caveats(reference, samples, name)
    looked_at = all("prompts" in (side.spaces or {}) for side in sides.values())
    if looked_at and all(share_with_prompt(side) >= _MOST for side in sides.values()):
        yield Caveat(
            "prompt in text",
            "the texts of both sides begin with their prompts, so that how near a text is to its prompt says less than "
            "it could. Remove the prompts from the texts of both sides.",
            name,
        )


def _empty_caveats(samples: Samples, system: str) -> Iterator[Caveat]:
    """A caveat about samples without a prompt among others that have one."""
    prompts = samples.prompts or ()
    empty = sum(not prompt.strip() for prompt in prompts)
    if samples.ids is None and 0 < empty < len(prompts):
        yield Caveat(
            "empty prompts",
            f"{empty} of the {len(prompts)} prompts are empty: all samples with an empty prompt count as answers to "
            "one prompt. Give each sample its prompt, or an id.",
            system,
            {"empty": empty, "n": len(prompts)},
        )


def _one_sided_caveats(reference: Samples, samples: Samples, name: str) -> Iterator[Caveat]:
    """A caveat about prompts that only one side has, unless they are part of the texts."""
    has_prompts = [len(set(side.prompts or ())) > 1 for side in (reference, samples)]
    if has_prompts[0] == has_prompts[1] or share_with_prompt(reference if has_prompts[0] else samples) >= _MOST:
        return
    side = "the reference has" if has_prompts[0] else "these texts have"
    yield Caveat(
        "prompts on one side",
        f"only {side} prompts: evidence looks at the texts without them. Give both sides their prompts, and it also "
        "looks at how well each text answers its own.",
        name,
    )


def _unmatched_caveats(reference: Samples, samples: Samples, name: str) -> Iterator[Caveat]:
    """A caveat about prompts of one side that the other lacks, if the two have some in common."""
    if reference.kind in ("image", "audio"):  # the ids are file names, which may be alike by accident
        return
    names, reference_names = set(samples.unit_names or ()), set(reference.unit_names or ())
    alone, missing = len(names - reference_names), len(reference_names - names)
    if names.isdisjoint(reference_names) or max(alone / len(names), missing / len(reference_names)) <= UNMATCHED:
        return
    alone_seen = " Evidence looks at the texts without their prompts." if reference.prompts and samples.prompts else ""
    yield Caveat(
        "unmatched prompts",
        f"{alone} of the {len(names)} prompts (ids) are not in the reference, and {missing} of the "
        f"{len(reference_names)} in the reference are missing here, so that the two may differ in topic.{alone_seen} "
        "Keep the same prompts on both sides. A limit (limit, --limit) does so only if both list them in one order.",
        name,
        {"alone": alone, "missing": missing, "prompts": len(names), "prompts_reference": len(reference_names)},
    )
