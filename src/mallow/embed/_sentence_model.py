"""Texts become features of a sentence-transformers model, with the pooling and scaling it was trained with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from mallow._checks import whole
from mallow._optional import optional
from mallow.embed._onnx import beginning
from mallow.embed._protocol import Points, Rows, checked_texts, collected
from mallow.errors import InputError
from mallow.models import Source, moved, ran_out_of_memory, within_memory

__all__ = ["SentenceModel"]

_WASTE = 0.25  # of padding in a batch: the lengths are estimates


@dataclass(frozen=True)
class SentenceModel:
    """Features of texts by a sentence-transformers model, in float32.

    Its own pooling, scaling and default prompt are used. Texts of like length share a batch, so that little is padded;
    what is padded is masked, and moves the features by rounding alone (below 1e-6 for all-MiniLM-L6-v2).

    Parameters
    ----------
    model : str
        A local folder, or a name on the hub such as ``sentence-transformers/all-MiniLM-L6-v2``.
    revision : str or None
        Branch, tag or commit on the hub; None is the newest. The commit found goes into the name.
    max_length : int or None
        Tokens; of a longer text the beginning is taken. None: the model's own length.
    device : str or None
        As torch names it; None takes CUDA, then MPS, then the CPU.
    batch_tokens : int
        Roughly how many tokens are run together.
    """

    kind: ClassVar[Literal["text"]] = "text"

    model: str
    revision: str | None = None
    max_length: int | None = None
    device: str | None = None
    batch_tokens: int = 16384

    def __post_init__(self) -> None:
        if self.max_length is not None:
            whole("max_length", self.max_length, least=1)
        whole("batch_tokens", self.batch_tokens, least=1)
        object.__setattr__(self, "model", self._source.model)
        if self._source.is_local:
            self._refuse_other_kinds()

    @cached_property
    def name(self) -> str:
        """Everything that the features depend on, in one line."""
        self._refuse_other_kinds()
        return f"SentenceModel({self._source.label}, max_length={self.max_length or 'own'}, float32)"

    def __call__(self, samples: Sequence[str], /) -> Points:
        """The features (n, d) of the texts, in their order."""
        return collected(self.stream(samples), len(samples))

    def stream(self, samples: Sequence[str], /) -> Iterator[Rows]:
        """Places among the texts with their features, long texts first; the model is loaded once."""
        texts = checked_texts(samples)
        model = self._loaded()
        length = model.max_seq_length
        texts = _beginnings(model, texts)

        def rows(places: NDArray[np.int64]) -> Points:
            some = [texts[place] for place in places]
            try:
                return np.asarray(model.encode(some, batch_size=len(some), show_progress_bar=False), dtype=np.float32)
            except (IndexError, RuntimeError) as error:
                if ran_out_of_memory(error):
                    raise
                raise InputError(
                    f"The model failed on texts of up to {length} tokens: {error}. If it takes fewer, lower `max_length`."
                ) from error

        # About four characters a token: only the size of a batch hangs on it.
        tokens = [min(len(text) // 4 + 2, length or len(text) + 2) for text in texts]
        yield from within_memory(tokens, self.batch_tokens, rows, waste=_WASTE)

    @cached_property
    def _source(self) -> Source:
        return Source(self.model, self.revision, device=self.device, extra="sentence")

    def _refuse_other_kinds(self) -> None:
        if self._source.sign is None:
            # sentence-transformers would load it, with a pooling that nobody chose.
            raise InputError(
                f"`model` must be a sentence-transformers model, which has a modules.json; {self.model!r} has none. "
                "LanguageModel takes other transformers models, with the pooling you choose."
            )

    def _loaded(self) -> Any:
        package = optional("sentence_transformers", extra="sentence")
        self._refuse_other_kinds()
        source = self._source
        revision = None if source.is_local else source.commit
        with source.reading("files"):
            model = package.SentenceTransformer(source.model, revision=revision, device="cpu")
        # Weights stored in half precision stay so by default, which a CPU may not know.
        model = moved(model.float(), source.where, source.model)
        if getattr(model.tokenizer, "pad_token", "") is None:
            raise InputError(
                f"`model` {self.model!r} has a tokenizer without a padding token, so texts cannot share a batch. Set "
                "tokenizer.pad_token, for example to its eos_token, and save the model."
            )
        if self.max_length is not None:
            model.max_seq_length = self.max_length
        return model


def _beginnings(model: Any, texts: list[str]) -> list[str]:
    """The texts, very long ones cut to what the model will look at, where its tokenizer can tell."""
    inner = getattr(model.tokenizer, "backend_tokenizer", None)
    length = model.max_seq_length
    if inner is None or length is None:
        return texts
    tokenizer = optional("tokenizers", extra="sentence").Tokenizer.from_str(inner.to_str())
    tokenizer.no_padding()
    tokenizer.enable_truncation(max(length, tokenizer.num_special_tokens_to_add(False) + 1))
    return [beginning(tokenizer, text, length) for text in texts]
