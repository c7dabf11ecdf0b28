"""From reference texts to files of continuations that a kill cannot spoil: whole lines only, and the next run goes on."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mallow._checks import whole
from mallow.engine import bar
from mallow.errors import EstimateWarning, InputError
from mallow.generate._protocol import NextToken
from mallow.generate._search import Beam, Contrastive, Decoder, Greedy, decoder, generate
from mallow.models import ran_out_of_memory
from mallow.samples import Samples, read

__all__ = ["Plan", "Prompt", "check_out", "generate_file", "prompts_of"]

_WAY_OUT = "Write to another file, or begin again with overwrite=True (--overwrite)."


@dataclass(frozen=True)
class Prompt:
    """The beginning of a text, to be continued.

    Attributes
    ----------
    id : str
        That of the text. No two prompts share one.
    text : str
    tokens : tuple of int
        The same as tokens of the model, at least one.
    """

    id: str
    text: str
    tokens: tuple[int, ...]


@dataclass(frozen=True)
class Plan:
    """What is written for each prompt; together with model, prompts and decoder it decides on every byte of the file.

    Parameters
    ----------
    n : int
        Texts for each prompt.
    max_new, min_new : int
        The most and the fewest new tokens of a text. The fewest are 1 by default: an empty text is no sample.
    rng : int
        With a prompt's id and the number of the text it decides on the random numbers of that text: other prompts, the
        batch, or a run that was stopped in between change nothing.
    with_prompt : bool
        Whether ``text`` begins with the prompt, as texts that were scored for the paper do.
    """

    n: int = 1
    max_new: int = 128
    min_new: int = 1
    rng: int = 0
    with_prompt: bool = False

    def __post_init__(self) -> None:
        whole("n", self.n, least=1)
        whole("max_new", self.max_new, least=1)
        whole("min_new", self.min_new, least=0)
        whole("rng", self.rng, least=0)
        if self.min_new > self.max_new:
            raise InputError(f"`min_new` must be at most max_new = {self.max_new}; got {self.min_new}.")


def prompts_of(
    samples: object, model: NextToken, *, tokens: int | None = 35, skip_short: bool = False
) -> tuple[Prompt, ...]:
    """The first tokens of each text, as prompts.

    Parameters
    ----------
    samples : Samples, list, table or path
        Texts. Their ids are the prompts'; where they have none, their numbers from 1.
    model : NextToken
        Whose tokens are meant.
    tokens : int or None
        The paper's 35. None: each text is a prompt as it is.
    skip_short : bool
        Leave texts of fewer tokens out, with a warning that counts them, instead of refusing them.

    Examples
    --------
    >>> from mallow.generate._ngram import NGram
    >>> texts = ["the cat sat on the mat", "the dog sat on the cat"]
    >>> [prompt.text for prompt in prompts_of(texts, NGram.fit(texts, min_count=1), tokens=3)]
    ['the cat sat', 'the dog sat']
    """
    if tokens is not None:
        whole("tokens", tokens, least=1)
    given = read(samples)
    ids = _unique_ids(given)
    found, short = [], []
    for id_, text in zip(ids, given.texts, strict=True):
        whole_text = model.encode(text)
        if len(whole_text) < (tokens or 1):
            short.append((id_, len(whole_text)))
            continue
        kept = tuple(whole_text[:tokens])
        found.append(Prompt(id_, text if tokens is None else model.decode(kept), kept))
    if short and not skip_short:
        raise InputError(
            f"`samples` must have at least {tokens or 1} tokens each to begin from; {len(short)} of {len(ids)} in "
            f"{given.source} are shorter, such as {short[0][0]!r} with {short[0][1]}. Ask for fewer tokens, or leave them out "
            "with skip_short=True (--skip-bad)."
        )
    if not found:
        raise InputError(f"{given.source}: no text has {tokens or 1} tokens. Ask for fewer.")
    if short:
        warnings.warn(
            f"{given.source}: {len(short)} of {len(ids)} texts are shorter than {tokens or 1} tokens and were left out.",
            EstimateWarning,
            stacklevel=2,
        )
    return tuple(found)


def generate_file(
    model: NextToken,
    prompts: Sequence[Prompt],
    decoder: Decoder | str,
    out: str | os.PathLike[str],
    plan: Plan | None = None,
    *,
    batch: int = 64,
    overwrite: bool = False,
    progress: bool | None = None,
) -> int:
    """Continue the prompts into a .jsonl file; returns how many texts this call has added.

    A line is ``{"id", "prompt", "text", "n", "tokens"}``: the prompt's id and text, the continuation, its number from 0 among
    those of its prompt, and how many tokens it has. Lines are in the order of the prompts, and `mallow.read` reads them. Beside
    the file stands ``FILE.meta.json``, which says how it came about.

    A file that is there already is continued where it ends: what was there stays, a last line that is not whole is taken
    off, and in the end the file is the one that a single run would have written. It is refused if it came about otherwise.

    Parameters
    ----------
    model : NextToken
    prompts : sequence of Prompt
        From `prompts_of`.
    decoder : Decoder or str
        Such as ``"nucleus:0.95"``. Greedy, beam and contrastive decoding have one text for each prompt.
    out : path
        Ends in .jsonl.
    plan : Plan or None
        How many texts, how long, which random numbers. None: ``Plan()``.
    batch : int
        Texts that are generated together; halved where memory does not suffice. As much is lost when a run is killed.
    overwrite : bool
        Begin again where a file is there.
    progress : bool or None
        Show a bar on standard error. None: if that is a terminal.
    """
    plan = Plan() if plan is None else plan
    chosen = _chosen(decoder, plan)
    whole("batch", batch, least=1)
    path = check_out(out)
    _check_prompts(model, prompts, plan)
    tasks = [_Task(prompt, n) for prompt in prompts for n in range(plan.n)]
    facts = {"kind": "mallow generation", "model": model.name, "decoder": chosen.name, **asdict(plan)}
    facts["prompts"] = _digest(prompts)
    with (
        _opened(path, tasks, facts, overwrite=overwrite) as lines,
        bar("generating", len(tasks), done=lines.count, wanted=progress) as show,
    ):
        begun, generated, start = lines.count, 0, time.monotonic()
        for first in range(0, len(tasks), batch):
            part = tasks[first : first + batch]
            if first + len(part) <= lines.count:
                continue
            # A batch of which some lines are there is done again as a whole: networks round differently in another one.
            new = _continued(model, part, chosen, plan)
            made = [_line(model, task, tokens, plan) for task, tokens in zip(part, new, strict=True)]
            lines.append(made[lines.count - first :])
            generated += sum(map(len, new))
            rate = generated / max(time.monotonic() - start, 1e-9)
            show(lines.count, f"{lines.count}/{len(tasks)} texts, {rate:.0f} tokens/s")
        return lines.count - begun


def check_out(out: str | os.PathLike[str]) -> Path:
    """The file to write as a path; refused where there can be none."""
    path = Path(out).expanduser()
    if path.suffix.lower() not in (".jsonl", ".ndjson"):
        raise InputError(f"{out}: the suffix must be .jsonl, since lines are added to the file; got {path.suffix!r}.")
    if not path.parent.is_dir():
        raise InputError(f"{out}: the folder {path.parent} does not exist. Make it first.")
    if path.is_dir():
        raise InputError(f"{out}: is a folder, not a file. Name a file in it.")
    return path


# --- what is to be done


@dataclass(frozen=True)
class _Task:
    prompt: Prompt
    n: int

    @property
    def key(self) -> int:
        """Decides, with the plan's `rng`, on the random numbers of this text."""
        label = f"{self.n} {self.prompt.id}".encode("utf-8", "surrogatepass")
        return int.from_bytes(hashlib.blake2b(label, digest_size=8).digest(), "little")


def _unique_ids(samples: Samples) -> tuple[str, ...]:
    ids = samples.ids or tuple(str(place) for place in range(1, len(samples) + 1))
    seen: set[str] = set()
    for each in ids:
        if each in seen:
            raise InputError(
                f"{samples.source}: each text must have an id of its own to be continued; {each!r} is there twice. Pass the "
                "reference, not several generations for each prompt."
            )
        seen.add(each)
    return ids


def _chosen(given: Decoder | str, plan: Plan) -> Decoder:
    chosen = decoder(given) if isinstance(given, str) else given
    if not isinstance(chosen, Decoder):
        raise InputError(f"`decoder` must be a decoder or a name such as 'nucleus:0.95'; got {chosen!r}.")
    if plan.n > 1 and is_fixed(chosen):
        raise InputError(f"`n` must be 1 for {chosen.name}, which has one text for each prompt; got {plan.n}.")
    return chosen


def is_fixed(chosen: Decoder) -> bool:
    """Whether a decoder draws nothing, so that a prompt has one continuation."""
    return isinstance(chosen, (Greedy, Beam, Contrastive))


def _check_prompts(model: NextToken, prompts: Sequence[Prompt], plan: Plan) -> None:
    if not prompts:
        raise InputError("`prompts` must hold at least one prompt; got none.")
    if len({prompt.id for prompt in prompts}) < len(prompts):
        raise InputError("`prompts` must each have an id of their own; some have the same.")
    for prompt in prompts:
        if not prompt.tokens:
            raise InputError(f"`prompts` must each have at least one token; that of {prompt.id!r} is empty.")
        room = None if model.context is None else model.context - len(prompt.tokens)
        if room is not None and room < plan.max_new:
            way_out = f"Use max_new={room}, or shorter prompts." if room > 0 else "Use shorter prompts."
            raise InputError(
                f"`prompts` must leave room for {plan.max_new} new tokens in the model's context of {model.context}; that of "
                f"{prompt.id!r} has {len(prompt.tokens)} tokens. {way_out}"
            )


def _digest(prompts: Sequence[Prompt]) -> str:
    total = hashlib.sha256()
    for prompt in prompts:
        total.update(json.dumps([prompt.id, prompt.text, prompt.tokens]).encode() + b"\n")
    return total.hexdigest()[:12]


def _continued(model: NextToken, tasks: Sequence[_Task], chosen: Decoder, plan: Plan) -> list[list[int]]:
    """The new tokens of each task, generated together, or in halves where that needs too much memory."""
    try:
        return generate(
            model,
            [task.prompt.tokens for task in tasks],
            chosen,
            max_new=plan.max_new,
            min_new=plan.min_new,
            rng=plan.rng,
            keys=[task.key for task in tasks],
            batch=len(tasks),
        )
    except Exception as error:
        if len(tasks) == 1 or not ran_out_of_memory(error):
            raise
    half = len(tasks) // 2  # outside the handler: the error holds on to the tensors of the attempt
    return _continued(model, tasks[:half], chosen, plan) + _continued(model, tasks[half:], chosen, plan)


def _line(model: NextToken, task: _Task, new: list[int], plan: Plan) -> bytes:
    prompt = task.prompt
    full = model.decode([*prompt.tokens, *new])
    if plan.with_prompt:
        text = full
    elif full.startswith(prompt.text):
        text = full[len(prompt.text) :]  # some tokenizers drop a space from the beginning of what they decode
    else:
        text = model.decode(new)  # the prompt ends inside a character
    record = {"id": prompt.id, "prompt": prompt.text, "text": text, "n": task.n, "tokens": len(new)}
    return (json.dumps(record, ensure_ascii=False) + "\n").encode()


# --- the file


class _Lines:
    """A file of which every line is whole, at all times that a reader can see after a failure."""

    def __init__(self, path: Path, file: int, count: int, size: int) -> None:
        self.path, self.file, self.count, self.size = path, file, count, size

    def append(self, lines: Sequence[bytes]) -> None:
        """Add lines; where the disk is full, those that fit."""
        try:
            for line in lines:
                left = memoryview(line)
                while left:
                    left = left[os.write(self.file, left) :]
                self.count, self.size = self.count + 1, self.size + len(line)
            os.fsync(self.file)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self.file, self.size)
            raise InputError(
                f"{self.path}: cannot be written: {error.strerror or error}. The {self.count} texts in it are whole; run the "
                "same again when it can, and it goes on from there."
            ) from error


@contextlib.contextmanager
def _opened(path: Path, tasks: Sequence[_Task], facts: dict[str, Any], *, overwrite: bool) -> Iterator[_Lines]:
    """The file, new or to be continued, held against other processes that would write to it."""
    about = path.with_name(path.name + ".meta.json")
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}.") from error
    try:
        _lock(file, path)
        if overwrite:
            os.ftruncate(file, 0)
        count = size = 0
        if os.fstat(file).st_size == 0:
            _write_facts(about, facts)
        else:
            _check_facts(path, about, facts)
            count, size = _whole_lines(path, tasks)
            if size < os.fstat(file).st_size:
                os.ftruncate(file, size)
        os.lseek(file, size, os.SEEK_SET)
        yield _Lines(path, file, count, size)
    finally:
        os.close(file)


def _lock(file: int, path: Path) -> None:
    """Ends with the process, however that ends. Where the system or the disk knows no locks there is none."""
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InputError(f"{path}: another process is writing it. Wait for it, or write to another file.") from None
    except (ImportError, OSError):
        return


def _write_facts(about: Path, facts: dict[str, Any]) -> None:
    hidden = about.with_name(f".{about.name}.{secrets.token_hex(4)}.tmp")
    try:
        hidden.write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        os.replace(hidden, about)
    except OSError as error:
        raise InputError(f"{about}: cannot be written: {error.strerror or error}.") from error
    finally:
        hidden.unlink(missing_ok=True)


def _check_facts(path: Path, about: Path, facts: dict[str, Any]) -> None:
    try:
        known = json.loads(about.read_text(encoding="utf-8"))
        if known["kind"] != facts["kind"]:
            raise ValueError
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(
            f"{path}: is there already, and {about.name} beside it does not say how it came about. {_WAY_OUT}"
        ) from None
    for name, value in facts.items():
        if known.get(name) != value:
            raise InputError(f"{path}: was begun with {name} = {known.get(name)!r}, not {value!r}. {_WAY_OUT}")


def _whole_lines(path: Path, tasks: Sequence[_Task]) -> tuple[int, int]:
    """How many lines are whole, and how many bytes they have; they must be those of the first tasks."""
    count = size = 0
    with path.open("rb") as stream:
        for line in stream:
            if not line.endswith(b"\n"):
                break  # the process was killed while it wrote this
            try:
                found = json.loads(line)
                same = count < len(tasks) and (found["id"], found["n"]) == (tasks[count].prompt.id, tasks[count].n)
            except (ValueError, KeyError, TypeError):
                same = False
            if not same:
                raise InputError(f"{path}:{count + 1}: is no line that mallow wrote there. {_WAY_OUT}")
            count, size = count + 1, size + len(line)
    return count, size
