"""Texts become features of a sentence-transformers model, with the pooling and scaling it was trained with."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from mallow.embed.batches import ran_out_of_memory, within_memory
from mallow.embed.language import quiet
from mallow.embed.onnx import beginning
from mallow.embed.protocol import Points, Rows, checked_texts, collected, digest
from mallow.errors import InputError, optional, whole

__all__ = ["SentenceModel"]

_WASTE = 0.25  # of padding in a batch: the lengths are estimates


@dataclass(frozen=True)
class SentenceModel:
    """Features of texts by a sentence-transformers model, in float32.

    Its own pooling, scaling and default prompt are used. Texts of like length share a batch, so that little is padded;
    what is padded is masked, and moves the features by rounding alone (below 1e-6 for all-MiniLM-L6-v2).

    Parameters
    ----------
    model : str or path
        A folder, or a name on the hub such as ``sentence-transformers/all-MiniLM-L6-v2``.
    revision : str or None
        Branch, tag or commit on the hub; None is the newest. The commit found goes into the name.
    max_length : int or None
        Tokens; of a longer text the beginning is taken. None: the model's own length.
    device : str or None
        Of torch, such as "cpu" or "cuda". None: a GPU if there is one.
    batch_tokens : int
        Roughly how many tokens are run together.
    """

    kind: ClassVar[Literal["text"]] = "text"

    model: str | os.PathLike[str]
    revision: str | None = None
    max_length: int | None = None
    device: str | None = None
    batch_tokens: int = 16384

    def __post_init__(self) -> None:
        if self.max_length is not None:
            whole("max_length", self.max_length, least=1)
        whole("batch_tokens", self.batch_tokens, least=1)
        folder = Path(self.model)
        if folder.is_dir():
            if self.revision is not None:
                raise InputError(
                    f"`revision` must be None for a folder, which has one content; got {self.revision!r} with {folder}."
                )
            if not (folder / "modules.json").is_file():
                raise _not_of_its_kind(str(folder))
        elif folder.is_absolute() or not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", os.fspath(self.model)):
            raise InputError(
                f"`model` must be a folder or a name on the hub; there is no folder {os.fspath(self.model)!r}."
            )

    @cached_property
    def name(self) -> str:
        """Everything that the features depend on, in one line."""
        folder = Path(self.model)
        weights = (
            f"{folder.resolve().name}@{digest(folder)}" if folder.is_dir() else f"{self.model}@{self._commit[:12]}"
        )
        return f"SentenceModel({weights}, max_length={self.max_length or 'own'}, float32)"

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
    def _commit(self) -> str:
        """The commit that the hub has, or its cache, for the revision."""
        hub = optional("huggingface_hub", extra="sentence")
        errors = optional("huggingface_hub.errors", extra="sentence")
        try:
            path = str(hub.hf_hub_download(os.fspath(self.model), "modules.json", revision=self.revision))
        except (OSError, ValueError, errors.HfHubHTTPError, errors.EntryNotFoundError) as error:
            # Without a network the same error says that the cache lacks the file.
            if isinstance(error, errors.EntryNotFoundError) and not isinstance(error, errors.LocalEntryNotFoundError):
                raise _not_of_its_kind(os.fspath(self.model)) from error
            raise InputError(
                f"`model` must be a folder or a name on the hub; {os.fspath(self.model)!r} is no folder, and the hub did "
                f"not give it: {error}"
            ) from error
        return Path(path).parent.name

    def _loaded(self) -> Any:
        package = optional("sentence_transformers", extra="sentence")
        source = os.fspath(self.model)
        revision = None if Path(source).is_dir() else self._commit
        try:
            with quiet(optional("transformers", extra="sentence")):
                model = package.SentenceTransformer(source, revision=revision, device=self.device)
        except (OSError, ValueError, KeyError) as error:
            raise InputError(f"`model` {source!r} cannot be loaded by sentence-transformers: {error}") from error
        # Weights stored in half precision stay so by default, which a CPU may not know.
        model = model.float().eval()
        if getattr(model.tokenizer, "pad_token", "") is None:
            raise InputError(
                f"`model` {source!r} has a tokenizer without a padding token, so texts cannot share a batch. Set "
                "tokenizer.pad_token, for example to its eos_token, and save the model."
            )
        if self.max_length is not None:
            model.max_seq_length = self.max_length
        return model


def _not_of_its_kind(model: str) -> InputError:
    # sentence-transformers would load it, with a pooling that nobody chose.
    return InputError(
        f"`model` must be a sentence-transformers model, which has a modules.json; {model!r} has none. "
        "LanguageModel takes other transformers models, with the pooling you choose."
    )


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
