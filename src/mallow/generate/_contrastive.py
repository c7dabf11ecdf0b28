"""Contrastive search: likely tokens whose hidden state is unlike those before (Su et al. 2022)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mallow.generate._decoders import Contrastive
from mallow.generate._kept_tokens import largest
from mallow.generate._protocol import HiddenStates
from mallow.generate._steps import Job, exclude_end


def search_contrastive(job: Job, model: HiddenStates, options: Contrastive) -> list[list[int]]:
    """The continuation of each prefix; `model` is that of the job."""
    new: list[list[int]] = [[] for _ in job.prefixes]
    places = np.arange(len(job.prefixes))
    rows, state = model.start(job.prefixes)
    past = [_directions(vectors) for vectors in model.hidden(state)]  # of each prefix (t, d), normalised to length 1
    for step in range(job.max_new):
        if step < job.min_new:
            rows = exclude_end(rows, job.end)
        candidates = [largest(row, options.k) for row in rows]
        owner = np.repeat(np.arange(len(rows)), [len(tokens) for tokens in candidates])  # row of each candidate
        tokens = np.concatenate(candidates).astype(np.int64)
        next_rows, state = model.step(model.select(state, owner), tokens)
        directions = np.concatenate([_directions(vectors) for vectors in model.hidden(state)])
        likeness = [(past[places[row]] @ vector).max() for row, vector in zip(owner, directions, strict=True)]
        probability = np.exp(rows[owner, tokens].astype(np.float64))
        scores = (1 - options.penalty) * probability - options.penalty * np.array(likeness)
        best = np.array([np.flatnonzero(owner == row)[scores[owner == row].argmax()] for row in range(len(rows))])
        going = np.flatnonzero(~np.isin(tokens[best], job.end))
        if len(going) == 0:
            break
        kept, places = best[going], places[going]
        for place, candidate in zip(places, kept, strict=True):
            new[place].append(int(tokens[candidate]))
            past[place] = np.concatenate([past[place], directions[candidate][None]])
        rows, state = next_rows[kept], model.select(state, kept)
    return new


def _directions(vectors: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """The vectors divided by their lengths; a zero vector stays zero."""
    vectors = np.asarray(vectors, np.float64)
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(norms > 0, norms, 1.0))
