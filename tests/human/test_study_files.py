"""Studies in files: edits are noticed and named; pictures travel along; forms and gold pairs of one's own."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from mallow.errors import InputError
from mallow.human import (
    IMAGE_FORM,
    TEXT_FORM,
    AllPairs,
    Example,
    Form,
    QualityChecks,
    Question,
    Study,
    StudyDesign,
    TextWindow,
    design_study,
    picture_folder,
    picture_type,
    read_form,
    read_gold,
    read_study,
    write_study,
)
from mallow.samples import Samples

PROMPTS = [f"This is the beginning of the story with number {i}, in which" for i in range(8)]


@pytest.fixture
def study():
    human, model = (Samples(texts=[f"{name} text {i} — é" for i in range(8)], prompts=PROMPTS) for name in "hm")
    return design_study(human, {"m": model}, StudyDesign(AllPairs(6), TextWindow(2, 9), checks=QualityChecks(2)))


def test_a_study_comes_back(study, tmp_path):
    path = tmp_path / "study.json"
    assert write_study(study, path) == study
    assert read_study(path) == study
    assert read_study(path).digest == study.digest


@pytest.mark.parametrize(
    ("edit", "named"),
    [
        (lambda data: data["tasks"][2].update(left_item="better"), "task t0003"),
        (
            lambda data: data["tasks"][2].update(left=data["tasks"][2]["right"], right=data["tasks"][2]["left"]),
            "task t0003",
        ),
        (lambda data: data["gold"][1].update(expected=-data["gold"][1]["expected"]), "task g02"),
        (lambda data: data["tasks"].pop(4), r"task t0005 \(removed\)"),
        (lambda data: data["form"].update(title="Other"), "form"),
        (lambda data: data["form"]["questions"][0].update(text="Which?"), "form"),
        (lambda data: data.update(votes=3), "votes"),
        (lambda data: data.update(per_annotator=5, votes=3), "votes and per_annotator"),
        (lambda data: data["settings"].update(seed="5"), "settings"),
        (lambda data: data.pop("seal"), "the seal"),
        (lambda data: [task.update(prompt="x") for task in data["tasks"]], "task t0001, task t0002, .* and 1 more"),
    ],
)
def test_an_edit_by_hand_is_noticed_and_named(study, tmp_path, edit, named):
    path = tmp_path / "study.json"
    write_study(study, path)
    data = json.loads(path.read_text())
    edit(data)
    path.write_text(json.dumps(data, indent=3))
    with pytest.raises(
        InputError, match=rf"study.json: the study was edited after it was made: {named}\. Undo the edit"
    ):
        read_study(path)
    assert isinstance(read_study(path, accept_edits=True), Study)


def test_another_layout_of_the_same_study_is_no_edit(study, tmp_path):
    path = tmp_path / "study.json"
    write_study(study, path)
    path.write_text(json.dumps(json.loads(path.read_text()), indent=7, sort_keys=True, ensure_ascii=False))
    assert read_study(path) == study


def test_files_that_are_no_study(study, tmp_path):
    path = tmp_path / "x.json"
    with pytest.raises(InputError, match=r"x.json: cannot be read: No such file"):
        read_study(path)
    path.write_text("{")
    with pytest.raises(InputError, match=r"x.json: is not a study: .* Make one with: mallow study"):
        read_study(path)
    path.write_text('{"kind": "mallow score"}')
    with pytest.raises(
        InputError, match=r"x.json: `data` must be what Study.to_dict wrote, but its kind is 'mallow score'"
    ):
        read_study(path)
    for change, message in (
        ({"tasks": (study.tasks[0], study.tasks[0])}, "t0001 occurs more than once"),
        ({"tasks": ()}, "it has none"),
        ({"systems": ("human", "n")}, "tasks must compare systems of the study; m is none"),
    ):
        path.write_text(replace(study, **change).to_json())
        with pytest.raises(InputError, match=message):
            read_study(path)
    with pytest.raises(InputError, match="cannot be written"):
        write_study(study, tmp_path / "nowhere" / "study.json")


def test_pictures_are_copied_under_names_that_tell_nothing(tmp_path):
    image = pytest.importorskip("PIL.Image")
    for folder, colour in (("real", "red"), ("fake", "blue")):
        (tmp_path / folder).mkdir()
        for number in range(3):
            image.new("RGB", (4 + number, 4), colour).save(tmp_path / folder / f"{number}.png")
    design = StudyDesign(AllPairs(3), checks=QualityChecks(0, 0, 0))
    study = design_study(tmp_path / "real", {"fake": tmp_path / "fake"}, design)
    assert study.form == IMAGE_FORM
    path = tmp_path / "pair.json"
    written = write_study(study, path)
    folder = picture_folder(path)
    assert folder == tmp_path / "pair-pictures"
    assert len(list(folder.iterdir())) == 6
    assert all(re.fullmatch(r"[0-9a-f]{20}\.png", file.name) for file in folder.iterdir())
    assert read_study(path) == written
    for task, before in zip(written.tasks, study.tasks, strict=True):
        assert (folder / task.left_item).read_bytes() == Path(before.left_item).read_bytes()
    assert "fake/" not in path.read_text()
    (folder / written.tasks[0].left_item).write_text("<script>alert(1)</script>")
    with pytest.raises(InputError, match=r"\.png in .*pair-pictures is no PNG, JPEG, GIF, WebP or BMP picture"):
        read_study(path)
    (folder / written.tasks[0].left_item).unlink()
    with pytest.raises(
        InputError, match=r"pair.json: the picture \w+.png is missing in .*pair-pictures. Copy that folder too"
    ):
        read_study(path)
    with pytest.raises(InputError, match=r"0.tif: browsers do not show .tif files. Convert it to one of .bmp .gif"):
        write_study(replace(study, tasks=(replace(study.tasks[0], left_item="0.tif"),)), path)


@pytest.mark.parametrize(
    ("form", "media"),
    [("PNG", "png"), ("JPEG", "jpeg"), ("GIF", "gif"), ("BMP", "bmp"), ("WEBP", "webp"), ("TIFF", None)],
)
def test_a_picture_is_told_by_its_first_bytes(tmp_path, form, media):
    image = pytest.importorskip("PIL.Image")
    path = tmp_path / "x.html"
    image.new("RGB", (4, 4)).save(path, form)
    assert picture_type(path) == (None if media is None else f"image/{media}")


@pytest.mark.parametrize("content", [b"", b"<svg/>", b"<html>", b"GIF8", b"RIFF\0\0\0\0WAVE"])
def test_other_files_are_no_pictures(tmp_path, content):
    path = tmp_path / "x.png"
    path.write_bytes(content)
    assert picture_type(path) is None


def test_forms_of_ones_own(tmp_path):
    path = tmp_path / "form.json"
    form = {"title": "T", "task": "Do it.", "questions": [{"name": "q", "text": "Which?"}]}
    path.write_text(json.dumps(form))
    assert read_form(path) == Form("T", "Do it.", questions=(Question("q", "Which?"),))
    example = {"context": "c", "left": "l", "right": "r", "answers": {"q": 2}, "why": "w"}
    path.write_text(json.dumps(form | {"examples": [example], "options": ["1", "2", "3", "4", "5"], "language": "de"}))
    assert read_form(path).examples == (Example("c", "l", "r", {"q": 2}, "w"),)
    for change, message in (
        ({"questions": []}, "`questions` must contain at least one Question"),
        ({"questions": "q"}, 'must be an object with "title", "task" and "questions"'),
        ({"questions": [{"name": "q"}]}, r"the field 'questions\[0\].text' is missing"),
        (
            {"questions": [{"name": "q", "text": "a"}, {"name": "q", "text": "b"}]},
            "`questions` must have different names; 'q' occurs more than once",
        ),
        (
            {"questions": [{"name": " ", "text": "a"}]},
            "the name of a question must have 1 to 60 printable characters; got ' '",
        ),
        ({"options": ["yes", "no"]}, r"`options` must be five labels, .*; got \('yes', 'no'\)"),
        (
            {"examples": [example | {"answers": {"x": 1}}]},
            r"`answers` of an example must map names of questions \(q\) to -2, …, 2",
        ),
        ({"examples": [example | {"answers": {"q": 3}}]}, "`answers` of an example must map"),
        ({"titel": "x"}, "a form has no titel. Its fields are title, task,"),
    ):
        path.write_text(json.dumps(form | change))
        with pytest.raises(InputError, match=f"form.json: (the content is not a valid Form: )?{message}"):
            read_form(path)
    path.write_text("[")
    with pytest.raises(InputError, match=r"form.json: is not JSON"):
        read_form(path)


def test_gold_pairs_of_ones_own(tmp_path, study):
    path = tmp_path / "gold.jsonl"
    path.write_text(
        '{"left": "good", "right": "bad", "expected": -2, "prompt": "Once"}\n\n{"left": "b", "right": "g", "expected": 2}\n'
    )
    first, second = read_gold(path)
    assert (first.left_item, first.context, first.expected, second.expected) == ("good", "Once", -2, 2)
    human, model = (Samples(texts=[f"{name} text {i}" for i in range(8)], prompts=PROMPTS) for name in "hm")
    made = design_study(human, {"m": model}, StudyDesign(AllPairs(6), TextWindow(2, 9)), gold=(first, second))
    assert [(task.id, task.expected) for task in made.gold] == [("g01", -2), ("g02", 2)]
    for line, message in (
        ("{", "gold.jsonl:1: is not JSON"),
        ('{"left": "a", "right": "b", "expected": 0}', "gold.jsonl:1: a gold pair has"),
        ('{"left": "a", "expected": 2}', "gold.jsonl:1: a gold pair has"),
        ('{"left": "a", "right": "b", "expected": true}', "gold.jsonl:1: a gold pair has"),
        ('{"left": "a", "right": "b", "expected": 1.0}', "gold.jsonl:1: a gold pair has"),
        ('{"left": "a", "right": "b", "expected": 2, "prompt": null}', "gold.jsonl:1: a gold pair has"),
        ("[1]", "gold.jsonl:1: a gold pair has"),
        ("", "gold.jsonl: has no gold pairs"),
    ):
        path.write_text(line)
        with pytest.raises(InputError, match=message):
            read_gold(path)
    with pytest.raises(InputError, match=r"nowhere.jsonl: cannot be read: No such file"):
        read_gold(tmp_path / "nowhere.jsonl")
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match=r"gold.jsonl: must be UTF-8 text; byte 0 is not"):
        read_gold(path)


def test_the_published_questions_and_options(shared):
    """Verbatim as in the paper's source."""
    source = (shared / "paper" / "mauve-jmlr-2023.tex").read_text(encoding="utf-8")
    for question in TEXT_FORM.questions:
        assert question.text in source
    plain = source.replace('"', "").replace("'", "’").replace("\\$", "$")
    for line in (TEXT_FORM.task, *TEXT_FORM.guidelines[1:5]):
        assert line.translate(str.maketrans("", "", "“”")) in plain.replace("’Advertisement’", "Advertisement"), line
    assert TEXT_FORM.options == ("Definitely A", "Slightly A", "Tie", "Slightly B", "Definitely B")
    assert len(TEXT_FORM.examples) == 2
