"""People: votes, rankings by Bradley–Terry, annotators, votes of judges, and the agreement of metrics with people."""

from mallow.human._annotators import Annotator, Annotators, check_annotators, krippendorff_alpha
from mallow.human._bradley_terry import bradley_terry
from mallow.human._correlate import Correlation, Correlations, correlate
from mallow.human._judges import rank_with_judges
from mallow.human._rank import EFFECTS, TIES, rank, rank_all
from mallow.human._rank_correlations import worst_case_spearman
from mallow.human._rankings import JudgedRanking, PairCheck, PairDifference, Ranking, Rankings
from mallow.human._read_votes import read_votes, write_votes
from mallow.human._study import (
    QualityChecks,
    Study,
    Task,
    picture_folder,
    picture_type,
    read_gold,
    read_study,
    write_study,
)
from mallow.human._study_design import StudyDesign, design_study
from mallow.human._study_form import IMAGE_FORM, TEXT_FORM, Example, Form, Question, read_form
from mallow.human._study_pairs import AllPairs, DOptimal, PairScheme, Star
from mallow.human._study_pool import PromptFilter, TextWindow
from mallow.human._vote_plan import VoteCosts, VoteGoal, VotePlan, VoteSharing, plan_votes
from mallow.human._votes import Vote, Votes

__all__ = [
    "EFFECTS",
    "IMAGE_FORM",
    "TEXT_FORM",
    "TIES",
    "AllPairs",
    "Annotator",
    "Annotators",
    "Correlation",
    "Correlations",
    "DOptimal",
    "Example",
    "Form",
    "JudgedRanking",
    "PairCheck",
    "PairDifference",
    "PairScheme",
    "PromptFilter",
    "QualityChecks",
    "Question",
    "Ranking",
    "Rankings",
    "Star",
    "Study",
    "StudyDesign",
    "Task",
    "TextWindow",
    "Vote",
    "VoteCosts",
    "VoteGoal",
    "VotePlan",
    "VoteSharing",
    "Votes",
    "bradley_terry",
    "check_annotators",
    "correlate",
    "design_study",
    "krippendorff_alpha",
    "plan_votes",
    "rank",
    "rank_all",
    "rank_with_judges",
    "read_form",
    "read_gold",
    "read_study",
    "read_votes",
    "worst_case_spearman",
    "write_study",
    "write_votes",
]
