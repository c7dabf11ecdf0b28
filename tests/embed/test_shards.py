"""Many files become many files of features: each sample once, whatever the shards, and what is done stays done."""

import gzip
import hashlib
import io
import json
import tarfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from mallow import EstimateWarning, InputError, Samples, read, score
from mallow.embed import _onnx_text, embed_shards, minilm
from mallow.embed._shards import _labels


class Counting:
    """Two features of a text, and how often it was asked; it may fail on a word."""

    name, kind = "Counting()", "text"

    def __init__(self, fails_on: str | None = None) -> None:
        self.seen, self.fails_on = [], fails_on

    def __call__(self, texts):
        if any(self.fails_on and self.fails_on in text for text in texts):
            raise KeyboardInterrupt
        self.seen += texts
        return np.array([[len(text), text.count("a")] for text in texts], np.float32)


def write_shards(folder: Path, sizes: list[int], *, zipped: bool = False) -> list[str]:
    """Files of texts part-0, part-1, …; all texts."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = []
    for number, size in enumerate(sizes):
        own = [f"text {number} {place} " + "a" * (place % 7) for place in range(size)]
        lines = "".join(json.dumps({"id": f"{number}/{place}", "text": text}) + "\n" for place, text in enumerate(own))
        content = gzip.compress(lines.encode()) if zipped else lines.encode()
        (folder / f"part-{number}.jsonl{'.gz' if zipped else ''}").write_bytes(content)
        texts += own
    return texts


@settings(max_examples=15)
@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=4), rows=st.integers(1, 10), zipped=st.booleans())
def test_every_sample_is_embedded_once_in_its_place(tmp_path_factory, sizes, rows, zipped):
    home, embedder = tmp_path_factory.mktemp("shards"), Counting()
    texts = write_shards(home / "in", sizes, zipped=zipped)
    features = embed_shards(home / "in", home / "out", embedder=embedder, rows=rows)
    assert sorted(embedder.seen) == sorted(texts)
    assert np.array_equal(features.require_features(), Counting()(texts))
    again = read(str(home / "out"))
    assert np.array_equal(again.require_features(), Counting()(texts))
    assert (again.embedder, len(again)) == ("Counting()", sum(sizes))
    assert (
        embed_shards(home / "in", home / "out", embedder=embedder, rows=rows).shards.ids()[-1]
        == f"{len(sizes) - 1}/{sizes[-1] - 1}"
    )
    assert len(embedder.seen) == len(texts)  # nothing was embedded again


def test_a_shard_says_what_it_is_made_of(tmp_path):
    write_shards(tmp_path / "in", [5])
    embed_shards(tmp_path / "in", tmp_path / "out", embedder=Counting(), rows=3)
    second = read(tmp_path / "out" / "part-0-00001.npz")
    facts = second.provenance
    assert (facts["embedder"], facts["first"], facts["n"]) == ("Counting()", 3, 2)
    assert facts["source"] == str(tmp_path / "in" / "part-0.jsonl")
    assert facts["features"] == hashlib.sha256(second.features.tobytes()).hexdigest()
    assert len(facts["samples"]) == 64
    assert second.ids == ("0/3", "0/4")


def test_after_an_interruption_the_rest_is_embedded(tmp_path):
    texts = write_shards(tmp_path / "in", [7, 8])
    with pytest.raises(KeyboardInterrupt):
        embed_shards(tmp_path / "in", tmp_path / "out", embedder=Counting(fails_on="text 1 4"), rows=3)
    done = {path.name for path in (tmp_path / "out").glob("*.npz")}
    assert done == {"part-0-00000.npz", "part-0-00001.npz", "part-0-00002.npz", "part-1-00000.npz"}
    rest = Counting()
    embed_shards(tmp_path / "in", tmp_path / "out", embedder=rest, rows=3)
    assert rest.seen == texts[7 + 3 :]
    embed_shards(tmp_path / "in", tmp_path / "once", embedder=Counting(), rows=3)
    for path in (tmp_path / "once").glob("*.npz"):
        assert path.read_bytes() == (tmp_path / "out" / path.name).read_bytes()


def test_an_output_shard_is_replaced_only_where_it_is_damaged(tmp_path):
    write_shards(tmp_path / "in", [4])
    embed_shards(tmp_path / "in", tmp_path / "out", embedder=Counting())
    (shard,) = (tmp_path / "out").glob("*.npz")
    content = shard.read_bytes()
    (tmp_path / "out" / "_part-0.0-of-1.json").unlink()
    shard.write_bytes(content[: len(content) // 2])
    embed_shards(tmp_path / "in", tmp_path / "out", embedder=Counting())
    assert shard.read_bytes() == content
    other = Counting()
    other.name = "Other()"
    with pytest.raises(
        InputError, match=r"part-0-00000\.npz: holds features by another embedder\. Remove it, or write to"
    ):
        embed_shards(tmp_path / "in", tmp_path / "out", embedder=other)
    (tmp_path / "in" / "part-0.jsonl").write_text('{"id": "x", "text": "another"}')
    with pytest.raises(
        InputError, match=r"part-0-00000\.npz: holds features of other samples\. Remove it, or write to"
    ):
        embed_shards(tmp_path / "in", tmp_path / "out", embedder=Counting())
    assert shard.read_bytes() == content


def test_what_was_removed_or_read_otherwise_is_embedded_again(tmp_path):
    write_shards(tmp_path / "in", [4, 4])
    embed_shards(tmp_path / "in", tmp_path / "out", embedder=Counting(), rows=2)
    (tmp_path / "out" / "part-1-00001.npz").unlink()
    again = Counting()
    assert len(embed_shards(tmp_path / "in", tmp_path / "out", embedder=again, rows=2)) == 8
    assert again.seen == ["text 1 2 aa", "text 1 3 aaa"]
    with pytest.raises(InputError, match=r"part-0-00000\.npz: holds features of other samples"):
        embed_shards(tmp_path / "in", tmp_path / "out", embedder=Counting(), rows=2, field="id")


def test_pictures_that_exchange_their_names_are_not_taken_for_the_same(tmp_path):
    (tmp_path / "in").mkdir()
    for name, colour in (("a", "red"), ("b", "blue")):
        Image.new("RGB", (4, 4), colour).save(tmp_path / "in" / f"{name}.bmp")

    def colours(paths):
        return np.array([Image.open(path).getpixel((0, 0)) for path in paths], np.float32)

    first = embed_shards(tmp_path / "in", tmp_path / "out", embedder=colours)
    assert len(first) == 2
    (tmp_path / "in" / "a.bmp").rename(tmp_path / "in" / "c")
    (tmp_path / "in" / "b.bmp").rename(tmp_path / "in" / "a.bmp")
    (tmp_path / "in" / "c").rename(tmp_path / "in" / "b.bmp")
    with pytest.raises(InputError, match=r"in-00000\.npz: holds features of other samples"):
        embed_shards(tmp_path / "in", tmp_path / "out", embedder=colours)


def test_a_bad_shard_is_named_and_all_others_are_embedded(tmp_path):
    write_shards(tmp_path / "in", [4, 4, 4], zipped=True)
    bad = tmp_path / "in" / "part-1.jsonl.gz"
    content = bad.read_bytes()
    bad.write_bytes(content[:-12])
    message = r"in: 1 of 3 shards could not be embedded\. .*part-1\.jsonl\.gz: cannot be read to the end: .*Is the file complete\? 2 output shards are in .*out: the same call goes on from there\."
    with pytest.raises(InputError, match=message):
        embed_shards(tmp_path / "in", tmp_path / "out", embedder=Counting())
    bad.write_bytes(content)
    repaired = Counting()
    assert len(embed_shards(tmp_path / "in", tmp_path / "out", embedder=repaired)) == 12
    assert len(repaired.seen) == 4


def test_bad_entries_are_refused_or_skipped_and_listed(tmp_path):
    write_shards(tmp_path / "in", [4])
    with (tmp_path / "in" / "part-0.jsonl").open("a") as file:
        file.write('{"id": "x", "text": ""}\n')
    with pytest.raises(InputError, match=r"part-0\.jsonl:5: empty text"):
        embed_shards(tmp_path / "in", tmp_path / "out", embedder=Counting(), rows=2)
    features = embed_shards(tmp_path / "in", tmp_path / "out", embedder=Counting(), rows=2, skip_bad=True)
    assert len(features) == 4
    assert [entry.rpartition("/")[2] for entry in features.skipped] == ["part-0.jsonl:5: empty text"]


# --- images


def colours(paths):
    """The mean colour of each image."""
    return np.array([np.asarray(Image.open(path).convert("RGB"), np.float32).mean(axis=(0, 1)) for path in paths])


def picture(seed: int) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, (6, 5, 3), np.uint8)
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, "PNG")
    return content.getvalue()


def write_archive(path: Path, files: dict[str, bytes]) -> None:
    with tarfile.open(path, "w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))


def test_archives_of_images_give_the_features_of_the_images(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "images").mkdir()
    for number in range(2):
        files = {f"{number}-{place}.png": picture(10 * number + place) for place in range(3)}
        for name, content in files.items():
            (tmp_path / "images" / name).write_bytes(content)
        captions = {name.replace("png", "txt"): b"a caption" for name in files}
        write_archive(tmp_path / "in" / f"shard-{number}.tar", dict(sorted((files | captions).items())))
    features = embed_shards(str(tmp_path / "in" / "*.tar"), tmp_path / "out", embedder=colours, rows=2)
    plain = embed_shards(tmp_path / "images", tmp_path / "plain", embedder=colours, rows=4)
    assert np.array_equal(features.require_features(), plain.require_features())
    assert (
        features.shards.ids() == plain.shards.ids() == tuple(f"{n}-{place}.png" for n in range(2) for place in range(3))
    )


def test_a_name_in_an_archive_leads_nowhere(tmp_path):
    (tmp_path / "in").mkdir()
    above = "../" * 20 + str(tmp_path).lstrip("/")
    files = {f"{tmp_path}/absolute.png": picture(0), f"{above}/escaped.png": picture(1)}
    write_archive(tmp_path / "in" / "shard-0.tar", files)
    assert len(embed_shards(tmp_path / "in" / "shard-0.tar", tmp_path / "out", embedder=colours)) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]


def test_archives_that_cannot_be_used_are_named(tmp_path):
    whole = tmp_path / "whole.tar"
    write_archive(whole, {"a.png": picture(0), "b.png": picture(1), "c.png": b"not an image"})
    with pytest.raises(InputError, match=r"whole\.tar: c\.png: cannot be opened as an image"):
        embed_shards(whole, tmp_path / "out", embedder=colours)
    kept = embed_shards(whole, tmp_path / "kept", embedder=colours, skip_bad=True)
    assert (len(kept), len(kept.skipped)) == (2, 1)
    cut = tmp_path / "cut.tar"
    cut.write_bytes(whole.read_bytes()[:600])
    with pytest.raises(
        InputError, match=r"cut\.tar: the archive cannot be read to the end: .* Is it complete\? Write it"
    ):
        embed_shards(cut, tmp_path / "out", embedder=colours)
    write_archive(whole, {"a.png": picture(0), "b.png": picture(1)})
    content = whole.read_bytes()
    for name, bad, reason in [
        ("header-0.tar", content[:1034] + b"x" + content[1035:], "bad checksum, at byte 1024"),
        ("short-0.tar", content[:2048], "empty header, at byte 2048"),
        ("joined-0.tar", content + content, "more follows its end mark, as after joining two archives"),
    ]:
        (tmp_path / name).write_bytes(bad)
        with pytest.raises(InputError, match=rf"{name}: the archive cannot be read to the end: {reason}"):
            embed_shards(tmp_path / name, tmp_path / "damaged", embedder=colours)
    write_archive(tmp_path / "texts.tar", {"a.txt": b"a"})
    with pytest.raises(InputError, match=r"texts\.tar: the archive must contain images \(.*\), but it has none"):
        embed_shards(tmp_path / "texts.tar", tmp_path / "out", embedder=colours)
    write_archive(tmp_path / "bad.tar", {"a.png": b"a"})
    with pytest.raises(InputError, match=r"bad\.tar: contains no valid samples \(bad entries skipped: 1\)"):
        embed_shards(tmp_path / "bad.tar", tmp_path / "out", embedder=colours, skip_bad=True)


# --- the model, names, and what is refused


def test_the_model_is_loaded_once(tmp_path, monkeypatch):
    loaded = []
    make = _onnx_text._Encoder.__init__
    monkeypatch.setattr(
        _onnx_text._Encoder, "__init__", lambda self, options: (loaded.append(1), make(self, options))[0] and None
    )
    texts = write_shards(tmp_path / "in", [5, 5])
    features = embed_shards(tmp_path / "in", tmp_path / "out", rows=2)
    assert len(loaded) == 1
    assert np.array_equal(features.require_features(), minilm()(texts))
    assert len(loaded) == 2  # and not kept afterwards


def test_names_of_output_shards_tell_inputs_apart():
    assert _labels(["/a/b/part-0.jsonl", "/a/b/part-1.jsonl.gz"]) == ["part-0", "part-1"]
    assert _labels(["/a/x/part-0.jsonl", "/a/y/part-0.jsonl"]) == ["x-part-0", "y-part-0"]
    assert _labels(["s3://bucket/x/0.tar"]) == ["0"]
    assert _labels(["s3://one/x/0.tar", "s3://one/y z/0.tar"]) == ["x-0", "y-z-0"]
    assert _labels(["part-0.jsonl"]) == ["part-0"]
    with pytest.raises(InputError, match=r"two shards would give output shards of one name, part-0\. Embed them into"):
        _labels(["/a/part-0.jsonl", "/a/part-0.jsonl.gz"])


def test_mistakes_are_told_before_the_work_begins(tmp_path):
    write_shards(tmp_path / "in", [2])
    np.save(tmp_path / "points.npy", np.eye(3))
    for source, options, message in [
        (
            "in",
            {"embedder": "ngram"},
            r"`embedder` must embed each sample by itself; .* embeds all at once\. Use another",
        ),
        ("in", {"embedder": "inception"}, r"must embed text samples"),
        ("in", {"rows": 0}, r"`rows` must be an integer of at least 1; got 0"),
        ("in/none-*.jsonl", {}, r"none-\*\.jsonl: matches no file\. Shards end in"),
        ("points.npy", {}, r"points\.npy: holds features already\. There is nothing to embed"),
    ]:
        with pytest.raises(InputError, match=message):
            embed_shards(tmp_path / source, tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def write_answers(path: Path, prompts: list[str]) -> None:
    rows = ({"prompt": prompt, "text": f"answer {place} " + "a" * place} for place, prompt in enumerate(prompts))
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_prompts_tell_which_rows_of_shards_belong_together_as_in_memory(tmp_path):
    prompts = [f"question {place // 4}" for place in range(40)]
    write_answers(tmp_path / "in" / "answers-0.jsonl", prompts)
    shards = embed_shards(tmp_path / "in", tmp_path / "out", embedder=Counting(), rows=7)
    assert (shards.shards.ids(), shards.unit_kind) == (tuple(prompts), "prompt")
    in_memory = read(tmp_path / "in" / "answers-0.jsonl").with_features(shards.require_features(), provenance={})
    assert in_memory.unit_names == shards.shards.ids()
    rng = np.random.default_rng(0)
    other = Samples(features=rng.normal((10, 5), size=(40, 2)), prompts=prompts)
    with pytest.warns(EstimateWarning):
        units = [score(side, other, repeats=1).signature.units for side in (shards, in_memory)]
    assert units == [f"10 {noun} with 40 samples each side" for noun in ("units", "prompts")]


def test_one_prompt_for_all_rows_of_shards_tells_nothing_apart(tmp_path):
    write_answers(tmp_path / "in" / "answers-0.jsonl", ["Write a story."] * 12)
    shards = embed_shards(tmp_path / "in", tmp_path / "out", embedder=Counting(), rows=5)
    assert (shards.shards.ids(), shards.unit_kind) == (None, None)
    write_answers(tmp_path / "in" / "answers-1.jsonl", ["Write a poem."] * 3)
    both = embed_shards(tmp_path / "in", tmp_path / "out", embedder=Counting(), rows=5)
    assert both.shards.ids() == ("Write a story.",) * 12 + ("Write a poem.",) * 3
