"""Language models small enough to enumerate all texts: Markov chains of order two."""

import itertools
import math
from dataclasses import dataclass

import numpy as np

END = 0


@dataclass(frozen=True, eq=False)
class Markov:
    """A chain of order two: the distribution (V, V, V) of the next token after the last two; END comes before the first."""

    table: np.ndarray
    end: frozenset[int] = frozenset({END})
    context: int | None = None
    name: str = "markov"

    @property
    def vocabulary(self):
        return len(self.table)

    def encode(self, text):
        return [int(letter) for letter in text]

    def decode(self, tokens):
        return "".join(map(str, tokens))

    def log_probs(self, state):
        with np.errstate(divide="ignore"):
            return np.log(self.table[state[:, 0], state[:, 1]])

    def start(self, prefixes):
        state = np.array([[END, *prefix][-2:] for prefix in prefixes])
        return self.log_probs(state), state

    def step(self, state, tokens):
        assert len(state) == len(tokens)
        state = np.stack([state[:, 1], tokens], axis=1)
        return self.log_probs(state), state

    def select(self, state, rows):
        return state[rows]


@dataclass(frozen=True, eq=False)
class MarkovWithHidden(Markov):
    """The same chain with a hidden state for each pair of tokens."""

    vectors: np.ndarray = None

    def start(self, prefixes):
        log_probs, state = super().start(prefixes)
        vectors = [np.array([self.vectors[a, b] for a, b in itertools.pairwise([END, *p])]) for p in prefixes]
        return log_probs, (state, vectors)

    def step(self, state, tokens):
        log_probs, pairs = super().step(state[0], tokens)
        return log_probs, (pairs, [self.vectors[a, b][None] for a, b in pairs])

    def select(self, state, rows):
        return state[0][rows], [state[1][row] for row in rows]

    def hidden(self, state):
        return state[1]


def random_chain(seed=0, size=4, concentration=0.7, end=True):
    """A random chain; `end=False`: one that never ends."""
    table = np.random.default_rng(seed).dirichlet(np.full(size, concentration), size=(size, size))
    if not end:
        table[..., END] = 0
        table /= table.sum(axis=-1, keepdims=True)
    return Markov(table)


def log_prob(model, prefix, tokens):
    """The log-probability of tokens after a prefix."""
    seen = [END, *prefix]
    total = 0.0
    for token in tokens:
        probability = model.table[seen[-2], seen[-1], token]
        total += math.log(probability) if probability > 0 else -math.inf
        seen.append(token)
    return total


def every_text(model, length):
    """Every continuation up to a length; those that are shorter end with END."""
    others = [token for token in range(model.vocabulary) if token not in model.end]
    for size in range(length + 1):
        for tokens in itertools.product(others, repeat=size):
            yield tokens if size == length else (*tokens, END)


def random_chain_with_hidden(seed=0, size=4):
    """A random chain with random hidden states."""
    vectors = np.random.default_rng(seed + 1).normal(size=(size, size, 3))
    return MarkovWithHidden(random_chain(seed, size).table, vectors=vectors)
