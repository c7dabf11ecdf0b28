"""Features: arrays, .npy and .npz files."""

import json
import warnings
import zipfile

import numpy as np
import pytest

from mallow import InputError, Samples, read


def test_a_file_that_changes_later_changes_no_sample(tmp_path):
    np.save(tmp_path / "a.npy", np.eye(5))
    samples = read(tmp_path / "a.npy", limit=3).features
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r+")
    mapped[:] = 7
    mapped.flush()
    assert np.array_equal(samples, np.eye(5)[:3])
    (tmp_path / "a.npy").write_bytes(b"")  # a mapped array would end the process here (SIGBUS)
    assert samples.sum() == 3


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path, refused, monkeypatch):
    path = tmp_path / "a.npy"
    np.save(path, np.eye(5))

    def load_slowly(file, **options):
        rows = load(file, **options)
        np.save(path, np.zeros((5, 5)))
        return rows

    load = np.load
    monkeypatch.setattr(np, "load", load_slowly)
    refused(path, "a.npy: was changed while it was read. Do not write to it meanwhile; start again.")


def test_a_file_larger_than_the_memory_is_read_chunk_by_chunk(tmp_path, monkeypatch):
    path = tmp_path / "a.npy"
    np.save(path, np.arange(40.0).reshape(10, 4))
    monkeypatch.setenv("MALLOW_MEMORY", "400")
    samples = read(path)
    assert (samples.features, len(samples), samples.source) == (None, 10, str(path))
    np.save(path, np.zeros((10, 4)))
    with pytest.raises(
        InputError, match=r"the shard has changed since it was described: it was written again\. Do not"
    ):
        samples.load()


@pytest.mark.parametrize("entry", [float("nan"), None, True])
@pytest.mark.parametrize("label", ["ids", "prompts"])
def test_labels_of_an_npz_file_are_there_for_every_row(tmp_path, refused, label, entry):
    listed = json.dumps(["a", entry])
    np.savez(tmp_path / "a.npz", x=np.eye(2), **{label: listed})
    refused(tmp_path / "a.npz", f"a.npz: `{label}` must be texts or numbers; got {entry} in row 1.")


def test_ids_that_are_not_numbers_are_not_one_unit(tmp_path, refused):
    np.savez(tmp_path / "a.npz", x=np.eye(3), ids=np.array([1, np.nan, np.nan], np.float32))
    refused(tmp_path / "a.npz", "`ids` must be texts or numbers; got nan in row 1.")
    for ids in ([1, np.float32("nan")], [True, False]):
        with pytest.raises(InputError, match="`ids` must"):
            Samples(features=np.eye(2), ids=ids)


@pytest.mark.parametrize("second", ["features.npy", "features"])
def test_two_arrays_of_one_name_are_refused(tmp_path, refused, second):
    path = tmp_path / "a.npz"
    np.savez(path, features=np.eye(2))
    content = zipfile.ZipFile(path).read("features.npy")
    with zipfile.ZipFile(path, "a") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of zipfile: a name occurs twice
        archive.writestr(second, content)
    refused(path, "a.npz: not a readable npy or npz file: two of its members are called 'features'")
    with pytest.raises(InputError, match=r"a\.npz: not a readable shard: two of its members are called 'features'"):
        read(tmp_path / "*.npz")


def test_arrays_of_an_npz_file_are_chosen_by_name(tmp_path, refused):
    np.savez(tmp_path / "one.npz", x=np.eye(2), ids=[3, 4])
    np.savez(tmp_path / "two.npz", x=np.eye(2), y=np.eye(3))
    np.savez(tmp_path / "both.npz", x=np.eye(2), features=np.eye(3))
    np.savez(tmp_path / "ids.npz", x=np.eye(2), ids=["a"])
    np.savez(tmp_path / "made.npz", x=np.eye(2), provenance="[1]")
    np.savez(tmp_path / "torn.npz", x=np.eye(2), provenance="{")
    assert read(tmp_path / "one.npz").ids == ("3", "4")
    assert len(read(tmp_path / "two.npz", field="y")) == len(read(tmp_path / "both.npz")) == 3
    refused(
        tmp_path / "two.npz",
        "two.npz: no array 'features'; available arrays: 'x', 'y'. Choose one with `field`.",
    )
    refused(tmp_path / "both.npz", "no array 'z'", field="z")
    refused(tmp_path / "ids.npz", "`ids` must have one entry for each of the 2 rows; got shape (1,)")
    refused(tmp_path / "made.npz", "`provenance` must be a JSON object as text; got '[1]'")
    refused(tmp_path / "torn.npz", "`provenance` must be a JSON object as text; got '{': Expecting property name")


def test_labels_of_an_npz_file(tmp_path, refused):
    path = tmp_path / "a.npz"
    np.savez(path, x=np.eye(2), ids=[3, 4], prompts=["p", "q"])
    assert (read(path).ids, read(path).prompts) == (("3", "4"), ("p", "q"))
    np.savez(path, x=np.eye(2), prompts='["p", "q"]')
    assert read(path).prompts == ("p", "q")
    assert len(read(path, limit=1).prompts) == 1
    np.savez(path, prompts=np.eye(2))
    assert np.array_equal(read(path, field="prompts").features, np.eye(2))
    np.savez(path, x=np.eye(2), prompts='["p"]')
    refused(path, "`prompts` must have one entry for each of the 2 rows; got shape (1,).")
    np.savez(path, x=np.eye(2), prompts=np.eye(2))
    refused(path, "`prompts` must have one entry for each of the 2 rows; got shape (2, 2).")
    np.savez(path, x=np.eye(1), ids="a")
    refused(path, "a.npz: `ids` must be an array of strings, or a JSON list as text; got 'a': Expecting value")
    np.savez(path, x=3.0, ids=["a"])
    refused(path, "a.npz: features must have shape (n, d), one row per sample; got shape ().")


def test_an_array_with_one_axis_is_samples_of_one_feature(tmp_path):
    values = np.arange(3.0)
    np.save(tmp_path / "a.npy", values)
    np.savez(tmp_path / "a.npz", features=values, ids=list("abc"))
    for source in (values, tmp_path / "a.npy", tmp_path / "a.npz"):
        samples = read(source)
        assert (len(samples), samples.features.tolist()) == (3, [[0.0], [1.0], [2.0]])


def test_pickles_are_never_loaded(tmp_path, refused):
    np.save(tmp_path / "a.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "a.npz", features=np.array([{"a": 1}], dtype=object))
    refused(
        tmp_path / "a.npy",
        "it contains something other than plain arrays. Write it again with np.save or np.savez; pickles are never loaded.",
    )
    refused(tmp_path / "a.npz", "it contains something other than plain arrays")


@pytest.mark.parametrize("chunk", [1, 6, 1 << 22])
def test_rows_that_are_not_finite(chunk, tmp_path, monkeypatch, refused):
    monkeypatch.setattr("mallow.samples._value_checks._CHUNK", chunk)
    features = np.arange(15.0).reshape(5, 3)
    features[1, 2], features[3, 0] = np.nan, -np.inf
    np.savez(tmp_path / "a.npz", features=features, ids=list("abcde"))
    path = tmp_path / "a.npz"
    refused(path, f"{path}[1]: features must be finite; got nan in column 2")
    assert len(read(path, limit=1)) == 1
    samples = read(path, skip_bad=True)
    assert np.array_equal(samples.features, features[[0, 2, 4]])
    assert (samples.ids, len(samples.skipped)) == (("a", "c", "e"), 2)
    few = read(path, skip_bad=True, limit=2)
    assert (few.ids, len(few.skipped)) == (("a", "c"), 1)
    refused(
        np.full((2, 2), np.nan),
        "ndarray: contains no valid samples (bad entries skipped: 2). The first: ndarray[0]: features must be finite",
        skip_bad=True,
    )


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (np.float64(3), "float64: features must have shape (n, d), one row per sample; got shape ()."),
        (np.zeros((2, 3, 4)), "ndarray: features must have shape (n, d), one row per sample; got shape (2, 3, 4)."),
        (np.zeros((0, 3)), "features must have at least one row and one column; got shape (0, 3)"),
        (np.zeros((2, 2), complex), "features must be real numbers; got dtype complex128"),
        ([[1.0, 2.0], [3.0]], "list: features must have rows of equal length"),
        (
            [1, 2],
            "list: must contain texts, paths to images or recordings, or rows of features; got numbers such as 1. "
            "For samples of one feature, pass a numpy array.",
        ),
    ],
)
def test_bad_features(source, message, refused):
    refused(source, message)


@pytest.mark.parametrize("chunk", [2, 1 << 22])
def test_a_limit_counts_prompts_of_an_npz_file(chunk, tmp_path, monkeypatch, refused):
    monkeypatch.setattr("mallow.samples._value_checks._CHUNK", chunk)
    path, features = tmp_path / "a.npz", np.arange(12.0).reshape(6, 2)
    np.savez(path, features=features, ids=list("abcabc"))
    for limit, rows in ((1, [0, 3]), (2, [0, 1, 3, 4]), (3, range(6)), (9, range(6))):
        samples = read(path, limit=limit)
        assert np.array_equal(samples.features, features[rows])
        assert samples.ids == tuple("abcabc"[row] for row in rows)
    np.savez(path, features=features, prompts=list("pppppp"))
    assert np.array_equal(read(path, limit=4).features, features[:4])  # one prompt for all: rows are counted
    features[5] = np.nan
    np.savez(path, features=features, ids=list("aabbcc"))
    assert read(path, limit=2).ids == tuple("aabb")
    refused(path, "a.npz[5]: features must be finite; got nan in column 0", limit=4)
    np.savez(path, features=features, ids=list("aabbcd"))
    assert read(path, limit=3).ids == tuple("aabbc")
    assert len(read(path, limit=4, skip_bad=True).skipped) == 1


def test_tensors_with_gradients_and_of_half_precision_are_samples():
    torch = pytest.importorskip("torch")
    rows = torch.arange(6.0).reshape(3, 2).requires_grad_()
    for source in (rows, list(rows), rows.bfloat16(), rows.half()):
        assert (np.asarray(read(source).features, float) == [[0, 1], [2, 3], [4, 5]]).all()
    assert (Samples(features=rows).features == rows.detach().numpy()).all()
