"""Tables in memory, by their columns."""

import pytest

from mallow import read


class Frame:
    """The part of a pandas or polars frame that is used."""

    def __init__(self, **columns):
        self.columns = list(columns)
        self._columns = columns

    def __getitem__(self, name):
        return self._columns[name]


class Dataset(Frame):
    """The part of a Hugging Face dataset that is used."""

    column_names = property(lambda self: self.columns)


@pytest.mark.parametrize("table", [Frame, Dataset])
def test_tables_by_their_columns(table, refused):
    samples = read(table(id=[1, 2], n=[0, 0], text=["a", "b"], prompt=["p", "q"]))
    assert (samples.texts, samples.ids, samples.prompts) == (("a", "b"), ("1", "2"), ("p", "q"))
    refused(table(body=["a"], n=[1]), f"{table.__name__}: no column 'text'; available columns: 'body', 'n'")
    refused(table(text=["a", float("nan")]), f"{table.__name__}[1]: the text is missing (null)")


def test_a_lazy_frame_is_not_collected_behind_the_back(refused):
    lazy = type("LazyFrame", (Frame,), {})(text=["a"])
    refused(lazy, "`source` must be a table in memory; got a LazyFrame. Call .collect() on it first.")


def test_a_frame_of_numbers_is_told_how_to_pass_features(refused):
    frame = type("DataFrame", (Frame,), {})(a=[1.0])
    refused(
        frame,
        "DataFrame: no column 'text'; available columns: 'a'. Choose one with `field`, or write FILE:FIELD for a single file. "
        "For features, pass the array that .to_numpy() returns.",
    )


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_frames_and_series(package, refused):
    library = pytest.importorskip(package, reason=f"{package} is not installed; stand-ins are tested above")
    frame = library.DataFrame({"id": [1, 2], "text": ["a", "b"], "gen": [["a", "b"], ["c", "d"]], "gap": ["a", None]})
    assert (read(frame).texts, read(frame).ids) == (("a", "b"), ("1", "2"))
    assert read(frame, field="gen").ids == ("1", "1", "2", "2")
    assert read(frame["text"]).texts == ("a", "b")
    refused(frame, "DataFrame[1]: the text is missing (null)", field="gap")
    refused(frame["gap"], "Series[1]: the text is missing (null)")
    refused(frame, "no column 'x'", field="x")
    refused(library.DataFrame({"a": [1.0]}), "For features, pass the array that .to_numpy() returns.")
    if package == "polars":
        refused(frame.lazy(), "must be a table in memory; got a LazyFrame. Call .collect() on it first.")


def test_arrow_tables():
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed; stand-ins are tested above")
    assert read(arrow.table({"text": ["a", "b"]})).texts == read(arrow.array(["a", "b"])).texts == ("a", "b")


def test_hugging_face_datasets(refused):
    library = pytest.importorskip("datasets", reason="datasets is not installed; stand-ins are tested above")
    data = library.Dataset.from_dict({"text": ["a", "b"], "id": [1, 2]})
    for source in (data, data.to_iterable_dataset()):
        assert (read(source).texts, read(source).ids) == (("a", "b"), ("1", "2"))
    assert read(data["text"]).texts == ("a", "b")
    refused(library.DatasetDict({"train": data}), "got DatasetDict. If it contains several sets, or several splits")
