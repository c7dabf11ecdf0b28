"""The texts for annotators: instructions, two worked examples, questions and options, as published or your own."""

from __future__ import annotations

from dataclasses import dataclass, field

from mallow.errors import InputError

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
    examples: tuple[Example, ...] = field(default=())
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


# paper: sec:a:human-eval:datasheet, "Quality Criteria": the questions verbatim, in the order of the form. The known
# answer of a gold pair (real text against its own words in random order) does not apply to interest, since nonsense may
# be interesting.
_QUESTIONS = (
    Question("interesting", "Which continuation is more interesting or creative, given the context?", gold=False),
    Question("sensible", "Which continuation makes more sense, given the context?"),
    Question("human-like", "Which continuation is more likely to be written by a human?"),
)

# The published examples are pictures that the paper's source does not contain, so these two are our own.
_EXAMPLES = (
    Example(
        context="The town library will close for two weeks in March. The old heating pipes are being replaced, and",
        left="the reading rooms on the first floor will be repainted at the same time. Books that fall due while the "
        "library is closed may be returned a week later than usual, without a fine. The children's corner moves to the "
        "town hall for the time being; story time stays on Wednesday afternoons.",
        right="the pipes the pipes are the heating of the library. The library library is closed for the closing of "
        "the library in March in March. The old heating is old. It is the heating that is replaced and replaced and "
        "replaced.",
        answers={"interesting": -1, "sensible": -2, "human-like": -2},
        why="B repeats itself and says nothing new. A goes on with what the context announces. A is not exciting, but "
        "it is still the more interesting of the two.",
    ),
    Example(
        context="We had been walking since dawn when the path ended at a river that was on none of our maps.",
        left="The river was blue. We looked at the river for some time. It was a nice river. Then we went back to the "
        "village the way we had come and had dinner, and then we went to sleep, because it was late.",
        right="On the other bank stood a telephone box, freshly painted, its lamp alight in full day. Nobody spoke. "
        "Then it began to ring, and old Matthias, who had not hurried once in four days, walked straight into the "
        "water to answer it.",
        answers={"interesting": 2, "sensible": -1, "human-like": 1},
        why="B is far more creative, though a telephone box beside a wild river makes a little less sense than a plain "
        "walk home. The questions may have different answers. B also reads more like the work of a writer; we are not "
        "sure.",
    ),
)

# paper: sec:a:human-eval:datasheet, "Training and Instructions", verbatim except for typography and the pay, which the
# study cannot know.
TEXT_FORM = Form(
    title="Which continuation is better?",
    task="We are studying how good AI models are at generating text on the internet. You are given a snippet of text "
    "from a random document on the internet, called the “prompt” or the “context”, as well as two continuations, A and "
    "B. One or both of these is written by an AI. You must choose (a) which of two continuations is more interesting, "
    "(b) which makes more sense given the prompt, and, (c) which is more likely to have been written by a human, as "
    "per your assessment.",
    guidelines=(
        "There are five choices for each question: Definitely A/B, Slightly A/B, or Tie. Please use the “Tie” option "
        "extremely sparingly! (No more than one in every ten pairs should be chosen as a tie along any of the three "
        "questions).",
        "The questions can have different answers! Some text is very creative or interesting, but it doesn’t quite fit "
        "the prompt or make sense.",
        "Try to focus on quality over quantity. The text can be long but contain rambly gibberish.",
        "Don’t worry if the text ends abruptly or has other artifacts of the website downloading process (text like "
        "“Advertisement” for instance).",
        "Please do your best, some of these are pretty challenging!",
        "Answering each question should take around 1.5 minutes on average, as per our estimation.",
    ),
    questions=_QUESTIONS,
    examples=_EXAMPLES,
)
"""The form of the published study of texts."""

# Described in words: a form travels without pictures.
_PICTURE_EXAMPLES = (
    Example(
        context="",
        left="A street in the rain. The letters on the shop signs can be read, and all reflections lie below their "
        "lamps.",
        right="A street in the rain. The letters on the signs belong to no alphabet, and one lamp post ends in "
        "mid-air.",
        answers={"real": -2, "appealing": -1},
        why="Letters that cannot be read and things that end in mid-air give B away. Both are nice to look at; A a "
        "little more.",
    ),
    Example(
        context="",
        left="A blurred snapshot of a dog that turns its head, badly lit.",
        right="A brilliant portrait of a dog in evening light. It has five legs.",
        answers={"real": -2, "appealing": 1},
        why="A is a bad photograph, but a photograph. No dog has five legs. B is still the more beautiful picture: the "
        "questions may have different answers.",
    ),
)

IMAGE_FORM = Form(
    title="Which picture is better?",
    task="You see two pictures, A and B. One or both of them were made by a computer program. Choose which of the two "
    "is more likely to be real, and which you like better.",
    guidelines=(
        "There are five choices for each question: Definitely A/B, Slightly A/B, or Tie. Please use “Tie” sparingly.",
        "The questions can have different answers.",
        "Look at the whole picture first, then at details such as hands, letters, edges and backgrounds.",
    ),
    questions=(
        Question("real", "Which picture is more likely to be real?"),
        Question("appealing", "Which picture do you like better?", gold=False),
    ),
    examples=_PICTURE_EXAMPLES,
)
"""A form for pictures. The paper has no study of them."""
