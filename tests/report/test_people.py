"""The section of the page where a ranking by people is given."""

import re
from dataclasses import replace
from itertools import pairwise

import pytest

from human_votes import simulate
from mallow import InputError
from mallow.human import Rankings, Votes, rank, rank_all
from mallow.report import html

pytestmark = pytest.mark.filterwarnings("ignore::mallow.EstimateWarning")
TRUTH = {"human": 60.0, "near": 40.0, "twin": 30.0, "far <b>": -130.0}


@pytest.fixture(scope="module")
def rankings():
    first, second = (simulate(TRUTH, 500, seed, question=q) for seed, q in ((0, "human-like"), (1, "<i>sense</i>")))
    return rank_all(Votes((*first, *second)))


def test_metrics_and_people_stand_side_by_side(compared, rankings):
    page = html(compared, ranking=rankings)
    section = page[page.index('id="people"') : page.index('id="frontiers"')]
    assert (
        section.count("<th scope=row role=rowheader") == 4 + 2 * 2
    )  # people's own text too, which has no score; and metrics
    assert "&lt;i&gt;sense&lt;/i&gt;" in section
    assert "<i>sense" not in page
    assert section.count('class="square"') == 2
    assert section.count('data-label="Question"><bdi class="short">human-like</bdi>') == 2  # published and certified
    one = rankings.rankings["human-like"]
    low, high = one.interval["near"]
    assert f"{low:+.1f} to {high:+.1f}".replace("-", "−") in section
    assert one.summary in section
    assert html(compared, ranking=rankings) == page


def test_without_a_ranking_the_page_has_no_such_section(compared):
    assert 'id="people"' not in html(compared)


def test_the_drawing_stays_in_its_frame(compared, rankings):
    page = html(compared, ranking=rankings)
    section = page[page.index('id="people"') : page.index('id="frontiers"')]
    pictures = re.findall(r'<svg class="square".*?</svg>', section, re.DOTALL)
    assert len(pictures) == 2
    for picture in pictures:
        dots = re.findall(r'<circle class="dot" cx="([\d.]+)" cy="([\d.]+)"', picture)
        arms = re.findall(r'<line class="limit" x1="([\d.]+)" x2="([\d.]+)" y1="([\d.]+)" y2="([\d.]+)"/>', picture)
        names = re.findall(r'<text class="tick" x="[\d.]+" y="([\d.]+)"(?: text-anchor="end")?>[a-z]', picture)
        assert (len(dots), len(arms)) == (3, 6)
        for (x, y), across, upright in zip(dots, arms[::2], arms[1::2], strict=True):
            left, right, *_ = map(float, across)
            *_, bottom, top = map(float, upright)
            assert 0 <= left <= float(x) <= right <= 200
            assert 0 <= top <= float(y) <= bottom <= 200
        heights = sorted(map(float, names))[:3]
        assert all(b - a > 12.8 for a, b in pairwise(heights))


def test_one_ranking_and_few_systems(compared):
    few = rank(simulate({"near": 20.0, "human": 0.0, "other": -5.0}, 300, seed=2, question="better"))
    page = html(compared, ranking=few)
    assert "With fewer than 3 common systems there is no correlation." in page
    flat = replace(compared, scores=dict.fromkeys(compared.scores, compared.scores["near"]))
    same = html(flat, ranking=rank(simulate(TRUTH, 300, seed=3)))
    assert "All scores are equal: there is no correlation." in same


def test_caveats_of_the_ranking_are_told(compared):
    one_sided = rank(simulate(TRUTH, 200, seed=4, people=3))
    assert re.search(
        r'<span class="tag">few annotators</span> <bdi>only 3 annotators', html(compared, ranking=one_sided)
    )


def test_mistakes_are_told(compared, rankings):
    other = rank(simulate({"x": 10.0, "y": 0.0}, 200, seed=5))
    with pytest.raises(InputError, match=r"`ranking` must be of the systems compared \(.*\); people voted on x, y"):
        html(compared, ranking=other)
    with pytest.raises(InputError, match="`ranking` must be a Ranking, Rankings or JudgedRanking; got dict"):
        html(compared, ranking={})
    assert isinstance(rankings, Rankings)
