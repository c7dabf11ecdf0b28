"""Pretrained models: which files, which commit, on which device, how precise; loaded, and asked what they can read.

A `Source` names a model and loads its parts. What can be wrong with it is told here, in one sentence with the way out.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib.util
import io
import mmap
import os
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from mallow._files import digest
from mallow._optional import optional
from mallow.errors import InputError

__all__ = [
    "Attention",
    "Precision",
    "Source",
    "Tokens",
    "chosen_device",
    "chosen_precision",
    "context",
    "first_line",
    "moved",
    "one_of",
    "tokenised",
]

Precision = Literal["float32", "float16", "bfloat16"]

Attention = Literal["causal", "both", "encoder"]
"""Backwards only; both ways; the encoder of an encoder–decoder model."""

Tokens = NDArray[np.int32]

_TOKENISED = 1024  # texts at a time, so that the lists of Python integers stay small
_ANOTHER = "Is it a checkpoint of another architecture than its config.json says?"


@dataclass(frozen=True)
class Source:
    """A pretrained model and how it is to run; nothing is loaded before it is asked for.

    Parameters
    ----------
    model : str
        Name on the hub or a local folder; with the extra "text" also a .gguf file.
    revision : str or None
        Branch, tag or commit, for a model on the hub.
    dtype, device
        None: what `chosen_precision` and `chosen_device` choose.
    extra : "text", "vision" or "sentence"
        The extra of mallow that brings the packages.

    Examples
    --------
    >>> Source("gpt2-large").is_local
    False
    """

    model: str
    revision: str | None = None
    dtype: Precision | None = None
    device: str | None = None
    extra: Literal["text", "vision", "sentence"] = "text"

    def __post_init__(self) -> None:
        object.__setattr__(self, "model", _checked_model(self.model, self._files))
        if self.revision is not None and self.is_local:
            raise InputError(f"`revision` is for models on the hub; {self.model} is local. Leave it out.")
        one_of("dtype", self.dtype, (*get_args(Precision), None))

    @property
    def is_local(self) -> bool:
        """Whether it is a folder or a file here."""
        return os.path.exists(self.model)

    @property
    def is_gguf(self) -> bool:
        """Whether it is a single .gguf file."""
        return self.model.endswith(".gguf")

    @property
    def where(self) -> str:
        """The device it runs on."""
        return chosen_device(self.device, extra=self.extra)

    @property
    def precision(self) -> Precision:
        """The precision it runs in."""
        return chosen_precision(self.dtype, self.where, extra=self.extra)

    @cached_property
    def label(self) -> str:
        """The weights in the name of an embedder: folder or file with its digest, or name on the hub with its commit."""
        path = Path(self.model)
        return f"{path.resolve().name}@{digest(path)}" if self.is_local else f"{self.model}@{self.commit[:12]}"

    @property
    def commit(self) -> str:
        """The commit that the revision on the hub stands for, from where the hub's client puts its files."""
        if self.sign is None:
            raise InputError(f"`model` must have a {self._sign}; {self.model} has none.")
        return self.sign.parent.name

    @cached_property
    def sign(self) -> Path | None:
        """The file that every model of this kind has: modules.json for the extra "sentence", else config.json."""
        return self.file(self._sign)

    def file(self, name: str) -> Path | None:
        """A file of the model, in its folder or in the hub's cache; None if the model has no such file."""
        if self.is_local:
            path = Path(self.model, name)
            return path if path.is_file() else None
        hub = optional("huggingface_hub", extra=self.extra)
        errors = optional("huggingface_hub.errors", extra=self.extra)
        with self._told(name):
            try:
                return Path(hub.hf_hub_download(self.model, name, revision=self.revision))
            except errors.EntryNotFoundError as error:
                # Without a network the same error says that the cache lacks the file.
                if isinstance(error, errors.LocalEntryNotFoundError):
                    raise
                return None

    @cached_property
    def attention(self) -> Attention:
        """How the model reads; the weights are not loaded for it."""
        if self.is_gguf:  # from the header: transformers takes seconds to make a configuration of such a file
            return "encoder" if "t5" in _gguf_architecture(self.model) else "causal"
        auto = optional("transformers.models.auto.modeling_auto", extra=self.extra)
        tables = auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES
        return _attention(self.loaded("AutoConfig"), *tables)

    @property
    def wants_bos(self) -> bool:
        """Whether a GGUF file says that texts begin with <bos>; transformers does not add it for all models (Gemma)."""
        if not self.is_gguf:
            return False
        with open(self.model, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return _gguf_value(content, b"tokenizer.ggml.add_bos_token", kind=7) == b"\1"

    def loaded(self, auto: str, **options: Any) -> Any:
        """What an Auto class of transformers makes of this model."""
        transformers = optional("transformers", extra=self.extra)
        folder = self.model
        if self.is_gguf:
            _gguf_architecture(self.model)  # refuses what is no such file
            if missing := [name for name in ("gguf", "accelerate") if importlib.util.find_spec(name) is None]:
                raise InputError(
                    f"{' and '.join(missing)} needed for GGUF files, not installed: pip install 'mallow[gguf]'"
                )
            folder, options["gguf_file"] = os.path.split(os.path.abspath(self.model))
        elif not self.is_local:
            options["revision"] = self.commit  # the one that is in the name
        with self.reading({"AutoConfig": "configuration", "AutoTokenizer": "tokenizer"}.get(auto, "weights")):
            return getattr(transformers, auto).from_pretrained(folder, **options)

    def network(self, auto: str, **options: Any) -> tuple[Any, list[str]]:
        """The model with its weights, in its precision, on the CPU; and which weights the files lack."""
        precision = getattr(optional("torch", extra=self.extra), self.precision)
        found, report = self.loaded(auto, dtype=precision, output_loading_info=True, **options)
        # A head that is the embedding turned round is not in the file.
        tied = getattr(found, "all_tied_weights_keys", None) or ()
        return found, sorted(key for key in report["missing_keys"] if key not in tied)

    def refuse_missing(self, weights: Sequence[str], way_out: str = _ANOTHER) -> None:
        """Refuse a model that lacks weights: they would be random."""
        if weights:
            raise InputError(
                f"`model` must have all its weights; {self.model} lacks {len(weights)}, such as {weights[0]}, which would "
                f"be random. {way_out}"
            )

    def refuse_empty(self, tokenizer: Any, network: Any) -> None:
        """Refuse a tokenizer of nothing, as transformers makes it without its files: to it all texts are the same."""
        known, vocabulary = len(tokenizer), getattr(network.config.get_text_config(), "vocab_size", 0)
        if known < vocabulary / 2:
            raise InputError(
                f"`model` must come with its tokenizer; that of {self.model} knows {known} tokens and the model "
                f"{vocabulary}. Save the tokenizer into the same folder."
            )

    @contextlib.contextmanager
    def reading(self, part: str) -> Iterator[None]:
        """Inside, transformers shows neither bars nor reports, and what fails to load is told in one sentence."""
        logging = optional("transformers", extra=self.extra).utils.logging
        level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
        logging.set_verbosity_error()
        logging.disable_progress_bar()
        try:
            # For a GGUF file it shows a bar that its own switch does not reach.
            hidden = contextlib.redirect_stderr(io.StringIO()) if self.is_gguf else contextlib.nullcontext()
            with self._told(part), hidden:
                yield
        finally:
            logging.set_verbosity(level)
            if bars:
                logging.enable_progress_bar()

    @contextlib.contextmanager
    def _told(self, part: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            damaged = type(error).__name__ == "SafetensorError"  # an exception of its own kind
            if not (
                damaged or isinstance(error, (OSError, ValueError, ImportError, KeyError, TypeError, RuntimeError))
            ):
                raise
            raise InputError(self._why_not(error, part)) from error

    def _why_not(self, error: BaseException, part: str) -> str:
        """One sentence for an error of transformers or of the hub's client, and the way out."""
        chain: list[BaseException] = []
        found: BaseException | None = error
        while found is not None and found not in chain:
            chain.append(found)
            found = found.__cause__ or found.__context__
        kinds = {kind.__name__ for each in chain for kind in type(each).__mro__}
        model, instead = self.model, f"Or give {self._files}."
        if self.is_local:
            by = "sentence-transformers" if self.extra == "sentence" else "transformers"
            return f"`model` must be as {by} saves it; the {part} of {model} cannot be loaded: {first_line(error)}"
        if "GatedRepoError" in kinds:
            return f"`model` {model} is on the hub for those who accept its terms. Do so there, then: hf auth login. {instead}"
        if "RevisionNotFoundError" in kinds:
            return f"`revision` must be a branch, tag or commit of {model} on the hub; there is no {self.revision!r}."
        if kinds & {"RepositoryNotFoundError", "HFValidationError"}:
            return f"`model` must be on the hub; there is no {model} that you can see. Check the name. {instead}"
        if kinds & {"LocalEntryNotFoundError", "ConnectError", "ConnectionError", "TimeoutException"}:
            at = "" if self.revision is None else f" at {self.revision!r}"
            connect = "unset HF_HUB_OFFLINE" if "OfflineModeIsEnabled" in kinds else "connect"
            return (
                f"`model` {model}{at} is not among the downloaded models, and the hub cannot be reached. "
                f"Check the name, or {connect}. {instead}"
            )
        return f"`model` {model} cannot be loaded: {first_line(error)} {instead}"

    @property
    def _files(self) -> str:
        return "a local folder or a .gguf file" if self.extra == "text" else "a local folder"

    @property
    def _sign(self) -> str:
        return "modules.json" if self.extra == "sentence" else "config.json"


# --- options


def one_of(name: str, value: object, allowed: Sequence[str | None]) -> None:
    """Refuse a value that is not among those allowed, with the one that was probably meant."""
    if value in allowed:
        return
    words = [each for each in allowed if each is not None]
    near = difflib.get_close_matches(str(value).lower(), words, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    listed = ", ".join(map(repr, words)) + (" or None" if None in allowed else "")
    raise InputError(f"`{name}` must be one of {listed}; got {value!r}.{hint}")


def _checked_model(model: str | os.PathLike[str], files: str) -> str:
    rule = f"`model` must be a name on the hub{',' if '.gguf' in files else ' or'} {files}"
    if not isinstance(model, (str, os.PathLike)) or not os.fspath(model):
        raise InputError(f"{rule}; got {model!r}.")
    found = os.fspath(model)
    local = os.path.expanduser(found)
    if os.path.isfile(local) and not (local.endswith(".gguf") and ".gguf" in files):
        raise InputError(f"{rule}; got the file {found}.")
    if os.path.exists(local):
        return local
    if found.endswith(".gguf") or not re.fullmatch(r"\w[\w.-]*(/[\w.-]+)?", found):
        raise InputError(f"{rule}; there is no {found}.")
    return found


def chosen_device(device: str | None, *, extra: str) -> str:
    """The device as torch names it; None is CUDA, else MPS, else the CPU."""
    torch = optional("torch", extra=extra)
    if device is not None:
        return device
    return "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"


def chosen_precision(dtype: Precision | None, device: str, *, extra: str) -> Precision:
    """The precision; None is bfloat16 on CUDA, or float16 where the card lacks it, float16 on MPS, float32 on a CPU."""
    if dtype is not None:
        return dtype
    if device.startswith("cuda"):
        # Emulated bfloat16 is slower than float16.
        known = optional("torch", extra=extra).cuda.is_bf16_supported(including_emulation=False)
        return "bfloat16" if known else "float16"
    return "float16" if device.startswith("mps") else "float32"


def moved(network: Any, device: str, model: str, dtype: Any = None) -> Any:
    """The network where it is to run, ready to run; with `dtype` all of it in this precision."""
    try:
        return network.to(device=device, dtype=dtype).eval()
    except (RuntimeError, AssertionError) as error:  # torch without CUDA asserts
        raise InputError(
            f"`device` must be one that torch can use here, with room for {model}; got {device!r}: "
            f"{first_line(error)} Pass device='cpu'."
        ) from error


def first_line(error: BaseException) -> str:
    """What an error says, or its kind if it says nothing, as one sentence."""
    lines = str(error).strip().splitlines()
    line = lines[0].strip() if lines else type(error).__name__
    return line if line.endswith((".", "?", "!")) else line + "."


# --- what a model can read


def _attention(config: Any, causal: Mapping[str, Any], masked: Mapping[str, Any]) -> Attention:
    """How a model reads, from its configuration and the tables of transformers."""
    if getattr(config, "is_encoder_decoder", False):
        return "encoder"
    if getattr(config, "is_decoder", False):
        return "causal"
    # Many masked types have a causal head as well (BertLMHeadModel), hence masked first. Some causal types are trained
    # further to read both ways (EmbeddingGemma) and say so.
    text = config.get_text_config()
    both_ways = getattr(text, "use_bidirectional_attention", False) or getattr(text, "is_causal", True) is False
    return "causal" if config.model_type in causal and config.model_type not in masked and not both_ways else "both"


def context(network: Any, tokenizer: Any) -> int:
    """The most tokens that the network can read."""
    config = network.config.get_text_config()
    stated = [getattr(config, name, None) for name in ("max_position_embeddings", "n_positions", "max_seq_len")]
    found = [int(value) for value in stated if value is not None and value > 0]  # -1: unlimited, in some of them
    if not found:  # relative positions, as in T5: the length it was trained with
        found = [int(tokenizer.model_max_length)]
    # RoBERTa and its kin count positions from the padding token on: 514 of them are 512 tokens.
    found += [
        module.num_embeddings - module.padding_idx - 1
        for name, module in network.named_modules()
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None
    ]
    return min(found)


def tokenised(tokenizer: Any, texts: Sequence[str], limit: int, *, begins: bool) -> list[Tokens]:
    """Tokens of each text, at least one, at most `limit`; with the token that begins a text first where `begins`."""
    bos = tokenizer.bos_token_id
    lone = next((one for one in (bos, tokenizer.eos_token_id, tokenizer.sep_token_id) if one is not None), None)
    tokens: list[Tokens] = []
    for start in range(0, len(texts), _TOKENISED):
        encoded = tokenizer(
            list(texts[start : start + _TOKENISED]),
            truncation=True,
            max_length=limit,
            padding=False,
            return_attention_mask=False,
            return_token_type_ids=False,
        )["input_ids"]
        for some in encoded:
            found = np.asarray(some, np.int32)
            if begins and bos is not None and not (found.size and found[0] == bos):
                found = np.concatenate([np.asarray([bos], np.int32), found])[:limit]
            if not found.size:
                if lone is None:
                    raise InputError(
                        f"`samples` must give at least one token each; the text at {len(tokens)} gives none, and the "
                        "tokenizer has no token that begins or ends a text. Leave such texts out."
                    )
                found = np.asarray([lone], np.int32)
            tokens.append(found)
    return tokens


# --- GGUF: the two facts that are wanted before, or without, transformers reading all of it


def _gguf_architecture(path: str) -> str:
    """The key general.architecture of the header, such as "llama"."""
    with open(path, "rb") as file:
        head = file.read(1 << 16)
    if head[:4] != b"GGUF":
        raise InputError(f"`model` must be a GGUF file where its name ends in .gguf; {path} is none.")
    return _gguf_value(head, b"general.architecture", kind=8).decode(errors="replace")


def _gguf_value(content: Any, key: bytes, *, kind: int) -> bytes:
    """Value of a key: a string (kind 8) or a truth value (kind 7); empty where there is none."""
    at = content.find(struct.pack("<Q", len(key)) + key, 0, 1 << 28)  # metadata come before the weights
    if at < 0:
        return b""
    at += 8 + len(key)
    (found,) = struct.unpack("<I", content[at : at + 4])
    if found != kind:
        return b""
    if kind == 7:
        return bytes(content[at + 4 : at + 5])
    (size,) = struct.unpack("<Q", content[at + 4 : at + 12])
    return bytes(content[at + 12 : at + 12 + size])
