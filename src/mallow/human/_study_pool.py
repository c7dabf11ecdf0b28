"""The pool for pairs: texts of similar length for prompts that suit people, and the reasons why others do not."""

from __future__ import annotations

import functools
import hashlib
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mallow._checks import whole
from mallow.errors import Caveat, InputError
from mallow.human._study import Task
from mallow.models import load_token_file, words
from mallow.results import join_names
from mallow.samples import Samples

_FEW_CASED = 5  # with fewer words that have a case, capitals show nothing; chosen
_PAGE = re.compile(
    r"https?:|www\.|ad[- ]?block|java ?script|cookies?\b.*\b(accept|enable|policy|use)|your browser|"
    r"all rights reserved|copyright|\blog ?in\b|\bsign ?up\b|subscribe|newsletter|click here|advertisement|"
    r"privacy policy|terms of (use|service)|page not found|posted by|share (this|on)|image copyright|caption",
    re.IGNORECASE,
)
Item = tuple[str, int | None]  # a text and its tokens, or the path of a picture


@dataclass(frozen=True)
class TextWindow:
    """The length of continuations: at least `least` tokens, and cut after `most`.

    Texts of equal length are compared fairly, and annotators do not read for longer than they can. Published: 200 to
    256 tokens of GPT-2 (paper: sec:a:human-eval:datasheet).

    Attributes
    ----------
    least : int
        Texts with fewer tokens are left out; at least 1.
    most : int
        Texts are cut after this many tokens.
    tokenizer : str
        "words" (separated by white space), or the path of a tokenizer.json, or of a folder with one, or with GPT-2's
        vocab.json and merges.txt.

    Examples
    --------
    >>> TextWindow(2, 3).cut("one  two three four")
    ('one  two three', 3)
    >>> TextWindow(2, 3).cut("one") is None
    True
    """

    least: int = 200
    most: int = 256
    tokenizer: str = "words"

    def __post_init__(self) -> None:
        whole("least", self.least, least=1)
        whole("most", self.most, least=1)
        if self.most < self.least:
            raise InputError(f"`most` must be at least `least` = {self.least} tokens; got {self.most}.")

    def cut(self, text: str) -> tuple[str, int] | None:
        """The first `most` tokens of a text and their number; None if it has fewer than `least`."""
        ends = self._token_ends(text)
        if len(ends) < self.least:
            return None
        kept = min(len(ends), self.most)
        return (text if kept == len(ends) else text[: ends[kept - 1]]), kept

    def count(self, text: str) -> int:
        """The number of tokens of a text."""
        return len(self._token_ends(text))

    def _token_ends(self, text: str) -> list[int]:
        """Where each token ends, in characters."""
        if self.tokenizer == "words":
            return [word.end() for word in re.finditer(r"\S+", text)]
        # A character of several bytes may be split between tokens, which then both end where it ends.
        return [end for _, end in load_token_file(self.tokenizer).encode(text).offsets]


def fitting_window(samples: Mapping[str, Samples], rules: PromptFilter | None, *, most_used: int) -> TextWindow:
    """The longest window that leaves twice the prompts that a pair of systems uses, or as many as there are.

    It is the published one at most, 200 to 256, and always as wide in proportion.
    """
    usual = TextWindow()
    if any(side.kind != "text" for side in samples.values()):
        return usual
    pool = collect_pool(samples, TextWindow(1, usual.most, usual.tokenizer), rules)
    shared = functools.reduce(set.__and__, (set(prompts) for prompts in pool.items.values()))
    # How long each prompt's texts are: of several generations the longest, of the systems the shortest.
    lengths = [
        min(max(length or 0 for _, length in prompts[prompt]) for prompts in pool.items.values()) for prompt in shared
    ]
    if not lengths:
        return usual
    place = min(2 * most_used, len(lengths))
    least = max(1, min(usual.least, sorted(lengths, reverse=True)[place - 1]))
    least = least // 10 * 10 if least >= 20 else least
    return TextWindow(least, max(least, round(least * usual.most / usual.least)), usual.tokenizer)


@dataclass(frozen=True)
class PromptFilter:
    """Drops prompts that do not begin a text, each with a reason.

    The paper chose 1831 of 5000 prompts by hand: "well-formed English sentences" (sec:a:human-eval:datasheet). This
    filter finds headings, menus and messages of web pages by rules. Check the prompts that it keeps, or pass your own
    choice as `keep`.

    Attributes
    ----------
    words : int
        The smallest number of words of a prompt, including signs.
    capitals : float
        The largest share of words that begin with a capital. A larger share means headings and menus.
    letters : float
        The smallest share of letters among the characters except white space.
    keep : frozenset of str or None
        Ids of the prompts to use, chosen by hand. The rules then do not apply.

    Examples
    --------
    >>> rules = PromptFilter()
    >>> rules.reason("p1", "Front Page Torrents Favorites My Home My Galleries Toplists Bounties News Forums Wiki")
    'mostly capitals: a heading or a menu'
    >>> rules.reason("p2", "The town library will close for two weeks in March, because the") is None
    True
    """

    words: int = 8
    capitals: float = 0.6
    letters: float = 0.65
    keep: frozenset[str] | None = None

    def __post_init__(self) -> None:
        whole("words", self.words, least=0)

    def reason(self, id_: str, prompt: str) -> str | None:
        """The reason why a prompt is dropped; None if it is kept."""
        if self.keep is not None:
            return None if id_ in self.keep else "not in the list of prompts to keep"
        tokens = words(prompt)
        if not tokens:
            return "empty prompt"
        if len(tokens) < self.words:
            return f"fewer than {self.words} words"
        cased = [word for word in prompt.split() if word[:1].isupper() or word[:1].islower()]
        if len(cased) >= _FEW_CASED and sum(word[0].isupper() for word in cased) > self.capitals * len(cased):
            return "mostly capitals: a heading or a menu"
        visible = [letter for letter in prompt if not letter.isspace()]
        if sum(map(_is_letter, visible)) < self.letters * len(visible):
            return "few letters: a table, a list or code"
        return "text of a web page, such as a message or a menu" if _PAGE.search(prompt) else None


def _is_letter(character: str) -> bool:
    """Letters, and the marks that many scripts put on them."""
    return character.isalpha() or (not character.isascii() and not character.isdigit() and character.isprintable())


@dataclass(frozen=True)
class Pool:
    """The items of each system by prompt."""

    kind: str  # "text" or "image"
    items: dict[str, dict[str, list[Item]]]  # system → id of a prompt → items of the system for it
    contexts: dict[str, str]  # id of a prompt → its text, "" without one
    dropped: dict[str, tuple[str, ...]]  # reason → ids of prompts that are not used at all
    short: dict[str, list[int]]  # system → the number of tokens of each text that is too short
    sources: dict[str, str]  # system → where its samples came from, with a digest of them
    caveats: tuple[Caveat, ...]

    def shared_prompts(self, first: str, second: str) -> list[str]:
        """Prompts for which both systems have an item, in a fixed order."""
        return sorted(self.items[first].keys() & self.items[second].keys())

    def make_task(self, left: str, right: str, prompt: str, rng: np.random.Generator) -> Task:
        """A pair for a prompt; one of several generations is chosen at random."""
        (left_item, left_length), (right_item, right_length) = (
            choices[rng.integers(len(choices))] for choices in (self.items[left][prompt], self.items[right][prompt])
        )
        context = self.contexts[prompt]
        return Task("", left, right, prompt, context, left_item, right_item, left_length, right_length)

    def explain(self) -> str:
        """The samples that were left out, in a sentence for an error message."""
        most_first = sorted(self.dropped.items(), key=lambda entry: -len(entry[1]))
        parts = [f"{len(ids):,} prompt{'' if len(ids) == 1 else 's'}: {reason}" for reason, ids in most_first]
        parts += [
            f"{len(lengths):,} text{'' if len(lengths) == 1 else 's'} of {name} too short "
            f"(median {statistics.median(lengths):g} tokens)"
            for name, lengths in self.short.items()
            if lengths
        ]
        return f"Left out: {'; '.join(parts)}." if parts else "Nothing was left out."


def collect_pool(samples: Mapping[str, Samples], window: TextWindow, rules: PromptFilter | None) -> Pool:
    """The pool of some systems, with the reference first."""
    kind = _common_kind(samples)
    labels, caveats = _match(samples, kind)
    contexts = _contexts(samples, labels)
    dropped: dict[str, list[str]] = {}
    for prompt, context in contexts.items():
        reason = rules.reason(prompt, context) if rules is not None and (context or rules.keep is not None) else None
        if reason is not None:
            dropped.setdefault(reason, []).append(prompt)
    refused = {prompt for prompts in dropped.values() for prompt in prompts}
    items: dict[str, dict[str, list[Item]]] = {}
    short = {}
    for name, given in samples.items():
        items[name], short[name] = _fitting(given, labels[name], window, refused)
        lost = [prompt for prompt in contexts if prompt not in refused and prompt not in set(labels[name])]
        if lost:
            dropped.setdefault(f"without a sample of {name} (its pairs only)", []).extend(lost)
    fitting = {prompt for prompts in items.values() for prompt in prompts}
    accounted = {prompt for prompts in dropped.values() for prompt in prompts}
    lost = [prompt for prompt in contexts if prompt not in fitting and prompt not in accounted]
    if lost:
        dropped[f"all texts shorter than {window.least} tokens"] = lost
    sources = {name: f"{side.source} ({_fingerprint(side)})" for name, side in samples.items()}
    frozen = {reason: tuple(prompts) for reason, prompts in dropped.items()}
    return Pool(kind, items, contexts, frozen, short, sources, tuple(caveats))


def _common_kind(samples: Mapping[str, Samples]) -> str:
    kinds = {name: side.kind for name, side in samples.items()}
    if len(set(kinds.values())) > 1 or not set(kinds.values()) <= {"text", "image"}:
        shown = ", ".join(f"{name}: {kind}" for name, kind in kinds.items())
        raise InputError(f"a study needs texts of all systems, or images of all; got {shown}.")
    return next(iter(kinds.values()))


def _match(samples: Mapping[str, Samples], kind: str) -> tuple[dict[str, Sequence[str]], list[Caveat]]:
    """The id of the prompt of each sample, or its position without ids and prompts or if images share no names."""
    named = {name: side.ids or side.prompts for name, side in samples.items()}
    without = [name for name, labels in named.items() if labels is None]
    shared = functools.reduce(set.__and__, (set(labels or ()) for labels in named.values()))
    if not without and (shared or kind == "text"):
        if not shared:
            first, other = list(samples)[:2]
            raise InputError(
                f"the samples must share ids or prompts, by which continuations of one prompt are found; {first!r} and "
                f"{other!r} have none in common, such as {(named[first] or [''])[0]!r} and "
                f"{(named[other] or [''])[0]!r}. Write the same `id` into all files, and the `prompt`."
            )
        return {name: labels or () for name, labels in named.items()}, []
    if without and len(without) < len(named):
        raise InputError(
            f"the samples of all systems must have ids or prompts, or none of them may; {join_names(without)} "
            f"{'has' if len(without) == 1 else 'have'} none. Write the `id` or the `prompt` of each sample into the "
            "file."
        )
    what = "share no ids" if not without else "have no ids and no prompts"
    text = f"the samples {what}: they were paired by place, and the pairs have no context."
    places: dict[str, Sequence[str]] = {
        name: [f"{place:06}" for place in range(len(texts))] for name, texts in samples.items()
    }
    return places, [Caveat("no prompts", text)]


def _contexts(samples: Mapping[str, Samples], labels: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """The text of each prompt; systems that disagree about it are an error."""
    contexts: dict[str, str] = {}
    owner: dict[str, str] = {}
    for name, side in samples.items():
        texts = side.prompts or [""] * len(side)
        for prompt, context in zip(labels[name], texts, strict=True):
            if contexts.get(prompt) and context and contexts[prompt] != context:
                raise InputError(
                    f"samples with the same id must have the same prompt; {prompt!r} has {contexts[prompt][:40]!r} in "
                    f"{owner[prompt]} and {context[:40]!r} in {name}."
                )
            if not contexts.get(prompt):
                contexts[prompt], owner[prompt] = context, name
    return contexts


def _fitting(
    samples: Samples, labels: Sequence[str], window: TextWindow, refused: set[str]
) -> tuple[dict[str, list[Item]], list[int]]:
    """The items of a system by prompt, with texts cut to the window, and the lengths of texts that are too short."""
    items: dict[str, list[Item]] = {}
    short = []
    for prompt, item in zip(labels, samples.items, strict=True):
        if prompt in refused:
            continue
        kept: Item | None = (str(item), None) if samples.kind == "image" else window.cut(item)
        if kept is None:
            short.append(window.count(item))
        else:
            items.setdefault(prompt, []).append(kept)
    return items, short


def _fingerprint(samples: Samples) -> str:
    total = hashlib.sha256()
    for item in samples.items:
        total.update(str(item).encode("utf-8", "surrogatepass") + b"\0")
    return total.hexdigest()[:12]
