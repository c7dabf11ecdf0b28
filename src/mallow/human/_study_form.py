"""The texts for annotators: instructions, two worked examples, questions and options, as published or your own."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from mallow._files import read_text
from mallow.errors import InputError
from mallow.human._read_votes import parse_at
from mallow.results import from_plain

_LONGEST_NAME = 60  # characters; chosen: a column heading


@dataclass(frozen=True)
class Question:
    """One question about a pair.

    Attributes
    ----------
    name : str
        A short name for files and tables, such as "sensible". Annotators do not see it.
    text : str
        The text of the question.
    gold : bool
        Whether the known answer of a gold pair is an answer to this question.
    """

    name: str
    text: str
    gold: bool = True


@dataclass(frozen=True)
class Example:
    """A worked example, shown with the instructions: a pair, the recommended answers, and the reason.

    Attributes
    ----------
    context : str
        The text that is continued.
    left : str
        Continuation A.
    right : str
        Continuation B.
    answers : dict
        The name of each question → -2 (definitely A) to 2 (definitely B).
    why : str
    """

    context: str
    left: str
    right: str
    answers: dict[str, int]
    why: str


@dataclass(frozen=True)
class Form:
    """Everything that annotators read except for the pairs.

    Attributes
    ----------
    title : str
    task : str
        The task, in one paragraph.
    guidelines : tuple of str
        One per bullet point.
    questions : tuple of Question
    options : tuple of five str
        From "definitely A" to "definitely B", for the answers -2, -1, 0, 1, 2.
    examples : tuple of Example
    language : str
        The language code of the form in HTML, such as "en" or "ar". The direction of contexts and continuations is
        automatic.

    Examples
    --------
    >>> form = Form("Which ending?", "Read two endings.", questions=(Question("better", "Which ending is better?"),))
    >>> form.options[2]
    'Tie'
    """

    title: str
    task: str
    guidelines: tuple[str, ...] = ()
    questions: tuple[Question, ...] = ()
    options: tuple[str, ...] = ("Definitely A", "Slightly A", "Tie", "Slightly B", "Definitely B")
    examples: tuple[Example, ...] = ()
    language: str = "en"

    def __post_init__(self) -> None:
        names = [question.name for question in self.questions]
        if not names:
            raise InputError("`questions` must contain at least one Question; got none.")
        for name in names:
            if not name or len(name) > _LONGEST_NAME or name != name.strip() or not name.isprintable():
                raise InputError(
                    f"the name of a question must have 1 to {_LONGEST_NAME} printable characters; got {name!r}."
                )
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise InputError(f"`questions` must have different names; {twice!r} occurs more than once.")
        if len(self.options) != 5:
            raise InputError(f"`options` must be five labels, from definitely A to definitely B; got {self.options!r}.")
        for example in self.examples:
            unknown = set(example.answers) - set(names)
            if unknown or not set(example.answers.values()) <= {-2, -1, 0, 1, 2}:
                raise InputError(
                    f"`answers` of an example must map names of questions ({', '.join(names)}) to -2, …, 2; got "
                    f"{example.answers!r}."
                )


def read_form(path: str | os.PathLike[str]) -> Form:
    """A form from a JSON file with the fields of `Form`."""
    data = parse_at(os.fspath(path), read_text(path))
    if not isinstance(data, dict) or not isinstance(data.get("questions"), list):
        raise InputError(
            f'{os.fspath(path)}: must be an object with "title", "task" and "questions", as docs/study.md shows.'
        )
    unknown = set(data) - set(Form.__dataclass_fields__)
    if unknown:
        raise InputError(
            f"{os.fspath(path)}: a form has no {', '.join(sorted(unknown))}. Its fields are "
            f"{', '.join(Form.__dataclass_fields__)}."
        )
    try:
        form: Form = from_plain(Form, data)
    except InputError as error:
        raise InputError(f"{os.fspath(path)}: {error}") from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{os.fspath(path)}: is not a form: {error}. docs/study.md shows one.") from error
    return form


_FORMS = Path(__file__).parent / "forms"

# paper: sec:a:human-eval:datasheet: the questions ("Quality Criteria") verbatim, in the order of the form, and the task
# and the guidelines ("Training and Instructions") verbatim except for typography and the pay, which the study cannot
# know. The known answer of a gold pair (real text against its own words in random order) does not apply to interest,
# since nonsense may be interesting. The published examples are pictures that the paper's source does not contain, so
# the two examples are our own.
TEXT_FORM = read_form(_FORMS / "text.json")
"""The form of the published study of texts."""

# The examples are described in words, since a form travels without pictures.
IMAGE_FORM = read_form(_FORMS / "image.json")
"""A form for pictures. The paper has no study of them."""
