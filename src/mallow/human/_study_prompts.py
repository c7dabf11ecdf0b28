"""Which prompts are fit for people: well-formed beginnings, not headings, menus or error messages of web pages."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mallow._checks import whole
from mallow.models import words

_FEW_CASED = 5  # words with a case below which capitals tell nothing; chosen
_PAGE = re.compile(
    r"https?:|www\.|ad[- ]?block|java ?script|cookies?\b.*\b(accept|enable|policy|use)|your browser|all rights reserved|copyright|"
    r"\blog ?in\b|\bsign ?up\b|subscribe|newsletter|click here|advertisement|privacy policy|terms of (use|service)|page not found|"
    r"posted by|share (this|on)|image copyright|caption",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class PromptFilter:
    """Drops prompts that are no beginning of a text, each with a reason.

    The paper chose 1831 of 5000 prompts by hand: "well-formed English sentences" (sec:a:human-eval:datasheet). This filter
    finds headings, menus and messages of web pages by rules; look at what it keeps, and pass your own choice as `keep`.

    Attributes
    ----------
    words : int
        The fewest words, signs included, of a prompt.
    capitals : float
        The largest share of words that begin with a capital: more are headings and menus.
    letters : float
        The smallest share of letters among the characters that are no white space.
    keep : frozenset of str or None
        Ids of the prompts to use, chosen by hand; the rules then do not apply.

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
        """Why a prompt is dropped; None if it is kept."""
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
