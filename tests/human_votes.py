"""Simulated votes, and a shorthand for hand-made ones."""

import numpy as np

from mallow.human import Vote, Votes


def vote(left, right, answer, question="better", annotator="ann", prompt="", seconds=40.0, **more):
    return Vote(left, right, answer, question, annotator, prompt, seconds, **more)


def simulate(
    scores, count, seed, *, people=40, ties=0.0, left=0.0, taste=0.0, question="better", length=0.0, items=0, item=0.0
):
    """Votes from Bradley–Terry scores on the scale of 100; `taste` is the spread of personal scores between people.

    With `items`, votes share so many prompts, between which scores have the spread `item`.
    """
    rng = np.random.default_rng(seed)
    names = list(scores)
    strengths = np.array([scores[name] for name in names]) / 100
    own = strengths + taste / 100 * rng.normal(size=(people, len(names)))
    of_items = item / 100 * np.random.default_rng([seed, 1]).normal(size=(items or 1, len(names)))
    made = []
    for place in range(count):
        i, j = rng.permutation(len(names))[:2]
        who = int(rng.integers(people))
        lengths = rng.integers(100, 300, size=2)
        shown = place % items if items else place
        gap = own[who, i] - own[who, j] + left / 100 + length / 100 * np.log2(lengths[0] / lengths[1])
        gap += of_items[shown, i] - of_items[shown, j] if items else 0.0
        answer = 0 if rng.random() < ties else -1 if rng.random() < 1 / (1 + np.exp(-gap)) else 1
        made.append(
            Vote(
                names[i],
                names[j],
                answer * int(rng.integers(1, 3)),
                question,
                f"w{who}",
                str(shown),
                float(rng.uniform(30, 90)),
                task=str(place),
                left_length=float(lengths[0]),
                right_length=float(lengths[1]),
            )
        )
    return Votes(tuple(made))
