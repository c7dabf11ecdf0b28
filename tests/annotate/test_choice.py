"""Which pair comes next: balanced for every annotator, within quotas, with checks in between."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from annotation_page import make_study
from mallow.annotate._queue import Given, Queue
from mallow.human import QualityChecks

PLAIN = make_study(per_pair=6, systems=3)
CHECKED = make_study(per_pair=20, systems=1, checks=QualityChecks(5, 4, 5))


def judge(study, annotator, count, full=()):
    """What an annotator gets who answers everything."""
    history, choices, queue = [], [], Queue(study)
    for _ in range(count):
        choice = queue.choose(annotator, history, full.__contains__)
        if choice is None:
            break
        choices.append(choice)
        history.append(Given(choice.task, choice.kind, "done"))
    return choices


@settings(max_examples=30)
@given(st.text("abc", max_size=4), st.integers(1, 36))
def test_each_annotator_sees_all_pairs_of_systems_equally_often(annotator, count):
    tasks = {task.id: task for task in PLAIN.tasks}
    seen = judge(PLAIN, annotator, count)
    assert len({choice.task for choice in seen}) == count
    pairs = Counter(frozenset((tasks[choice.task].left, tasks[choice.task].right)) for choice in seen)
    counts = [pairs[frozenset(pair)] for pair in PLAIN.pair_counts]
    assert max(counts) - min(counts) <= 1


def test_prompts_that_an_annotator_has_not_seen_come_first():
    study = make_study(per_pair=24, systems=2)  # each of 24 prompts is used three times
    tasks = {task.id: task for task in study.tasks}
    prompts = [tasks[choice.task].prompt for choice in judge(study, "ann", 20)]
    assert len(set(prompts)) == 20


@given(st.sets(st.sampled_from([task.id for task in PLAIN.tasks])))
def test_full_tasks_are_never_given(full):
    seen = [choice.task for choice in judge(PLAIN, "ann", 99, full)]
    assert set(seen) == {task.id for task in PLAIN.tasks} - full


@settings(max_examples=30)
@given(st.text("abc", min_size=1, max_size=4))
def test_checks_come_as_often_as_was_asked(annotator):
    seen = judge(CHECKED, annotator, 20)
    kinds = Counter(choice.kind for choice in seen)
    assert kinds["gold"] == 5
    assert kinds["repeat"] in (3, 4)
    assert len({choice.task for choice in seen if choice.kind == "gold"}) == 5
    for place, choice in enumerate(seen):
        if choice.kind == "repeat":
            before = [one.task for one in seen[:place] if one.kind == "task"]
            assert choice.task in before[:-5]


def test_checks_do_not_come_at_the_same_places_for_all():
    firsts = {[choice.kind for choice in judge(CHECKED, f"a{i}", 8)].index("gold") for i in range(30)}
    assert len(firsts) > 1


def test_a_skipped_pair_is_not_given_again():
    first = Queue(PLAIN).choose("ann", [], ().__contains__)
    again = Queue(PLAIN).choose("ann", [Given(first.task, "task", "skipped")], ().__contains__)
    assert again.task != first.task
    assert isinstance(again, Given)


@pytest.mark.parametrize("every", [1, 2])
def test_checks_all_the_time(every):
    study = make_study(per_pair=3, systems=1, checks=QualityChecks(2, every, every))
    kinds = [choice.kind for choice in judge(study, "ann", 50)]
    assert kinds.count("task") == 3  # it ends
    assert kinds.count("gold") <= 2


@given(st.lists(st.sampled_from([task.id for task in PLAIN.tasks]), unique=True))
def test_tasks_that_are_finished_are_not_looked_at_again(finished):
    queue, asked = Queue(PLAIN), []
    for task in finished:
        queue.finish(task)

    def is_full(task):
        asked.append(task)
        return False

    choice = queue.choose("ann", [], is_full)
    assert set(asked).isdisjoint(finished)
    rest = [task.id for task in PLAIN.tasks if task.id not in finished]
    assert choice == (Given(rest[0], "task") if rest else None)
