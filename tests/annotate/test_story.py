"""The whole loop: a study is designed, people judge it on the page, and their votes become a ranking."""

import random
import re
import warnings

from annotation_page import hidden
from mallow import annotate, human
from mallow.samples import Samples

STRENGTH = {"human": 250.0, "large": 0.0, "small": -250.0}  # the truth, on the scale of Bradley and Terry
SHUFFLED = -600.0


def test_from_samples_to_a_ranking(serve, study_file, tmp_path):
    prompts = [f"This is the beginning of story number {i}, in which somebody went out and" for i in range(30)]
    samples = {
        name: Samples(texts=[f"{name} words follow here for story {i} of all" for i in range(30)], prompts=prompts)
        for name in STRENGTH
    }
    reference = samples.pop("human")
    design = human.StudyDesign(human.AllPairs(30), human.TextWindow(3, 20), checks=human.QualityChecks(4, 6, 8))
    served = serve(study_file(human.design_study(reference, samples, design)))
    chance = random.Random(0)
    for number in range(3):
        person = served.person()
        text = person.join(f"Person {number}")
        for _ in range(40):
            if "Thank you" in text:
                break
            shown = re.findall(r'<p dir="auto" class="text">(.*?)</p>', text, re.DOTALL)[-2:]
            first, second = (STRENGTH[word] if (word := one.split()[0]) in STRENGTH else SHUFFLED for one in shown)
            left = chance.random() < 1 / (1 + 2.718281828 ** (-(first - second) / 100))
            assert hidden(text, "csrf")
            _, _, text = person.answer(text, chance.choice(["-2", "-1"] if left else ["1", "2"]))
    path = tmp_path / "votes.jsonl"
    path.write_text(annotate.votes_text(annotate.export_votes(served.store)))
    votes = human.read_votes(path, min_seconds=0)
    assert {vote.kind for vote in votes} == {"task", "gold", "repeat"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ranking = human.rank(votes, question="sensible")
    assert sorted(ranking.scores, key=ranking.scores.get, reverse=True) == ["human", "large", "small"]
