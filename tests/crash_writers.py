"""The writers that `test_crashes.py` disturbs, and careless ones that it must find out. A new writer is a line in WRITERS.

python tests/crash_writers.py NAME FOLDER      prints the points, how many faults were tried, and what went wrong
"""
# ruff: noqa: T201

import dataclasses
import json
import os
import sys
import warnings
from pathlib import Path

import numpy as np

import mallow
from crash_database import careless_study_writer, study_writer
from crash_points import Writer, check_writer, reach
from mallow import Threads, cli, report
from mallow.baselines import Moments, load_statistics, save_statistics
from mallow.embed import Cache, embed_shards
from mallow.embed._cache import sample_key
from mallow.engine import Passes
from mallow.errors import EstimateWarning, InputError
from mallow.evaluate import Comparison, sweep
from mallow.generate import GenerationPlan, NGram, generate_file, prompts_of
from mallow.human import Vote, Votes, write_votes
from mallow.samples import Samples, read, write

TEXTS = [f"The {noun} sees the {other}." for noun in ("cat", "dog", "fox") for other in ("sun", "sea")]
MODULE = """
class Lengths:
    name = "Lengths(test)"

    def __call__(self, texts):
        return [[float(len(text)), float(text.count("a"))] for text in texts]
"""


class Lengths:
    """An embedder with a name, so that its rows are cached."""

    name = "Lengths(test)"

    def __call__(self, texts):
        return np.array([[len(text), text.count("a")] for text in texts], float)


# --- what is read afterwards


def content(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def samples_of(path: Path) -> object:
    """What `mallow.read` makes of a file, as a value that can be compared."""
    if not path.exists():
        return None
    samples = read(path)
    features = None if samples.features is None else samples.features.tolist()
    return samples.texts, features, samples.ids


def cached(folder: Path) -> dict[str, list[float]]:
    """The rows in the cache, each of which must be what was stored; what cannot be read ends the run."""
    cache = Cache(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows = cache.load("Lengths(test)", [sample_key(text) for text in TEXTS])
    if cache.verify().damaged:
        return {"damaged": []}
    return {text: rows[sample_key(text)].tolist() for text in TEXTS if sample_key(text) in rows}


UNWRITTEN = "The cache .* cannot be written"


def store(folder: Path, texts: list[str]) -> None:
    with warnings.catch_warnings():  # a cache that cannot be written is a warning; here it counts as a failure
        warnings.filterwarnings("error", UNWRITTEN, EstimateWarning)
        Cache(folder).store("Lengths(test)", [sample_key(text) for text in texts], Lengths()(texts))


# --- the cache


def damage(folder: Path) -> None:
    store(folder, TEXTS)
    (file,) = folder.glob("features/*/*.rows")
    file.write_bytes(file.read_bytes()[:-1] + b"\7")


def load_damaged(folder: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        Cache(folder).load("Lengths(test)", [sample_key(text) for text in TEXTS])


def intact_rows(folder: Path) -> list[str]:
    """The texts whose rows can be had: all but the damaged one, at any time."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = Cache(folder).load("Lengths(test)", [sample_key(text) for text in TEXTS])
    right = dict(zip(TEXTS, Lengths()(TEXTS).tolist(), strict=True))
    return [text for text in TEXTS if sample_key(text) in rows and rows[sample_key(text)].tolist() == right[text]]


# --- files of samples, features and results


def old_samples(name: str):
    return lambda folder: write(Samples(texts=TEXTS[:2], ids=["a", "b"]), folder / name)


def new_samples(name: str):
    return lambda folder: write(Samples(texts=TEXTS[2:], ids=list("cdef")), folder / name)


def old_features(name: str):
    return lambda folder: write(Samples(features=np.eye(3)), folder / name)


def new_features(name: str):
    return lambda folder: write(Samples(features=np.arange(5000.0).reshape(1000, 5)), folder / name)


def write_statistics(folder: Path, width: int) -> None:
    save_statistics(Moments.of(np.arange(2.0 * width).reshape(2, width)), str(folder / "deep" / "real.npz"))


def prepare_embed(folder: Path) -> None:
    (folder / "mine.py").write_text(MODULE)
    write(Samples(texts=TEXTS), folder / "texts.jsonl")
    write(Samples(features=np.eye(3)), folder / "out.npz")


def run_embed(folder: Path) -> None:
    os.chdir(folder)
    os.environ["MALLOW_CACHE"] = str(folder)
    sys.argv = ["mallow", "embed", "texts.jsonl", "-e", "mine:Lengths", "-o", "out.npz"]
    cli.main()


def prepare_shards(folder: Path) -> None:
    (folder / "in").mkdir()
    write(Samples(texts=TEXTS[:3]), folder / "in" / "part-0.jsonl")


def run_shards(folder: Path) -> None:
    embed_shards(folder / "in", folder / "out", embedder=Lengths(), rows=2)


def output_shards(folder: Path) -> dict[str, object]:
    """What is read of each output shard; those of a task that is done must be there."""
    out = folder / "out"
    for record in out.glob("_*.json"):
        if not all((out / name).exists() for name in json.loads(record.read_text())["names"]):
            return {"missing": record.name}
    return {path.name: samples_of(path) for path in sorted(out.glob("*.npz"))}


def prepare_report(folder: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        points = np.random.default_rng(0).normal(size=(40, 2))
        comparison = mallow.compare(points[:20], {"one": points[20:]}, repeats=1)
    (folder / "comparison.json").write_text(comparison.to_json())
    (folder / "report.html").write_text("old")


def run_report(folder: Path) -> None:
    comparison = Comparison.from_json((folder / "comparison.json").read_text())
    report.write(folder / "report.html", comparison)


# --- progress of a long work, votes


def run_passes(folder: Path) -> None:
    def add(state, task, result):
        state["sum"] = state["sum"] + result

    engine = Threads(1, checkpoint=str(folder / "kept"))
    for name, tasks in (("first", range(2)), ("second", range(3))):
        Passes(engine, "work").run(name, lambda task: task, tasks, {"sum": np.zeros(3)}, add)


def progress(folder: Path) -> dict[str, object]:
    """What a run that continues would begin with; a file that cannot be read ends the run."""
    done: dict[str, object] = {}
    for path in sorted((folder / "kept").rglob("*.npz")) if (folder / "kept").exists() else ():
        with np.load(path) as arrays:
            done[path.name] = int(arrays["done"]), arrays["sum"].tolist()
    return done


def votes_of(*names: str) -> Votes:
    return Votes(
        tuple(
            Vote(left=name, right="b", answer=-2, question="q", annotator="c", prompt="p", seconds=30.0)
            for name in names
        )
    )


# --- generated texts

PLAN = GenerationPlan(n=2, max_new=4)


def model() -> NGram:
    return NGram.fit(TEXTS, order=2)


def run_generate(folder: Path, *, overwrite: bool = False) -> None:
    ngram = model()
    prompts = prompts_of(TEXTS[:3], ngram, tokens=2)
    generate_file(ngram, prompts, "nucleus:0.9", folder / "out.jsonl", PLAN, batch=4, overwrite=overwrite)


def generated(folder: Path) -> object:
    return lines_of(folder / "out.jsonl")


def lines_of(path: Path) -> object:
    """The lines that `mallow.read` reads; a last line that is not complete must be refused, never read."""
    lines = (content(path) or b"").splitlines(keepends=True)
    try:
        texts = read(path).texts if lines else ()
    except InputError as error:
        torn = not lines[-1].endswith(b"\n") and f"out.jsonl:{len(lines)}: " in str(error)
        return ("refused", lines[:-1]) if torn else ("wrong refusal", str(error))
    return texts, lines


def is_beginning(before: object, after: object, seen: object) -> bool:
    """Whether what is seen are the first lines of what an undisturbed run writes."""
    whole = after[1]
    return seen[0] != "wrong refusal" and seen[1] == whole[: len(seen[1])]


def run_sweep(folder: Path) -> None:
    os.environ["MALLOW_CACHE"] = str(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", UNWRITTEN, EstimateWarning)
        sweep(
            TEXTS[:4],
            model(),
            ["greedy", "top-k:2"],
            folder / "sweep",
            GenerationPlan(max_new=4),
            tokens=2,
            embedder=Lengths(),
            repeats=1,
        )


def swept(folder: Path) -> object:
    files = {name: content(folder / "sweep" / f"{name}.jsonl") or b"" for name in ("greedy", "top-k-2")}
    whole = [
        json.loads(line) for text in files.values() for line in text.splitlines(keepends=True) if line.endswith(b"\n")
    ]
    return files, len(whole), cached(folder)


def is_beginning_of_sweep(before: object, after: object, seen: object) -> bool:
    texts = all(after[0][name].startswith(text) for name, text in seen[0].items())
    return texts and seen[2].items() <= after[2].items()


# --- writers that are wrong, to see that the checks notice


def write_in_place(folder: Path) -> None:
    with (folder / "out.txt").open("wb") as stream:
        for word in (b"new ", b"words"):
            stream.write(word)
            stream.flush()
        os.fsync(stream.fileno())


def write_without_sync(folder: Path) -> None:
    with (folder / ".out.tmp").open("wb") as stream:
        stream.write(b"new words")
    os.replace(folder / ".out.tmp", folder / "out.txt")
    handle = os.open(folder, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)


def write_without_sync_of_the_folder(folder: Path) -> None:
    try:
        with (folder / ".out.tmp").open("wb") as stream:
            stream.write(b"new words")
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(folder / ".out.tmp", folder / "out.txt")
    finally:
        (folder / ".out.tmp").unlink(missing_ok=True)


def write_and_leave_it(folder: Path) -> None:
    with (folder / ".out.tmp").open("wb") as stream:
        stream.write(b"new words")
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(folder / ".out.tmp", folder / "out.txt")
    handle = os.open(folder, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)


def write_in_two_steps(folder: Path) -> None:
    """As a database that says itself where its steps are, and forgets to make one of two."""
    reach("begin")
    (folder / "out.txt").write_bytes(b"half")
    reach("commit")
    (folder / "out.txt").write_bytes(b"whole")


def careless(function) -> Writer:
    return Writer(
        lambda folder: (folder / "out.txt").write_bytes(b"old"), function, lambda folder: content(folder / "out.txt")
    )


def writer_of_samples(name: str) -> Writer:
    return Writer(old_samples(name), new_samples(name), lambda folder: samples_of(folder / name))


def writer_of_features(name: str) -> Writer:
    return Writer(old_features(name), new_features(name), lambda folder: samples_of(folder / name))


WRITERS = {
    "cache": Writer(lambda folder: store(folder, TEXTS[:2]), lambda folder: store(folder, TEXTS[2:]), cached),
    "new cache": Writer(
        lambda folder: None,
        lambda folder: store(folder / "deep" / "er", TEXTS),
        lambda folder: cached(folder / "deep" / "er"),
    ),
    "repair of the cache": Writer(damage, load_damaged, intact_rows),
    "samples.jsonl": writer_of_samples("samples.jsonl"),
    "samples.csv.gz": writer_of_samples("samples.csv.gz"),
    "features.npz": writer_of_features("features.npz"),
    "features.npy": writer_of_features("features.npy"),
    "statistics": Writer(
        lambda folder: write_statistics(folder, 3),
        lambda folder: write_statistics(folder, 40),
        lambda folder: load_statistics(str(folder / "deep" / "real.npz")).mean.tolist(),
    ),
    "embed": Writer(prepare_embed, run_embed, lambda folder: samples_of(folder / "out.npz")),
    "embed shards": Writer(
        prepare_shards,
        run_shards,
        output_shards,
        lambda before, after, seen: seen.items() <= after.items(),
        resumes=True,
    ),
    "checkpoint": Writer(
        lambda folder: None,
        run_passes,
        progress,
        lambda before, after, seen: seen.items() <= after.items(),
        resumes=True,
    ),
    "votes": Writer(
        lambda folder: write_votes(folder / "votes.jsonl", votes_of("a")),
        lambda folder: write_votes(folder / "votes.jsonl", votes_of("x", "y")),
        lambda folder: content(folder / "votes.jsonl"),
    ),
    "report": Writer(prepare_report, run_report, lambda folder: content(folder / "report.html")),
    "generate": Writer(lambda folder: None, run_generate, generated, is_beginning, resumes=True),
    "generate again": Writer(
        run_generate, lambda folder: run_generate(folder, overwrite=True), generated, is_beginning, resumes=True
    ),
    "sweep": Writer(lambda folder: None, run_sweep, swept, is_beginning_of_sweep),
    "samples.parquet": writer_of_samples("samples.parquet"),
}
CARELESS = {
    "in place": careless(write_in_place),
    "without sync": careless(write_without_sync),
    "without sync of the folder": careless(write_without_sync_of_the_folder),
    "leaves its file": careless(write_and_leave_it),
    "two steps": careless(write_in_two_steps),
}
# Made in a folder, in which they find out what may be stored.
DATABASES = {"study": study_writer, "study without transactions": careless_study_writer}

if __name__ == "__main__":
    # Imported here, because it would be imported again in every process that is forked.
    import jinja2  # noqa: F401
    import pandas  # noqa: F401
    import platformdirs  # noqa: F401
    import pyarrow.parquet  # noqa: F401

    outcomes = {}
    known = WRITERS | CARELESS | DATABASES
    for name in sys.argv[2:] or known:
        home = Path(sys.argv[1], name)
        home.mkdir()
        writer = known[name]
        if name in DATABASES:
            (home / "states").mkdir()
            writer = writer(home / "states")
        outcomes[name] = dataclasses.asdict(check_writer(writer, home))
    print(json.dumps(outcomes))
