"""From prompts to files of continuations, which stay intact after an interruption and can be completed later."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mallow._checks import whole
from mallow._files import parse_json, read_text, refuse_special, sync_folder, write_text
from mallow.engine import bar
from mallow.errors import Caveat, InputError, warn_about
from mallow.generate._decoders import Decoder, is_deterministic, resolve_decoder
from mallow.generate._protocol import NextToken
from mallow.generate._search import generate
from mallow.models import halve_on_memory_error
from mallow.samples import read

_WAY_OUT = "Write to another file, or start again with `overwrite=True`."


@dataclass(frozen=True)
class GenerationPlan:
    """The texts to write for each prompt. With model, prompts and decoder, the plan determines every byte of the file.

    Parameters
    ----------
    n : int
        Number of texts per prompt.
    max_new : int
        The maximum number of new tokens of a text.
    min_new : int
        The minimum number of new tokens of a text; 1 by default, because an empty text is not a sample.
    rng : int
        The seed. Together with a prompt's id and the number of the text it determines the random numbers of that text,
        so other prompts, the batch or an interruption change nothing.
    with_prompt : bool
        Whether ``text`` begins with the prompt, as in the texts that were scored for the paper.
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


def generate_file(
    model: NextToken,
    prompts: Sequence[Prompt],
    decoder: Decoder | str,
    out: str | os.PathLike[str],
    plan: GenerationPlan | None = None,
    *,
    batch: int = 64,
    overwrite: bool = False,
    progress: bool | None = None,
) -> int:
    """Continue the prompts into a .jsonl file; returns the number of texts that this call added.

    A line is ``{"id", "prompt", "text", "n", "tokens"}``: id and text of the prompt, the continuation, its number among
    the continuations of the prompt (from 0), and its number of tokens. The lines are in the order of the prompts, and
    `mallow.read` reads them. ``FILE.meta.json`` beside the file records how it was made.

    An existing file is continued: its lines stay, an incomplete last line is removed, and in the end the file is the
    same as after a single run. A file that was made differently is refused.

    Parameters
    ----------
    model : NextToken
    prompts : sequence of Prompt
        From `prompts_of`.
    decoder : Decoder or str
        Such as ``"nucleus:0.95"``. Greedy, beam and contrastive decoding have one text per prompt.
    out : path
        Ends in .jsonl.
    plan : GenerationPlan or None
        The number of texts, their length and the random numbers. None: ``GenerationPlan()``.
    batch : int
        Texts that are generated together; halved if memory runs out. A run that is killed loses at most one batch.
    overwrite : bool
        Start again if the file exists.
    progress : bool or None
        Show a progress bar on standard error. None: only on a terminal.
    """
    plan = GenerationPlan() if plan is None else plan
    chosen = resolve_decoder(decoder)
    if plan.n > 1 and is_deterministic(chosen):
        raise InputError(f"`n` must be 1 for {chosen.name}, which has one text per prompt; got {plan.n}.")
    whole("batch", batch, least=1)
    path = check_output_path(out)
    check_prompts(model, prompts, plan.max_new)
    tasks = [_Task(prompt, n) for prompt in prompts for n in range(plan.n)]
    facts = {"kind": "mallow generation", "model": model.name, "decoder": chosen.name, **asdict(plan)}
    total = hashlib.sha256()
    for prompt in prompts:
        total.update(json.dumps([prompt.id, prompt.text, prompt.tokens]).encode() + b"\n")
    facts["prompts"] = total.hexdigest()[:12]

    def is_expected(number: int, record: Any) -> bool:
        return number < len(tasks) and (record["id"], record["n"]) == (tasks[number].prompt.id, tasks[number].n)

    with (
        open_resumable(path, facts, is_expected, overwrite=overwrite) as file,
        bar("generating", len(tasks), done=file.count, wanted=progress) as show,
    ):
        count_before, generated, start = file.count, 0, time.monotonic()
        for first in range(0, len(tasks), batch):
            part = tasks[first : first + batch]
            if first + len(part) <= file.count:
                continue
            # A batch with some lines in the file is generated again as a whole, because other batches are rounded
            # differently.
            new = _continue_prompts(model, part, chosen, plan)
            lines = [_line(model, task, tokens, plan) for task, tokens in zip(part, new, strict=True)]
            file.append(lines[file.count - first :])
            generated += sum(map(len, new))
            rate = generated / max(time.monotonic() - start, 1e-9)
            show(file.count, f"{chosen.name}: {file.count}/{len(tasks)} texts, {rate:.0f} tokens/s")
        return file.count - count_before


@dataclass(frozen=True)
class _Task:
    """One text to generate: the continuation number `n` of a prompt."""

    prompt: Prompt
    n: int

    @property
    def key(self) -> int:
        """Determines, together with the plan's `rng`, the random numbers of this text."""
        label = f"{self.n} {self.prompt.id}".encode("utf-8", "surrogatepass")
        return int.from_bytes(hashlib.blake2b(label, digest_size=8).digest(), "little")


def _continue_prompts(model: NextToken, tasks: list[_Task], chosen: Decoder, plan: GenerationPlan) -> list[list[int]]:
    """The new tokens of each task, generated together, or in smaller batches if memory runs out."""

    def continue_together(part: Sequence[_Task]) -> list[list[int]]:
        return generate(
            model,
            [task.prompt.tokens for task in part],
            chosen,
            max_new=plan.max_new,
            min_new=plan.min_new,
            rng=plan.rng,
            keys=[task.key for task in part],
            batch=len(part),
        )

    advice = "Use a smaller model, shorter prompts or fewer new tokens (max_new)."
    size, new = len(tasks), list[list[int]]()
    while len(new) < len(tasks):
        part = tasks[len(new) : len(new) + size]
        size, tokens = halve_on_memory_error(continue_together, part, item="text", advice=advice)
        new += tokens
    return new


def _line(model: NextToken, task: _Task, new: list[int], plan: GenerationPlan) -> bytes:
    prompt = task.prompt
    full = model.decode([*prompt.tokens, *new])
    if plan.with_prompt:
        text = full
    elif full.startswith(prompt.text):
        text = full[len(prompt.text) :]  # some tokenizers drop a space at the beginning of the text they decode
    else:
        text = model.decode(new)  # the prompt ends inside a character
    record = {"id": prompt.id, "prompt": prompt.text, "text": text, "n": task.n, "tokens": len(new)}
    return (json.dumps(record, ensure_ascii=False) + "\n").encode()


@dataclass(frozen=True)
class Prompt:
    """The beginning of a text, to be continued.

    Attributes
    ----------
    id : str
        The id of the text, unique among the prompts.
    text : str
    tokens : tuple of int
        The same text as tokens of the model, at least one.
    """

    id: str
    text: str
    tokens: tuple[int, ...]


def prompts_of(
    samples: object, model: NextToken, *, tokens: int | None = 35, skip_short: bool = False
) -> tuple[Prompt, ...]:
    """The first tokens of each text, as prompts.

    Parameters
    ----------
    samples : Samples, list, table or path
        Texts. Their ids become the ids of the prompts. Texts without ids are numbered from 1.
    model : NextToken
        The model whose tokens are counted.
    tokens : int or None
        Length of the prompts. The default is the paper's 35. None: each whole text is a prompt.
    skip_short : bool
        Leave out texts with fewer tokens, with a warning that counts them, instead of refusing them.

    Examples
    --------
    >>> from mallow.generate import NGram
    >>> texts = ["the cat sat on the mat", "the dog sat on the cat"]
    >>> [prompt.text for prompt in prompts_of(texts, NGram.fit(texts, min_count=1), tokens=3)]
    ['the cat sat', 'the dog sat']
    """
    if tokens is not None:
        whole("tokens", tokens, least=1)
    least = tokens or 1
    texts = read(samples)
    ids = texts.ids or tuple(str(number) for number in range(1, len(texts) + 1))
    if len(set(ids)) < len(ids):
        twice = next(id_ for id_, times in Counter(ids).items() if times > 1)
        raise InputError(
            f"{texts.source}: texts to be continued must have unique ids; {twice!r} occurs twice. Pass the reference, "
            "not several generations per prompt."
        )
    prompts: list[Prompt] = []
    short: list[tuple[str, int]] = []
    for id_, text in zip(ids, texts.require_texts(), strict=True):
        encoded = model.encode(text)
        if len(encoded) < least:
            short.append((id_, len(encoded)))
            continue
        kept = tuple(encoded[:tokens])
        prompts.append(Prompt(id_, text if tokens is None else model.decode(kept), kept))
    if short and not skip_short:
        raise InputError(
            f"`samples` must have at least {least} tokens each; {len(short)} of {len(ids)} in {texts.source} are "
            f"shorter, such as {short[0][0]!r} with {short[0][1]}. Ask for fewer tokens, or leave them out with "
            "`skip_short=True`."
        )
    if not prompts:
        raise InputError(f"{texts.source}: no text has {least} tokens. Ask for fewer.")
    if short:
        message = f"{texts.source}: {len(short)} of {len(ids)} texts are shorter than {least} tokens and were left out."
        warn_about([Caveat("short texts", message, values={"short": len(short), "texts": len(ids)})])
    return tuple(prompts)


def check_prompts(model: NextToken, prompts: Sequence[Prompt], max_new: int) -> None:
    """Refuse prompts that are empty, share an id, or leave no room for `max_new` tokens."""
    if not prompts:
        raise InputError("`prompts` must hold at least one prompt; got none.")
    if len({prompt.id for prompt in prompts}) < len(prompts):
        raise InputError("`prompts` must have unique ids; some share one.")
    for prompt in prompts:
        if not prompt.tokens:
            raise InputError(f"`prompts` must have at least one token each, but the prompt of {prompt.id!r} is empty.")
        room = None if model.context is None else model.context - len(prompt.tokens)
        if room is not None and room < max_new:
            way_out = f"Use `max_new={room}`, or shorter prompts." if room > 0 else "Use shorter prompts."
            raise InputError(
                f"`prompts` must leave room for {max_new} new tokens in the model's context of {model.context}, "
                f"but the prompt of {prompt.id!r} has {len(prompt.tokens)} tokens. {way_out}"
            )


def check_output_path(out: str | os.PathLike[str]) -> Path:
    """The path of a .jsonl file to write; refused if such a file is impossible."""
    path = Path(out).expanduser()
    if path.suffix.lower() not in (".jsonl", ".ndjson"):
        raise InputError(
            f"{out}: the suffix must be .jsonl, because lines are appended to the file; got {path.suffix!r}."
        )
    if not path.parent.is_dir():
        raise InputError(f"{out}: the folder {path.parent} does not exist. Create it first.")
    if path.is_dir():
        raise InputError(f"{out}: is a folder, not a file. Name a file in it.")
    return path


class ResumableFile:
    """An open file in which a reader always finds complete lines, even after a failure."""

    def __init__(self, path: Path, file: int, count: int, size: int) -> None:
        self.path, self.file, self.count, self.size = path, file, count, size

    def append(self, lines: Sequence[bytes]) -> None:
        """Add lines; if the disk is full, those that fit."""
        try:
            for line in lines:
                rest = memoryview(line)
                while rest:
                    rest = rest[os.write(self.file, rest) :]
                self.count, self.size = self.count + 1, self.size + len(line)
            os.fsync(self.file)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self.file, self.size)
            raise InputError(
                f"{self.path}: cannot be written: {error.strerror or error}. Its {self.count} texts are complete; "
                "solve the problem and run the same command again, which continues from there."
            ) from error


@contextlib.contextmanager
def open_resumable(
    path: Path, facts: dict[str, Any], is_expected: Callable[[int, Any], bool], *, overwrite: bool
) -> Iterator[ResumableFile]:
    """The file, new or to be continued, locked against other processes.

    `facts` describe how the file is made. `is_expected(i, record)` is whether a record may be on line i, counted from
    0.
    """
    about = path.with_name(path.name + ".meta.json")
    refuse_special(path)
    new = not path.exists()
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
            try:
                write_text(about, json.dumps(facts, indent=1, ensure_ascii=False) + "\n")
            except InputError:
                if new:
                    path.unlink(missing_ok=True)  # nothing was written, so no file remains
                raise
        else:
            _check_facts(path, about, facts)
            count, size = _complete_lines(path, is_expected)
            if size < os.fstat(file).st_size:
                os.ftruncate(file, size)
        os.lseek(file, size, os.SEEK_SET)
        sync_folder(path.parent)  # the file may be new
        yield ResumableFile(path, file, count, size)
    finally:
        os.close(file)


def _lock(file: int, path: Path) -> None:
    """Lock the file until the process ends, however it ends; without effect if the system or the disk has no locks."""
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InputError(
            f"{path}: another process is writing to it. Wait until it has finished, or write to another file."
        ) from None
    except (ImportError, OSError):
        return


def _check_facts(path: Path, about: Path, facts: dict[str, Any]) -> None:
    try:
        recorded = parse_json(read_text(about))
        if recorded["kind"] != facts["kind"]:
            raise ValueError
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(
            f"{path}: exists already, and there is no {about.name} beside it that records how it was made. {_WAY_OUT}"
        ) from None
    for name, value in facts.items():
        if recorded.get(name) != value:
            raise InputError(f"{path}: was started with {name} = {recorded.get(name)!r}, not {value!r}. {_WAY_OUT}")


def _complete_lines(path: Path, is_expected: Callable[[int, Any], bool]) -> tuple[int, int]:
    """The number of complete lines and of their bytes. Each must be the one expected there."""
    count = size = 0
    with path.open("rb") as stream:
        for line in stream:
            if not line.endswith(b"\n"):
                break  # the process was killed while it wrote this line
            try:
                expected = is_expected(count, parse_json(line))
            except (ValueError, KeyError, TypeError):
                expected = False
            if not expected:
                raise InputError(f"{path}:{count + 1}: is not a line that mallow wrote. {_WAY_OUT}")
            count, size = count + 1, size + len(line)
    return count, size
