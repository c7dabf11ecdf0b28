"""The regions of a gap: bins with the largest costs, with their samples and typical words."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mallow.estimate import Features
from mallow.evidence import Evidence
from mallow.explain._bins import BinTable
from mallow.explain._reason import Example, Region
from mallow.explain._telltales import distinct_places, make_example
from mallow.explain._words import terms_of_groups
from mallow.samples import Samples

Sides = tuple[Samples, Samples]  # the reference and the model


def describe_regions(
    table: BinTable, count: int, sides: Sides, points: tuple[Features, Features], examples: int, evidence: Evidence
) -> list[Region]:
    """The regions of each side with the largest costs."""
    partition, gap, chosen = table.partition, table.gap, table.largest(count)
    n, m = len(partition.p_labels), len(partition.q_labels)
    labels = (partition.p_labels, partition.q_labels)
    members = [[np.flatnonzero(part == number) for part in labels] for _, number in chosen]
    contents = _describe_texts([0 if side == "missed" else 1 for side, _ in chosen], members, sides)
    regions = []
    for (side, number), places, (terms, lengths) in zip(chosen, members, contents, strict=True):
        shown = [
            _nearest_examples(samples, part[inside], inside, partition.centres[number], examples)
            for samples, part, inside in zip(sides, points, places, strict=True)
        ]
        in_reference, in_model = (len(inside) for inside in places)
        in_bin = in_reference + in_model
        scores = evidence.reference_scores[places[0]] if side == "missed" else evidence.model_scores[places[1]]
        regions.append(
            Region(
                side=side,
                bin=number,
                share=float(table.costs[number] / gap[side]),
                reference=in_reference,
                model=in_model,
                expected=(n * in_bin / (n + m), m * in_bin / (n + m)),
                p_value=float(table.p_values[number]),
                adjusted=float(table.adjusted[number]),
                reference_examples=shown[0],
                model_examples=shown[1],
                terms=terms,
                lengths=lengths,
                score=float(scores.mean()),
            )
        )
    return regions


def _nearest_examples(
    samples: Samples, rows: Features, places: NDArray[np.intp], centre: NDArray[Any], count: int
) -> tuple[Example, ...]:
    """The samples at `places`, with points `rows`, that are nearest to the centre; equal texts only once."""
    distance = ((rows.astype(np.float64) - centre) ** 2).sum(axis=1)
    nearest = places[np.argsort(distance, kind="stable")]
    return tuple(make_example(samples, row) for row in distinct_places(samples, nearest, count))


def _describe_texts(
    excess: list[int], members: list[list[NDArray[np.intp]]], sides: Sides
) -> list[tuple[tuple[str, ...], dict[str, float]]]:
    """For each region, typical terms and lengths of the texts of the side with more samples; empty without texts."""
    if sides[0].kind != "text":
        return [((), {}) for _ in excess]
    texts = [samples.require_texts() for samples in sides]
    lengths = [np.array([len(text.split()) for text in part]) for part in texts]
    groups, medians = [], []
    for side, places in zip(excess, members, strict=True):
        inside = places[side]
        groups.append([texts[side][row] for row in inside])
        elsewhere = np.concatenate([np.delete(lengths[side], inside), lengths[1 - side]])
        medians.append({"region": float(np.median(lengths[side][inside])), "elsewhere": float(np.median(elsewhere))})
    terms = terms_of_groups(groups, [*texts[0], *texts[1]])
    return list(zip(terms, medians, strict=True))
