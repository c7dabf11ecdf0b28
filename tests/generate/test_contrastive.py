"""Contrastive search against its definition."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mallow.generate import Contrastive, Greedy, generate
from markov_models import END, random_chain_with_hidden


def contrastive_by_definition(model, prefix, k, penalty, length):
    text = list(prefix)
    for _ in range(length):
        seen = [END, *text]
        probs = model.table[seen[-2], seen[-1]]
        past = [model.vectors[a, b] for a, b in itertools.pairwise(seen)]

        def score(token, probs=probs, past=past, last=seen[-1]):
            vector = model.vectors[last, token]
            cosines = [vector @ other / np.linalg.norm(vector) / np.linalg.norm(other) for other in past]
            return (1 - penalty) * probs[token] - penalty * max(cosines)

        token = max(sorted(np.argsort(-probs)[:k]), key=score)
        if token == END:
            break
        text.append(int(token))
    return text[len(prefix) :]


@given(seed=st.integers(0, 100), k=st.integers(1, 5), penalty=st.floats(0, 1))
def test_contrastive_search_is_its_definition(seed, k, penalty):
    model = random_chain_with_hidden(seed, 5)
    prefixes = [[1, 2], [3], [4, 4, 4]]
    expected = [contrastive_by_definition(model, prefix, k, penalty, 6) for prefix in prefixes]
    assert generate(model, prefixes, Contrastive(k, penalty), max_new=6) == expected


def test_contrastive_search_without_penalty_is_greedy():
    model = random_chain_with_hidden(4)
    prefixes = [[1], [2], [3]]
    assert generate(model, prefixes, Contrastive(4, 0.0), max_new=9) == generate(model, prefixes, Greedy(), max_new=9)
