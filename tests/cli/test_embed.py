"""The commands that make and keep features: embed, cache."""

import json
import re
import sys

import pytest

from mallow.samples import read


def test_features_serve_instead_of_the_samples(mallow, home):
    for name in ("human", "far"):
        code, out, err = mallow(f"embed {name}.jsonl -e letters:Lengths -o {name}.npz")
        assert (code, out) == (0, "")
        assert f"{name}.npz: 200 x 2, Lengths(test)" in err
    assert read(home / "human.npz").ids[:2] == ("0", "1")
    options = "--repeats 1 --format json"
    of_features = json.loads(mallow(f"score human.npz far.npz {options}")[1])
    of_texts = json.loads(mallow(f"score human.jsonl far.jsonl -e letters:Lengths {options}")[1])
    assert of_features.pop("caveats") != of_texts.pop("caveats")  # texts can be checked for more
    assert of_texts["signature"].pop("spaces") == "style"  # texts are looked at beside their features
    assert of_features["signature"].pop("spaces") == ""
    seen_more = {"reasons", "verdict", "certified", "certified_frontier", "evidence", "p_value", "shares"}
    for name in of_features.keys() - seen_more:  # the signature too: provenance names the embedder
        assert of_features[name] == of_texts[name]
    mallow("embed far.jsonl -e letters:letters -o other.npz")
    code, _, err = mallow("score human.npz other.npz")
    assert code == 1
    assert "Features of different embedders cannot be compared" in err


def test_a_second_run_embeds_nothing(mallow):
    for _ in range(2):
        mallow("embed human.jsonl -e letters:Lengths -o human.npz")
    assert sys.modules["letters"].Lengths.calls == [len(set(read("human.jsonl").texts))]


def test_the_cache_is_shown_pruned_and_cleared(mallow, monkeypatch):
    mallow("embed human.jsonl -e letters:Lengths -o human.npz")
    code, out, _ = mallow("cache")
    assert code == 0
    assert re.search(r"0\.0 MB +\d+ rows  used \d{4}-\d\d-\d\d  Lengths\(test\)", out)
    assert mallow("cache show")[1] == out
    assert mallow("cache prune --unused-days 30")[1] == "removed 0.0 MB\n"
    assert "Lengths" in mallow("cache")[1]
    assert mallow("cache clear")[0] == 0
    assert "Lengths" not in mallow("cache")[1]
    monkeypatch.setenv("MALLOW_CACHE", "off")
    assert mallow("cache")[::2] == (1, "mallow: There is no cache: MALLOW_CACHE is off.\n")


def test_the_cache_is_verified(mallow, home):
    mallow("embed human.jsonl -e letters:Lengths -o human.npz")
    code, out, _ = mallow("cache verify")
    assert code == 0
    assert re.fullmatch(r".*cache: 1 files, \d+ rows, 0\.0 MB: all intact\n", out)
    (file,) = (home.parent / "cache").glob("features/*/*.rows")
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    for command in ("cache verify", "cache verify --repair"):
        code, out, _ = mallow(command)
        assert code == 1
        assert re.search(r"\.rows: 1 of \d+ rows have another digest\n.*cache: 1 files, .* MB: 1 damaged\n", out)
    assert mallow("cache verify")[0] == 0


def test_a_damaged_cache_is_told_of_and_gives_the_same_features(mallow, home):
    for damage, told in ((None, 0), (-1, 1), (None, 0)):
        if damage is not None:
            (file,) = (home.parent / "cache").glob("features/*/*.rows")
            content = bytearray(file.read_bytes())
            content[damage] ^= 64
            file.write_bytes(content)
        code, _, err = mallow("embed human.jsonl -e letters:Lengths -o human.npz")
        assert code == 0
        assert (
            len(re.findall(r"mallow: warning: The cache file .*\.rows was damaged: a row has another digest\.", err))
            == told
        )
        assert read(home / "human.npz").features.tolist() == [
            [len(t), len(t.split())] for t in read("human.jsonl").texts
        ]


def test_a_folder_of_shards_goes_on_after_an_interruption(mallow, home):
    lines = (home / "human.jsonl").read_text().splitlines()
    (home / "in").mkdir()
    for number in range(2):
        (home / "in" / f"part-{number}.jsonl").write_text("\n".join(lines[100 * number : 100 * number + 100]))
    for rows in (75, 75):
        code, out, err = mallow(f"embed in -e letters:Lengths -o features --rows {rows}")
        assert (code, out) == (0, "")
        assert "features: 4 files, 200 x 2, Lengths(test)" in err
    assert sum(sys.modules["letters"].Lengths.calls) == 200
    assert read("features").require_features().tolist() == [[len(t), len(t.split())] for t in read("human.jsonl").texts]
    code, _, err = mallow("embed in -e minilm -E max_length=8 -o short")
    assert (code, "short: 2 files, 200 x 384, MiniLM" in err, "max_length=8" in err) == (0, True, True)
    with (home / "in" / "part-1.jsonl").open("a") as file:
        file.write('\n{"id": 1}')
    code, _, err = mallow("embed in -e letters:Lengths -o others-v1.2 --skip-bad")
    assert (code, err.count("1 bad entry skipped")) == (0, 1)


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ("embed human.jsonl -o x.npz --engine ray", 2, "are for folders; x.npz is a file. Pass --out FOLDER."),
        ("embed human.jsonl -o x.npz --rows 5", 2, "are for folders; x.npz is a file. Pass --out FOLDER."),
        (
            "embed human.jsonl -o out --gpus 1",
            2,
            "--workers and --gpus are options of an engine: pass --engine ray too.",
        ),
        ("embed human.jsonl -o out --limit 5", 2, "--limit is for a single file of features"),
        ("embed human.jsonl -o out --engine dask", 1, "--engine must be None, 'ray', the address of a cluster"),
        ("embed human.jsonl -o x.csv", 1, "x.csv: must end in .npz or .npz.gz, or be a folder;"),
    ],
)
def test_mistakes_about_folders_and_engines(refused, command, code, message):
    refused(command, code, message)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("embed human.jsonl -e letters:letters -o no/where.npz", "the folder no does not exist. Create it first."),
        ("embed points.npy -o x.npz", "points.npy: holds features already. There is nothing to embed."),
        ("embed human.jsonl -e ngram -o x.npz", "--embedder: ngram has no features for a single set"),
    ],
)
def test_mistakes_are_told_in_one_line(refused, command, message):
    refused(command, 1, message)
