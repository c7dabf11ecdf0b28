"""A study as one value and as a file that shows whether it was edited; gold pairs and pictures in files."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import shutil
from collections import Counter
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from mallow._checks import whole
from mallow._files import make_folder, parse_json, read_text, write_text
from mallow.errors import Caveat, InputError
from mallow.human._read_votes import json_lines
from mallow.human._study_form import Form
from mallow.results import Result, TableData, draw, join_names, to_plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NAMED = 5  # edited parts in a message; chosen
_PICTURE_STARTS = {
    "image/png": (b"\x89PNG\r\n\x1a\n",),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/gif": (b"GIF87a", b"GIF89a"),
    "image/bmp": (b"BM",),
}
_SHOWN = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp"})  # what every browser shows


@dataclass(frozen=True)
class Task:
    """One pair to judge.

    Attributes
    ----------
    id : str
        "t0001", …; gold pairs are "g01", ….
    left : str
        The system on the left. Annotators never see its name.
    right : str
        The system on the right.
    prompt : str
        The id of the prompt.
    context : str
        The text that both continue; "" if the samples have no prompts.
    left_item : str
        The text on the left, cut to the window, or the file name of the picture.
    right_item : str
        The text on the right, cut to the window, or the file name of the picture.
    left_length : int or None
        Tokens of the text on the left, as shown.
    right_length : int or None
        Tokens of the text on the right, as shown.
    expected : int or None
        The known answer of a gold pair: -2 (left) or 2 (right).
    """

    id: str
    left: str
    right: str
    prompt: str
    context: str
    left_item: str
    right_item: str
    left_length: int | None = None
    right_length: int | None = None
    expected: int | None = None


@dataclass(frozen=True)
class QualityChecks:
    """Pairs whose answers show how careful an annotator is. They are not votes.

    Attributes
    ----------
    gold : int
        The number of gold pairs to make: a reference text against its own words in random order.
    gold_every : int
        Each annotator gets a gold pair once in this many pairs; 0: never.
    repeat_every : int
        Once in this many pairs an annotator gets an earlier pair again, with the sides exchanged; 0: never.

    Examples
    --------
    >>> QualityChecks(gold=0, gold_every=0, repeat_every=0)
    QualityChecks(gold=0, gold_every=0, repeat_every=0)
    """

    gold: int = 6
    gold_every: int = 15
    repeat_every: int = 20

    def __post_init__(self) -> None:
        for field in fields(self):
            whole(field.name, getattr(self, field.name), least=0)


@dataclass(frozen=True, repr=False)
class Study(Result):
    """A study that is ready to run: `design_study` makes it, and `mallow annotate` shows it.

    Attributes
    ----------
    form : Form
        The texts that annotators read.
    systems : tuple of str
        The systems, the reference first.
    sample_kind : str
        "text" or "image".
    tasks : tuple of Task
        The tasks, in the order in which they are given out. After any number of them, the pairs of systems are
        balanced.
    gold : tuple of Task
    votes : int
        The number of annotators who judge each task.
    checks : QualityChecks
    per_annotator : int or None
        The largest number of pairs for one annotator, including quality checks; None: no limit.
    dropped : dict
        Reason → ids of the prompts that were not used for this reason.
    settings : dict
        The settings of the design, for the record: seed, scheme, window, filter and the sources.
    caveats : tuple of Caveat
    """

    KIND: ClassVar[str] = "study"

    form: Form
    systems: tuple[str, ...]
    sample_kind: str
    tasks: tuple[Task, ...]
    gold: tuple[Task, ...]
    votes: int
    checks: QualityChecks
    per_annotator: int | None
    dropped: dict[str, tuple[str, ...]]
    settings: dict[str, str]
    caveats: tuple[Caveat, ...]

    def _check_parts(self) -> None:
        names = Counter(task.id for task in (*self.tasks, *self.gold))
        twice = [name for name, count in names.items() if count > 1]
        if not self.tasks or twice:
            raise InputError(
                "a study must have tasks with different ids; "
                f"{f'{twice[0]} occurs more than once' if twice else 'it has none'}."
            )
        strangers = {name for task in self.tasks for name in (task.left, task.right)} - set(self.systems)
        if strangers:
            raise InputError(f"tasks must compare systems of the study; {join_names(sorted(strangers))} is none.")
        super()._check_parts()

    @functools.cached_property
    def digest(self) -> str:
        """Twelve hexadecimal digits that identify the whole study."""
        return _digest(self._seal(), 12)

    @functools.cached_property
    def pair_counts(self) -> dict[tuple[str, str], int]:
        """The number of tasks for each pair of systems, whatever the sides, with pairs in the order of `systems`."""
        place = {name: number for number, name in enumerate(self.systems)}
        counts = Counter(tuple(sorted((task.left, task.right), key=place.__getitem__)) for task in self.tasks)
        return {(a, b): counts[a, b] for a, b in sorted(counts, key=lambda pair: (place[pair[0]], place[pair[1]]))}

    def to_dict(self) -> dict[str, Any]:
        """The whole study, with a seal by which `from_dict` detects edits."""
        return super().to_dict() | {"seal": self._seal()}

    @classmethod
    def from_dict(cls, data: dict[str, Any], *, accept_edits: bool = False) -> Self:
        """The study from `to_dict`; an edited study is refused, unless `accept_edits` is true."""
        study = super().from_dict(data)
        edited = [] if accept_edits else _changed(data.get("seal"), study._seal())
        if edited:
            more = [f"{len(edited) - _NAMED} more"] if len(edited) > _NAMED else []
            raise InputError(
                f"the study was edited after it was made: {join_names([*edited[:_NAMED], *more])}. "
                "Undo the edit, design the study again with the wording that you want, or accept the file as it is now "
                "with `accept_edits=True`."
            )
        return study

    def _seal(self) -> dict[str, Any]:
        """A digest of each part, so that a message can name an edited part."""
        plain = to_plain(self)
        parts = {name: _digest(plain[name]) for name in plain if name not in ("tasks", "gold", "caveats")}
        tasks = {task["id"]: _digest(task) for task in [*plain["tasks"], *plain["gold"]]}
        return {"parts": parts, "tasks": tasks}

    def __repr__(self) -> str:
        return f"Study({len(self.systems)} systems, {len(self.tasks)} tasks, {self.digest})"

    def __str__(self) -> str:
        pairs, counts = self.pair_counts, set(self.pair_counts.values())
        times = str(counts.pop()) if len(counts) == 1 else f"{min(counts)} to {max(counts)}"
        prompts = len({task.prompt for task in self.tasks})
        kind = "texts" if self.sample_kind == "text" else "pictures"
        lengths = [length for task in self.tasks for length in (task.left_length, task.right_length) if length]
        lines = [
            f"{len(self.tasks):,} pairs of {kind}: {len(self.systems)} systems, {len(pairs)} pairs of systems, {times} "
            f"comparisons each, {prompts:,} prompts; {self.votes} {'vote' if self.votes == 1 else 'votes'} per pair "
            "and question.",
            *([f"Texts of {min(lengths):,} to {max(lengths):,} tokens."] if lengths else []),
            f"Questions: {', '.join(question.name for question in self.form.questions)}. Quality checks: "
            f"{len(self.gold)} gold pairs, {_every(self.checks.gold_every if self.gold else 0)}, and a repeated pair, "
            f"{_every(self.checks.repeat_every)}.",
        ]
        if self.dropped:
            total = sum(map(len, self.dropped.values()))
            reasons = "; ".join(f"{len(ids):,} {reason}" for reason, ids in self.dropped.items())
            lines.append(f"Prompts left out: {total:,} ({reasons}).")
        return self._with_caveats(lines)

    def _table(self) -> TableData:
        rows = [[record["first"], record["second"], *map(str, list(record.values())[2:])] for record in self._records()]
        return TableData(["first", "second", "comparisons", "first is left", "prompts"], rows, left=(0, 1))

    def _records(self) -> list[dict[str, Any]]:
        left = Counter((task.left, task.right) for task in self.tasks)
        prompts = Counter(
            pair for pair, _ in {(frozenset((task.left, task.right)), task.prompt) for task in self.tasks}
        )
        return [
            {
                "first": a,
                "second": b,
                "comparisons": count,
                "first_left": left[a, b],
                "prompts": prompts[frozenset((a, b))],
            }
            for (a, b), count in self.pair_counts.items()
        ]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw how often each system is on the left of each other one; returns the axes."""
        ax = draw.axes(ax)
        place = {name: number for number, name in enumerate(self.systems)}
        counts = np.zeros((len(place), len(place)), dtype=int)
        for task in self.tasks:
            counts[place[task.left], place[task.right]] += 1
        ax.imshow(counts, cmap="Purples", vmin=0)
        for (row, column), count in np.ndenumerate(counts):
            if row != column:
                colour = "white" if count > 0.6 * counts.max() else "black"
                ax.text(column, row, str(count), ha="center", va="center", color=colour)
        ax.set_xticks(range(len(place)), self.systems, rotation=45, ha="right")
        ax.set_yticks(range(len(place)), self.systems)
        ax.set_xlabel("right")
        ax.set_ylabel("left")
        ax.set_title("comparisons")
        return ax


def _every(number: int) -> str:
    return f"once in {number}" if number else "never"


def _digest(plain: Any, length: int = 8) -> str:
    text = json.dumps(plain, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:length]


def _changed(seal: Any, actual: dict[str, Any]) -> list[str]:
    """The parts whose digest differs from the seal."""
    if not isinstance(seal, dict) or not all(isinstance(seal.get(name), dict) for name in actual):
        return ["the seal"]
    parts = [name for name in actual["parts"] if actual["parts"][name] != seal["parts"].get(name)]
    tasks = [f"task {id_}" for id_, value in actual["tasks"].items() if seal["tasks"].get(id_) != value]
    gone = [f"task {id_} (removed)" for id_ in seal["tasks"] if id_ not in actual["tasks"]]
    return [*parts, *tasks, *gone]


def write_study(study: Study, path: str | os.PathLike[str]) -> Study:
    """Write a study as JSON and copy its pictures into a folder next to it; returns the written study."""
    target = Path(path).expanduser()
    if study.sample_kind == "image":
        folder = make_folder(picture_folder(target))
        tasks, gold = (
            tuple(
                replace(task, left_item=_copy(task.left_item, folder), right_item=_copy(task.right_item, folder))
                for task in tasks
            )
            for tasks in (study.tasks, study.gold)
        )
        study = replace(study, tasks=tasks, gold=gold)
    write_text(target, study.to_json() + "\n")
    return study


def read_study(path: str | os.PathLike[str], *, accept_edits: bool = False) -> Study:
    """The study in a file of `write_study`. An edited file is refused, unless `accept_edits` is true."""
    text = read_text(path)
    try:
        data = parse_json(text)
    except ValueError as error:
        raise InputError(f"{os.fspath(path)}: is not a study: {error}. Make one with: mallow study") from error
    try:
        study = Study.from_dict(data, accept_edits=accept_edits)
    except InputError as error:
        raise InputError(f"{os.fspath(path)}: {error}") from error
    folder = picture_folder(path)
    if study.sample_kind == "image":
        pictures = {item for task in (*study.tasks, *study.gold) for item in (task.left_item, task.right_item)}
        missing = sorted(name for name in pictures if Path(name).name != name or not (folder / name).is_file())
        if missing:
            raise InputError(
                f"{os.fspath(path)}: the picture {missing[0]} is missing in {folder}. Copy that folder too."
            )
        others = sorted(name for name in pictures if picture_type(folder / name) is None)
        if others:
            raise InputError(f"{os.fspath(path)}: {others[0]} in {folder} is no PNG, JPEG, GIF, WebP or BMP picture.")
    return study


def picture_type(path: Path) -> str | None:
    """The media type of a picture that browsers show, by its first bytes, not by its name; None for others."""
    with path.open("rb") as file:
        start = file.read(12)
    for media, signatures in _PICTURE_STARTS.items():
        if start.startswith(signatures):
            return media
    return "image/webp" if start[:4] == b"RIFF" and start[8:] == b"WEBP" else None


def picture_folder(path: str | os.PathLike[str]) -> Path:
    """The folder of the pictures of the study in this file."""
    file = Path(path).expanduser()
    return file.with_name(f"{file.stem}-pictures")


def _copy(item: str, folder: Path) -> str:
    """Copy a picture under a name from its content, since the name of its file or folder might reveal the system."""
    source = Path(item)
    if source.suffix.lower() not in _SHOWN:
        raise InputError(
            f"{item}: browsers do not show {source.suffix or 'such'} files. Convert it to one of "
            f"{' '.join(sorted(_SHOWN))}."
        )
    try:
        name = hashlib.sha256(source.read_bytes()).hexdigest()[:20] + source.suffix.lower()
        if not (folder / name).exists():
            shutil.copyfile(source, folder / name)
    except OSError as error:
        raise InputError(f"{item}: the picture cannot be copied to {folder}: {error.strerror or error}.") from error
    return name


def read_gold(path: str | os.PathLike[str]) -> tuple[Task, ...]:
    """Gold pairs, one JSON object per line: "left", "right", "expected" (-2 or 2), and "prompt", the context."""
    tasks = []
    for number, entry in json_lines(os.fspath(path), read_text(path)):
        values = entry if isinstance(entry, dict) else {}
        left, right, context, expected = (values.get(name, "") for name in ("left", "right", "prompt", "expected"))
        are_texts = all(isinstance(text, str) for text in (left, right, context)) and left and right
        if not are_texts or type(expected) is not int or expected not in (-2, -1, 1, 2):
            raise InputError(
                f'{os.fspath(path)}:{number}: a gold pair has texts or picture files "left" and "right", and '
                '"expected", -2 or 2; "prompt" is a text too.'
            )
        tasks.append(
            Task(f"g{number}", "gold left", "gold right", f"gold {number}", context, left, right, expected=expected)
        )
    if not tasks:
        raise InputError(f"{os.fspath(path)}: has no gold pairs.")
    return tuple(tasks)
