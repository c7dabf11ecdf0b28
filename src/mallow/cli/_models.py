"""The language models that options name: to generate, to score texts, or to stand in for the human distribution."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import click

from mallow.cli._options import Decorator, bundle, option
from mallow.cli._printing import show

if TYPE_CHECKING:
    from mallow.generate import NextToken
    from mallow.samples import Samples


@dataclass(frozen=True)
class ModelChoice:
    """The language model that the options name."""

    name: str
    train: str | None
    device: str | None
    dtype: Literal["float32", "float16", "bfloat16"] | None
    option: str = "--train"  # for messages
    does: str = "continues"

    def __call__(self, texts: Samples) -> NextToken:
        """The model, loaded. An n-gram model is fitted to the training texts, by default to those that it continues."""
        from mallow.generate import CausalModel, NGram
        from mallow.samples import read

        word, _, order = self.name.partition(":")
        if word != "ngram":
            if self.train is not None:
                raise click.UsageError(f"{self.option} is for n-gram models; other models are already trained.")
            is_local = os.path.exists(os.path.expanduser(self.name))
            name, _, revision = (self.name, "", "") if is_local else self.name.partition("@")
            return CausalModel(name, revision or None, self.dtype, self.device).load()
        if order and not order.isdecimal():
            raise click.UsageError(f"--model ngram:ORDER takes a whole number; got {order!r}.")
        if self.train is None:
            show(
                "warning",
                f"the n-gram model is fitted to the very texts that it {self.does}. Fit it to others with "
                f"{self.option}.",
            )
        training = texts if self.train is None else read(self.train)
        return NGram.fit(training.require_texts(), order=int(order) if order else 5)


model_options = bundle(
    "model",
    ModelChoice,
    option(
        "--model",
        "-m",
        "model_name",
        required=True,
        metavar="NAME",
        help="A transformers model (NAME or NAME@REVISION), its folder or .gguf file, or ngram or ngram:ORDER, "
        "which is fitted when the command runs.",
    ),
    option("--train", metavar="FILE", help="Texts to fit the n-gram model to.  [default: the texts to continue]"),
    option("--device", metavar="NAME", help="The device, as torch names it.  [default: cuda, mps or cpu]"),
    option(
        "--dtype",
        type=click.Choice(["float32", "float16", "bfloat16"]),
        help="The precision of the weights.  [default: by device]",
    ),
)


def _other_model(argument: str, what: str) -> Decorator:
    """The options --NAME and --NAME-train of a second model, which may be left out."""

    def choose(name: str | None, train: str | None) -> ModelChoice | None:
        if name is None and train is not None:
            raise click.UsageError(f"--{argument}-train needs the model: pass its name, such as --{argument} ngram.")
        return None if name is None else ModelChoice(name, train, None, None, f"--{argument}-train", "scores")

    model_help = f"{what}: a language model, as for --model of `generate`."
    train_help = f"Texts to fit the {argument} to, if it is an n-gram model."
    return bundle(
        argument,
        choose,
        option(f"--{argument}", f"{argument}_name", metavar="NAME", help=model_help),
        option(f"--{argument}-train", f"{argument}_train", metavar="FILE", help=train_help),
    )


scorer_options = _other_model("scorer", "Scores texts by their perplexity (Gen. PPL)")
surrogate_options = _other_model("surrogate", "Stands for the human distribution")
