"""The adversary that aims at the model which measures perplexity (paper: tab:mauve:expt:webtext-full).

    python experiments/family/adversary.py       minutes, after train.py

Stories. The largest model of the family generates and judges: its adversary writes gibberish whose perplexity under this very model is that of people. Beside it are ancestral and
nucleus sampling of the same model. Writes adversary.json, adversary.md and adversary.png beside this file.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from claims import Claim, above, claims_table, evidence, grid, pair_text, published, verdict, write
from measured import EMBEDDER, SCORED, features, generation_perplexity
from pictures import Panel, draw
from settings import available
from systems import System, generations, human, human_perplexity, human_tokens, tokens_of

import mallow
from mallow import Samples

HERE = Path(__file__).resolve().parent
LABEL = "tab:mauve:expt:webtext-full"
N = 500  # texts per system
DECODERS = ("adversarial", "nucleus:0.95", "ancestral")


def main() -> None:
    warnings.simplefilter("ignore")
    domain = available("books")
    size = domain.sizes[-1]
    systems = {decoder: System(size, decoder) for decoder in DECODERS}
    points = {decoder: features(domain, generations(domain, system, count=N)) for decoder, system in systems.items()}
    reference = human(domain, count=N)
    scores = mallow.compare(
        Samples(features=features(domain, reference), ids=reference.ids),
        {decoder: Samples(features=y, ids=reference.ids) for decoder, y in points.items()},
    )
    perplexity = {
        decoder: generation_perplexity(domain, tokens_of(domain, one, count=N)) for decoder, one in systems.items()
    }
    people, people_error = generation_perplexity(domain, human_tokens(domain))
    off = {decoder: abs(value - people) for decoder, (value, _) in perplexity.items()}
    claims = []
    for other, name in (("nucleus:0.95", "nucleus 0.95"), ("ancestral", "ancestral")):
        noise = float(np.hypot(perplexity["adversarial"][1], perplexity[other][1]))
        said = {"measure": verdict(off[other] - off["adversarial"], noise)} | above(scores, "adversarial", other)
        detail = f"{off['adversarial']:.1f} and {off[other]:.1f} from {people:.1f}"
        text = f"perplexity falls for the adversary: nearer to human text than {name}, {size}"
        claims.append(Claim(LABEL, text, said, detail))
    text = f"adversarial text is rated poorly: below ancestral, {size}"
    claims.append(
        Claim(LABEL, text, above(scores, "ancestral", "adversarial"), pair_text(scores, "ancestral", "adversarial"))
    )
    page = f"Stories, the {size} model generates and measures perplexity; n = {N:,} per side, {EMBEDDER}: `python experiments/family/adversary.py`. The adversary aims at {human_perplexity(domain, size):.1f}, the perplexity of "
    page += f"100 texts by people under this model. Perplexity is of {SCORED} texts, ± standard error. In rows about perplexity, columns MAUVE* and held-out say whether the adversary is nearer to people by these.\n\n"
    mauve, certified = published(scores), evidence(scores)
    rows = [["people", f"{people:.1f} ± {people_error:.1f}", "", "", ""]]
    for decoder, (value, error) in perplexity.items():
        rows.append(
            [
                decoder,
                f"{value:.1f} ± {error:.1f}",
                f"{mauve[decoder][0]:.3f} ± {mauve[decoder][1]:.3f}",
                certified[decoder][0],
                scores.scores[decoder].certified["mauve"].high,
            ]
        )
    page += grid(["texts", "perplexity", "MAUVE*", "certified area", "certified, at most"], rows) + "\n"
    values = {
        decoder: {"perplexity": perplexity[decoder], "MAUVE*": mauve[decoder], "certified": certified[decoder]}
        for decoder in DECODERS
    }
    content = {"n": N, "people": [people, people_error], "values": values, "claims": claims}
    write(__file__, "adversary", content, page + claims_table(claims))
    at = range(len(DECODERS))
    panels = [
        Panel(
            f"perplexity under the {size} model",
            "",
            {"± standard error": (at, *zip(*perplexity.values(), strict=True))},
            level={"people": people},
            ticks=DECODERS,
        ),
        Panel(
            "MAUVE* and the certified area",
            "",
            {
                name: (at, *zip(*(one[decoder] for decoder in DECODERS), strict=True))
                for name, one in (("MAUVE*", mauve), ("certified", certified))
            },
            ticks=DECODERS,
        ),
    ]
    draw(HERE / "adversary.png", panels)


if __name__ == "__main__":
    main()
