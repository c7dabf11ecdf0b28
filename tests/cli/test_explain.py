"""The commands that give reasons: diagnose, audit."""

import json

import numpy as np
import pytest

WORDS_OF_PEOPLE = ["gate", "hill", "ink", "jazz"]  # the far model does not know them
DIAGNOSE = "diagnose human.jsonl far.jsonl -e letters:letters"


def test_a_diagnosis_names_what_is_missed(mallow):
    code, out, _ = mallow(f"{DIAGNOSE} --regions 1")
    assert code == 0
    missed = out[out.index("MISSED") : out.index("INVENTED")]
    assert any(word in missed for word in WORDS_OF_PEOPLE)
    assert "caveat" not in out
    data = json.loads(mallow(f"{DIAGNOSE} --format json")[1])
    assert len(data["missed"]) == 5
    largest = data["missed"][0]
    row = f"| missed | {largest['share']:.0%} | {largest['reference']} | {largest['model']} |"
    assert row in mallow(f"{DIAGNOSE} --format markdown")[1]


@pytest.fixture
def images(home):
    """Two folders of images, of which the second has a line at the bottom that is in none of the first; and an embedder."""
    image = pytest.importorskip("PIL.Image", reason="needs Pillow: pip install 'mallow[images]'")
    rng = np.random.default_rng(0)
    for name, invented in (("real", 0), ("made", 30)):
        (home / name).mkdir()
        for i in range(100):
            pixels = rng.integers(9, size=(8, 8), dtype=np.uint8)
            pixels[rng.integers(4) if i >= invented else 7] += 240
            image.fromarray(pixels).save(home / name / f"{name}{i}.png")
    (home / "shades.py").write_text(
        "import numpy as np\nfrom PIL import Image\n\n\n"
        "def shades(paths):\n    return np.array([np.asarray(Image.open(path), float).ravel() for path in paths])\n"
    )
    return image


def test_a_diagnosis_of_images_draws_them(mallow, home, images):
    options = ("-e", "shades:shades", "--regions", "1", "--examples", "2", "--bins", "5", "-q")
    code, _, err = mallow("diagnose", "real", "made", *options, "--grids", "grids/of images")
    assert (code, err) == (0, "grids/of images: 2 pictures written\n")
    with images.open(home / "grids" / "of images" / "invented-1.png") as drawn:
        assert drawn.size[0] == 2 * 128
        assert drawn.convert("L").getpixel((64, 285)) >= 240
    assert mallow("report real made -e shades:shades --repeats 1 -q -o images.html")[0] == 0
    assert (home / "images.html").read_text().count("data:image/png;base64,") >= 4
    code, _, err = mallow("diagnose", "real", "made", *options, "--grids", "images.html")
    assert (code, err) == (1, "mallow: images.html: the folder cannot be created: File exists.\n")


@pytest.fixture
def spoiled(home):
    """A file in which every text begins with a space, and a quarter of the texts are duplicates."""
    texts = [json.loads(line)["text"] for line in (home / "near.jsonl").read_text().splitlines()]
    lines = [json.dumps({"text": f" {text}"}) for text in texts[:150] + texts[:50]]
    (home / "spoiled.jsonl").write_text("\n".join(lines))


@pytest.mark.usefixtures("spoiled")
def test_an_audit_of_samples_lists_differences_unrelated_to_the_model(mallow):
    code, out, err = mallow("audit human.jsonl a=far.jsonl b=spoiled.jsonl")
    assert (code, err) == (0, "")
    duplicates, space = (line for line in out.splitlines() if line.startswith("b: "))
    assert duplicates.startswith("b: 50 of 200 texts (25.0%) are duplicates")
    assert space.startswith("b: 100.0% of the texts begin with white space (reference: 0.0%).")
    data = json.loads(mallow("audit human.jsonl a=far.jsonl b=spoiled.jsonl --format json")[1])
    assert [finding["kind"] for finding in data["findings"] if finding["system"] == "b"] == ["duplicates", "space"]
    assert "| b | space |" in mallow("audit human.jsonl b=spoiled.jsonl --format markdown")[1]
    assert mallow("audit human.jsonl near.jsonl")[1] == "No differences unrelated to the model were found.\n"


@pytest.mark.usefixtures("spoiled")
def test_a_report_shows_the_same_differences(mallow, home):
    assert mallow("report human.jsonl spoiled.jsonl -e letters:letters --repeats 2 -q -o spoiled.html")[0] == 0
    page = (home / "spoiled.html").read_text()
    assert page.count("100.0% of the texts begin with white space") == 1


def test_an_audit_of_an_embedder_says_what_it_is_blind_to(mallow, home):
    texts = [
        json.loads(line)["text"]
        for name in ("human", "near")
        for line in (home / f"{name}.jsonl").read_text().splitlines()
    ]
    (home / "all.jsonl").write_text("\n".join(json.dumps({"text": text}) for text in texts))
    code, out, _ = mallow("audit all.jsonl -e letters:letters --repeats 2")
    assert code == 0
    seen = {line[:16].strip(): line.split()[-1] for line in out.splitlines()[5:10]}
    assert seen == {
        "words shuffled": "no",
        "first half": "yes",
        "first quarter": "yes",
        "looping": "no",  # the texts are ten words, shuffled, to begin with
        "lower case": "no",
    }
    blind = "words shuffled, looping, lower case (the certified value falls by less than 0.05, or edited texts cannot be told"
    assert f"Not detected: {blind} from the originals). Detected: " in out
    assert out.count("none: the same features") == 2
    assert "-1.0000 to +1.0000" not in out
    data = json.loads(mallow("audit all.jsonl -e letters:letters --repeats 1 --format json")[1])
    assert [effect["edit"] for effect in data["effects"]] == list(seen)


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        (f"{DIAGNOSE} --regions 0", 2, "0 is not in the range x>=1"),
        (f"{DIAGNOSE} --grids grids", 2, "--grids is for images; human.jsonl holds text samples."),
        ("audit points.npy", 1, "points.npy: text samples are needed here; got features samples."),
        ("audit human.jsonl --limit 50 -e letters:letters", 1, "at least 200 texts to be split in two; got 50."),
    ],
)
def test_mistakes_are_told_in_one_line(refused, command, code, message):
    refused(command, code, message)
