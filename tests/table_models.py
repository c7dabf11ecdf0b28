"""Language models that are a table of probabilities, for tests of token probabilities."""

import numpy as np


class TableModel:
    """A table (V, V) of the probabilities of the next token after the last one; token 0 begins and ends a text."""

    def __init__(self, table, end=(0,), context=None, dtype=np.float64, begins=False):
        with np.errstate(divide="ignore"):
            self.table = np.log(np.asarray(table, np.float64)).astype(dtype)
        self.vocabulary, self.end, self.context, self.name = len(table), frozenset(end), context, "table model"
        self.begins = begins
        self.batches = []

    def encode(self, text):
        return [0] * self.begins + [ord(letter) - ord("a") for letter in text]

    def decode(self, tokens):
        return "".join(chr(token + ord("a")) for token in tokens if token)

    def start(self, prefixes):
        assert all(len(prefix) for prefix in prefixes)
        self.batches.append(len(prefixes))
        state = np.array([prefix[-1] for prefix in prefixes])
        return self.table[state], state

    def step(self, state, tokens):
        assert len(state) == len(tokens)
        return self.table[tokens], np.asarray(tokens)

    def select(self, state, rows):
        return state[rows]


class ShiftedTableModel(TableModel):
    """The first token of a prefix shifts all of its distributions, so that rows that are mixed up are noticed."""

    def start(self, prefixes):
        state = np.array([[prefix[0], prefix[-1]] for prefix in prefixes])
        return self._rows(state), state

    def step(self, state, tokens):
        state = np.stack([state[:, 0], tokens], axis=1)
        return self._rows(state), state

    def _rows(self, state):
        return np.stack([np.roll(self.table[last], first) for first, last in state])


def random_table(seed, size=4, zeros=0.0):
    """Random distributions (size, size), with about a share `zeros` of impossible tokens."""
    rng = np.random.default_rng(seed)
    table = rng.dirichlet(np.ones(size), size=size)
    table[rng.random(table.shape) < zeros] = 0.0
    table[:, 1] += 1e-3
    return table / table.sum(axis=1, keepdims=True)
