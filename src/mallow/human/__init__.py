"""People: votes, rankings by Bradley–Terry, annotators, judges beside people, and how far metrics agree with them."""

from mallow.human._agreement import krippendorff_alpha
from mallow.human._annotator_table import Annotator, Annotators
from mallow.human._annotators import check_annotators
from mallow.human._bradley_terry import bradley_terry
from mallow.human._correlate import correlate
from mallow.human._correlations import Correlation, Correlations
from mallow.human._judged_ranking import JudgedRanking
from mallow.human._judges import rank_with_judges
from mallow.human._rank import EFFECTS, TIES, rank, rank_all
from mallow.human._ranking import PairCheck, PairDifference, Ranking
from mallow.human._rankings import Rankings
from mallow.human._read_votes import read_votes, write_votes
from mallow.human._study import QualityChecks, Study, Task
from mallow.human._study_design import StudyDesign, design_study
from mallow.human._study_files import picture_folder, read_form, read_gold, read_study, write_study
from mallow.human._study_form import IMAGE_FORM, TEXT_FORM, Example, Form, Question
from mallow.human._study_pairs import AllPairs, DOptimal, PairScheme, Star
from mallow.human._study_prompts import PromptFilter
from mallow.human._study_texts import TextWindow
from mallow.human._vote_goal import VoteCosts, VoteGoal
from mallow.human._vote_plan import VotePlan, plan_votes
from mallow.human._votes import Vote, Votes
from mallow.human._worst_case import worst_case_spearman

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
    "Votes",
    "bradley_terry",
    "check_annotators",
    "correlate",
    "design_study",
    "krippendorff_alpha",
    "picture_folder",
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
