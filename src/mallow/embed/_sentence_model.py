"""Texts through a sentence-transformers model, with the pooling and scaling it was trained with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from mallow._checks import whole
from mallow._optional import optional, require_all
from mallow.embed._onnx_text import encode_leading_part
from mallow.embed._protocol import Points, Rows, StreamsFeatures, checked_texts
from mallow.errors import InputError
from mallow.models import (
    Source,
    fast_products,
    kept_model,
    move_network,
    ran_out_of_memory,
    refuse_foreign_modules,
    within_memory,
)

_WASTE = 0.25  # largest share of padding in a batch; chosen: the lengths are only estimates
_CHARACTERS_PER_TOKEN = 4  # chosen: a usual value for English; only the size of a batch depends on it


@dataclass(frozen=True)
class SentenceModel(StreamsFeatures):
    """Features of texts from a sentence-transformers model, in float32.

    Its own pooling, scaling and default prompt are used. Texts of similar length share a batch, so that there is little
    padding. The padding is masked and changes the features only by rounding (below 1e-6 for all-MiniLM-L6-v2).

    Parameters
    ----------
    model : str
        A local folder, or a name on the hub such as ``sentence-transformers/all-MiniLM-L6-v2``.
    revision : str or None
        Branch, tag or commit on the hub; None is the newest. The commit that it resolves to is part of the name.
    max_length : int or None
        Number of tokens; longer texts are truncated. None: the model's own length.
    device : str or None
        A device name of torch; None takes CUDA if available, then MPS, then the CPU.
    batch_tokens : int
        Approximate number of tokens in a batch.
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

    @property
    def name(self) -> str:
        """Everything that the features depend on, in one line."""
        self._refuse_other_kinds()
        return f"SentenceModel({self._source.label}, max_length={self.max_length or 'own'}, float32)"

    def stream(self, samples: Sequence[str], /) -> Iterator[Rows]:
        """Places among the texts with their features, long texts first. The model is loaded once."""
        texts = checked_texts(samples)
        model = kept_model(lambda: f"{self!r} {self.name}", self._load)
        length = model.max_seq_length
        texts = _leading_parts(model, texts)

        def embed_batch(places: NDArray[np.int64]) -> Points:
            batch = [texts[place] for place in places]
            try:
                with fast_products(optional("torch", extra="sentence"), str(model.device)):
                    rows = model.encode(batch, batch_size=len(batch), show_progress_bar=False)
                return np.asarray(rows, dtype=np.float32)
            except (IndexError, RuntimeError) as error:
                if ran_out_of_memory(error):
                    raise
                raise InputError(
                    f"The model failed on texts of up to {length} tokens: {error}. If it takes fewer tokens, lower "
                    "`max_length`."
                ) from error

        tokens = [min(len(text) // _CHARACTERS_PER_TOKEN + 2, length or len(text) + 2) for text in texts]
        yield from within_memory(tokens, self.batch_tokens, embed_batch, waste=_WASTE)

    @cached_property
    def _source(self) -> Source:
        source = Source(self.model, self.revision, device=self.device, extra="sentence")
        if not source.is_local:  # before anything is said about the hub
            packages = {"sentence_transformers": "sentence-transformers"}
            require_all(packages, purpose=f"the embedder {self.model!r}", extra="sentence")
        return source

    def _refuse_other_kinds(self) -> None:
        if self._source.config_file is None:
            # sentence-transformers would load it, with a pooling that the user did not choose.
            raise InputError(
                f"`model` must be a sentence-transformers model, which has a modules.json; {self.model!r} has none. "
                "Use LanguageModel for other transformers models, where you can choose the pooling."
            )

    def _load(self) -> Any:
        package = optional("sentence_transformers", extra="sentence")
        self._refuse_other_kinds()
        source = self._source
        if source.config_file is not None:
            refuse_foreign_modules(source.model, source.config_file.parent)
        options = {"revision": None if source.is_local else source.commit, **source.local_only}
        with source.loading("files"):
            model = package.SentenceTransformer(source.model, device="cpu", trust_remote_code=False, **options)
        # Weights stored in half precision stay so by default, which a CPU may not support.
        model = move_network(model.float(), source.chosen_device, source.model)
        if getattr(model.tokenizer, "pad_token", "") is None:
            raise InputError(
                f"`model` must have a tokenizer with a padding token, so that texts can share a batch; {self.model!r} "
                "has none. Set tokenizer.pad_token, for example to its eos_token, and save the model."
            )
        if self.max_length is not None:
            model.max_seq_length = self.max_length
        return model


def _leading_parts(model: Any, texts: list[str]) -> list[str]:
    """The texts, very long ones cut to the part that the model uses, if its tokenizer reports it."""
    inner = getattr(model.tokenizer, "backend_tokenizer", None)
    length = model.max_seq_length
    if inner is None or length is None:
        return texts
    tokenizer = optional("tokenizers", extra="sentence").Tokenizer.from_str(inner.to_str())
    tokenizer.no_padding()
    tokenizer.enable_truncation(max(length, tokenizer.num_special_tokens_to_add(False) + 1))
    return [encode_leading_part(tokenizer, text, length)[0] for text in texts]
