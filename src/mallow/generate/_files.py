"""From prompts to files of continuations, which an interrupted run leaves intact and the next run completes."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mallow._checks import whole
from mallow.engine import bar
from mallow.errors import InputError
from mallow.generate._decoder_names import resolve_decoder
from mallow.generate._decoders import Decoder, is_deterministic
from mallow.generate._prompts import Prompt, check_prompts, prompts_digest
from mallow.generate._protocol import NextToken
from mallow.generate._resumable import check_output_path, open_resumable
from mallow.generate._search import generate
from mallow.models import halve_on_memory_error


@dataclass(frozen=True)
class GenerationPlan:
    """What is written for each prompt; with the model, the prompts and the decoder it determines every byte of the file.

    Parameters
    ----------
    n : int
        Number of texts per prompt.
    max_new, min_new : int
        The maximum and minimum number of new tokens of a text. The minimum is 1 by default: an empty text is not a sample.
    rng : int
        The seed. Together with a prompt's id and the number of the text it determines the random numbers of that text:
        other prompts, the batch or an interruption change nothing.
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

    A line is ``{"id", "prompt", "text", "n", "tokens"}``: id and text of the prompt, the continuation, its number among those
    of the prompt (from 0), and its number of tokens. The lines are in the order of the prompts, and `mallow.read` reads them.
    ``FILE.meta.json`` beside the file records how it was made.

    An existing file is continued: its lines stay, an incomplete last line is removed, and in the end the file is the same as
    after a single run. A file that was made differently is refused.

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
        How many texts, how long, which random numbers. None: ``GenerationPlan()``.
    batch : int
        Texts that are generated together; halved if memory runs out. A run that is killed loses at most one batch.
    overwrite : bool
        Start again if the file exists.
    progress : bool or None
        Show a bar on standard error. None: if that is a terminal.
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
    facts["prompts"] = prompts_digest(prompts)

    def is_expected(place: int, record: Any) -> bool:
        return place < len(tasks) and (record["id"], record["n"]) == (tasks[place].prompt.id, tasks[place].n)

    with (
        open_resumable(path, facts, is_expected, overwrite=overwrite) as file,
        bar("generating", len(tasks), done=file.count, wanted=progress) as show,
    ):
        count_before, generated, start = file.count, 0, time.monotonic()
        for first in range(0, len(tasks), batch):
            part = tasks[first : first + batch]
            if first + len(part) <= file.count:
                continue
            # A batch with some lines in the file is generated again as a whole: networks round differently in another one.
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
