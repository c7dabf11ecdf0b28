"""People: votes, rankings by Bradley–Terry, annotators, judges beside people, and how far metrics agree with them."""

from mallow.human._votes import Vote, Votes
from mallow.human._worst_case import worst_case_spearman

__all__ = ["Vote", "Votes", "worst_case_spearman"]
