"""The files of studies with people as targets of the fuzzer: votes, studies, forms, gold pairs, measured values, rankings."""

import gzip
import json
import warnings
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from annotation_page import make_study
from mallow.errors import InputError, visible
from mallow.human import Ranking, bradley_terry, read_form, read_gold, read_study, read_votes
from mallow.human._measured import read_measured
from mallow.results import to_plain

VOTE = {"left": "a", "right": "b", "answer": 1, "question": "q", "annotator": "x", "prompt": "p", "seconds": 30.5}
BATTLES = "model_a,model_b,winner\nsmall,large,model_b\nsmall,large,tie\n"
STUDIO = [{"data": {"model_a": "a", "model_b": "b"}, "annotations": [{"result": [{"value": {"choices": ["left"]}}]}]}]


@lru_cache
def vote_seeds() -> list[bytes]:
    own = (json.dumps(VOTE) + "\n") * 3
    crowd = "Input.model_a,Input.model_b,Answer.q1,Answer.te\na,b,2a,60\nb,a,1b,70\n"
    return [own.encode(), BATTLES.encode(), json.dumps(STUDIO).encode(), crowd.encode(), gzip.compress(own.encode())]


@lru_cache
def study_seeds() -> list[bytes]:
    study = make_study(per_pair=2, systems=1)
    return [study.to_json().encode(), json.dumps(to_plain(study.form)).encode()]


@lru_cache
def gold_seeds() -> list[bytes]:
    return [
        b'{"left": "a", "right": "b", "expected": -2, "prompt": "p"}\n\n{"left": "c", "right": "d", "expected": 2}\n'
    ]


@lru_cache
def value_seeds() -> list[bytes]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ranking = bradley_terry([[0, 5, 7], [3, 0, 6], [2, 1, 0]], names=["a", "b", "c"])
    table = b"system,mauve,mauve std\na,0.5,0.1\nb,0.7,\n"
    return [table, json.dumps({"mauve": {"a": 0.5, "b": [0.7, 0.1]}}).encode(), ranking.to_json().encode()]


def read_each(names: list[str], *readers: Callable[[Path], object]) -> Callable[[bytes, Path], None]:
    """Reads the bytes as files of these names by each reader; every one passes, or refuses in one line."""

    def run(data: bytes, folder: Path) -> None:
        messages = []
        for name in names:
            (folder / name).write_bytes(data)
            for reader in readers:
                try:
                    reader(folder / name)
                except InputError as error:
                    messages.append(str(error))
        for message in messages:
            assert visible(message, lines=False) == message.strip() != "", ascii(message)

    return run


PEOPLE = {
    "votes": (vote_seeds, read_each(["v.jsonl", "v.csv", "v.json", "v.jsonl.gz"], read_votes)),
    "study": (
        study_seeds,
        read_each(["s.json"], lambda path: str(read_study(path, accept_edits=True)), read_study, read_form),
    ),
    "gold": (gold_seeds, read_each(["g.jsonl"], read_gold)),
    "values": (
        value_seeds,
        read_each(["m.csv", "m.json"], read_measured, lambda path: Ranking.from_json(path.read_text(errors="replace"))),
    ),
}
