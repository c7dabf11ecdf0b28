"""mallow as a module of Hugging Face evaluate.

    module = evaluate.load("examples/evaluate_module/mallow")
    module.compute(predictions=model_texts, references=human_texts)

`predictions` are the model's samples (Q), `references` the real data (P). evaluate wants as many of the one as of the other; they
need not be pairs.
"""

import datasets

import evaluate
import mallow

_TEXT = {"predictions": datasets.Value("string"), "references": datasets.Value("string")}
_ROWS = {name: datasets.Sequence(datasets.Value("float32")) for name in _TEXT}


class Mallow(evaluate.Metric):
    """The gap between generated and real samples: MAUVE (1 = indistinguishable), and what is certain about it."""

    def _info(self):
        return evaluate.MetricInfo(
            description="How far a generative model's samples are from real data.",
            citation="Pillutla et al., MAUVE Scores for Generative Models: Theory and Practice. JMLR 24, 2023.",
            inputs_description="predictions: samples of the model; references: real data; texts, or rows of features.",
            features=[datasets.Features(_TEXT), datasets.Features(_ROWS)],
        )

    def _compute(self, predictions, references, **options):
        # P is the reference and Q the model, whatever the order of the arguments.
        score = mallow.score(reference=list(references), model=list(predictions), **options)
        low, high = score.interval["mauve"]
        return {
            "mauve": score.mauve,
            "mauve_low": low,
            "mauve_high": high,
            "certified_at_most": score.certified["mauve"].high,
            "p_value": score.p_value,
            "self_score": score.self_score["mauve"],
            "verdict": score.verdict,
            "signature": str(score.signature),
        }
