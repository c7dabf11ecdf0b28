"""Finding and loading a pretrained model: its files, commit, device and precision.

A `Source` names a model and loads its parts. Problems with it are reported here, in one sentence with the way out.
Program code in a model is never run.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import mmap
import os
import re
import struct
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeVar, cast, get_args

from mallow._checks import one_of
from mallow._files import digest, refuse_special
from mallow._optional import install_line, optional
from mallow.errors import InputError
from mallow.models._load_errors import (
    code_refusal,
    explain_hub_error,
    first_line,
    hub_is_unreachable,
    refuse_downloaded_kernels,
    refuse_files_elsewhere,
)
from mallow.models._tokens import Attention, attention_of

_ONE_AT_A_TIME = [threading.RLock()]
if hasattr(os, "register_at_fork"):  # in a forked process the thread that held it does not exist
    os.register_at_fork(after_in_child=lambda: _ONE_AT_A_TIME.__setitem__(0, threading.RLock()))
_OTHER_ARCHITECTURE = "Does its config.json name the architecture of the weights?"


@dataclass(frozen=True)
class Source:
    """A pretrained model with its settings. Nothing is loaded before it is needed."""

    model: str  # a name on the hub or a local folder; with the extra "text" also a .gguf file
    revision: str | None = None  # branch, tag or commit on the hub
    dtype: Precision | None = None  # None: see `choose_precision`
    device: str | None = None  # None: see `choose_device`
    extra: Literal["text", "vision", "sentence"] = "text"  # the extra of mallow that installs the packages

    def __post_init__(self) -> None:
        object.__setattr__(self, "model", _check_model(self.model, self._local_files))
        if self.revision is not None and self.is_local:
            raise InputError(f"`revision` is for models on the hub; {self.model} is local. Leave it out.")
        one_of("dtype", self.dtype, (*get_args(Precision), None))

    @property
    def is_local(self) -> bool:
        """Whether it is a folder or a file on this machine."""
        return os.path.exists(self.model)

    @property
    def is_gguf(self) -> bool:
        """Whether it is a single .gguf file."""
        return self.model.endswith(".gguf")

    @property
    def chosen_device(self) -> str:
        """The device it runs on."""
        return choose_device(self.device, extra=self.extra)

    @property
    def precision(self) -> Precision:
        """The precision it runs in."""
        return choose_precision(self.dtype, self.chosen_device, extra=self.extra)

    @property
    def label(self) -> str:
        """The weights for the name of an embedder: folder or file with its digest, or hub name with its commit."""
        path = Path(self.model)
        if path.is_dir():
            refuse_files_elsewhere(self.model, path)
        return f"{path.resolve().name}@{digest(path)}" if self.is_local else f"{self.model}@{self.commit[:12]}"

    @property
    def commit(self) -> str:
        """The commit behind the revision on the hub, read from the folder where the hub's client stores the files."""
        if self.config_file is None:
            raise InputError(f"`model` must have a {self._config_name}; {self.model} has none.")
        return self.config_file.parent.name

    @cached_property
    def config_file(self) -> Path | None:
        """The file that every model of this kind has: modules.json for the extra "sentence", otherwise config.json."""
        return self.file(self._config_name)

    def file(self, name: str) -> Path | None:
        """A file of the model, in its folder or in the hub's cache; None if the model has no such file."""
        if self.is_local:
            path = Path(self.model, name)
            return path if path.is_file() else None
        hub = optional("huggingface_hub", extra=self.extra)
        errors = optional("huggingface_hub.errors", extra=self.extra)
        with self._explained_errors(name):
            try:
                return Path(hub.hf_hub_download(self.model, name, revision=self.revision, **self.local_only))
            except errors.EntryNotFoundError as error:
                # Without a network connection the same error means that the file is not in the cache.
                if isinstance(error, errors.LocalEntryNotFoundError):
                    raise
                return None

    @cached_property
    def local_only(self) -> dict[str, bool]:
        """Options that keep the hub's client from long attempts without a connection; {} if there is one."""
        return {"local_files_only": True} if not self.is_local and hub_is_unreachable(extra=self.extra) else {}

    @cached_property
    def attention(self) -> Attention:
        """The direction in which the model reads, found without loading the weights."""
        if self.is_gguf:  # from the header, since transformers takes seconds to build a configuration from such a file
            return "encoder" if "t5" in gguf_architecture(self.model) else "causal"
        auto = optional("transformers.models.auto.modeling_auto", extra=self.extra)
        tables = auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES
        return attention_of(self.load("AutoConfig"), *tables)

    @property
    def wants_bos(self) -> bool:
        """Whether texts begin with <bos> by a GGUF file; transformers does not always add it (Gemma)."""
        return self.is_gguf and gguf_adds_bos(self.model)

    def load(self, auto: str, **options: Any) -> Any:
        """The result of an Auto class of transformers for this model."""
        transformers = optional("transformers", extra=self.extra)
        if self.is_gguf:
            gguf_architecture(self.model)  # refuses a file that is not in GGUF format
            if missing := [name for name in ("gguf", "accelerate") if importlib.util.find_spec(name) is None]:
                raise InputError(f"GGUF files need {' and '.join(missing)}, not installed here: {install_line('gguf')}")
            options["gguf_file"] = os.path.basename(self.model)
        elif not self.is_local:
            # The commit is the commit of the label, even if the branch has moved since.
            options |= {"revision": self.commit, **self.local_only}
        refuse_downloaded_kernels(self.model, self.config_file)
        if os.path.isdir(self.model):
            refuse_files_elsewhere(self.model, Path(self.model))
        part = {"AutoConfig": "configuration", "AutoTokenizer": "tokenizer"}.get(auto, "weights")
        with self.loading(part), self._folder_to_load() as folder:
            # Otherwise transformers would ask on standard input, and run the code of the model if the answer is "y".
            return getattr(transformers, auto).from_pretrained(folder, trust_remote_code=False, **options)

    @contextlib.contextmanager
    def _folder_to_load(self) -> Iterator[str]:
        """The folder for transformers, with only the GGUF file, since a tokenizer next to it would be used."""
        if not self.is_gguf:
            yield self.model
            return
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(os.path.abspath(self.model), os.path.join(folder, os.path.basename(self.model)))
            yield folder

    def load_network(self, auto: str, **options: Any) -> tuple[Any, list[str]]:
        """The model with its weights, in its precision, on the CPU, and the names of weights missing in its files."""
        precision = getattr(optional("torch", extra=self.extra), self.precision)
        network, report = self.load(auto, dtype=precision, output_loading_info=True, **options)
        # A head that shares its weights with the embedding is not in the file.
        tied = getattr(network, "all_tied_weights_keys", None) or ()
        return network, sorted(key for key in report["missing_keys"] if key not in tied)

    def refuse_missing_weights(self, weights: Sequence[str], way_out: str = _OTHER_ARCHITECTURE) -> None:
        """Refuse a model with missing weights, which would be random."""
        if weights:
            raise InputError(
                f"`model` must have all its weights; {self.model} lacks {len(weights)}, such as {weights[0]}, which "
                f"would be random. {way_out}"
            )

    def refuse_empty_tokenizer(self, tokenizer: Any, network: Any) -> None:
        """Refuse the empty tokenizer that transformers creates if files are missing; it makes all texts equal."""
        tokens, vocabulary = len(tokenizer), getattr(network.config.get_text_config(), "vocab_size", 0)
        if tokens < vocabulary / 2:
            raise InputError(
                f"`model` must come with its tokenizer, but the tokenizer of {self.model} knows {tokens} tokens, "
                f"the model {vocabulary}. Save the tokenizer into the same folder."
            )

    @contextlib.contextmanager
    def loading(self, part: str) -> Iterator[None]:
        """Inside the block transformers prints nothing, and a failure becomes a one-sentence error.

        One thread at a time: standard error and the settings of transformers belong to the whole process, and threads
        that overlap would leave them as they are inside.
        """
        logging = optional("transformers", extra=self.extra).utils.logging
        with _ONE_AT_A_TIME[0]:
            level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
            logging.set_verbosity_error()
            logging.disable_progress_bar()
            try:
                # For a GGUF file transformers shows a progress bar that its own switch does not disable.
                hidden = contextlib.redirect_stderr(io.StringIO()) if self.is_gguf else contextlib.nullcontext()
                with self._explained_errors(part), hidden:
                    yield
            finally:
                logging.set_verbosity(level)
                if bars:
                    logging.enable_progress_bar()

    @contextlib.contextmanager
    def _explained_errors(self, part: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            damaged = type(error).__name__ == "SafetensorError"  # derives directly from Exception
            if not (
                damaged or isinstance(error, (OSError, ValueError, ImportError, KeyError, TypeError, RuntimeError))
            ):
                raise
            if "trust_remote_code" in str(error):
                raise InputError(code_refusal(self.model)) from error
            if self.is_local:
                package = "sentence-transformers" if self.extra == "sentence" else "transformers"
                raise InputError(
                    f"`model` must be a model saved by {package}, but the {part} of {self.model} cannot be loaded: "
                    f"{first_line(error)}"
                ) from error
            raise InputError(explain_hub_error(error, self.model, self.revision, self._local_files)) from error

    @property
    def _local_files(self) -> str:
        return "a local folder or a .gguf file" if self.extra == "text" else "a local folder"

    @property
    def _config_name(self) -> str:
        return "modules.json" if self.extra == "sentence" else "config.json"


def _check_model(model: str | os.PathLike[str], files: str) -> str:
    rule = f"`model` must be a name on the hub{',' if '.gguf' in files else ' or'} {files}"
    if not isinstance(model, (str, os.PathLike)) or not os.fspath(model):
        raise InputError(f"{rule}; got {model!r}.")
    name = os.fspath(model)
    local = os.path.expanduser(name)
    if os.path.isfile(local) and not (local.endswith(".gguf") and ".gguf" in files):
        raise InputError(f"{rule}; got the file {name}.")
    if os.path.exists(local):
        return local
    if name.endswith(".gguf") or not re.fullmatch(r"\w[\w.-]*(/[\w.-]+)?", name):
        raise InputError(f"{rule}, but there is no {name}.")
    return name


# Numbers of value types in the GGUF format.
_BOOL = 7
_STRING = 8


def gguf_architecture(path: str) -> str:
    """The key general.architecture of the header, such as "llama"; refuses a file that is not in GGUF format."""
    refuse_special(path)
    try:
        with open(path, "rb") as file:
            head = file.read(1 << 16)  # the architecture is among the first keys
    except OSError as error:
        raise InputError(
            f"`model`: {path} cannot be read: {error.strerror or error}. Check its permissions."
        ) from error
    if head[:4] != b"GGUF":
        raise InputError(f"`model` must be a GGUF file if its name ends in .gguf; {path} is not one.")
    return _value(head, b"general.architecture", kind=_STRING).decode(errors="replace")


def gguf_adds_bos(path: str) -> bool:
    """Whether texts begin with <bos>, by the file."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return _value(content, b"tokenizer.ggml.add_bos_token", kind=_BOOL) == b"\1"


def _value(content: Any, key: bytes, *, kind: int) -> bytes:
    """Value of a key: a string or one byte for a truth value; empty if the key is missing or has another type."""
    at = content.find(struct.pack("<Q", len(key)) + key, 0, 1 << 28)  # the metadata come before the weights
    if at < 0:
        return b""
    at += 8 + len(key)
    if bytes(content[at : at + 4]) != struct.pack("<I", kind):  # even at the end of the file
        return b""
    if kind == _BOOL:
        return bytes(content[at + 4 : at + 5])
    size = int.from_bytes(content[at + 4 : at + 12], "little")
    return bytes(content[at + 12 : at + 12 + size])


Precision = Literal["float32", "float16", "bfloat16"]


def choose_device(device: str | None, *, extra: str) -> str:
    """The device of torch; None chooses CUDA if available, else MPS, else the CPU."""
    torch = optional("torch", extra=extra)
    if device is not None:
        return device
    return "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"


def choose_precision(dtype: Precision | None, device: str, *, extra: str) -> Precision:
    """The precision; None chooses bfloat16 on CUDA (float16 if the card lacks it), float16 on MPS, float32 on a CPU."""
    if dtype is not None:
        return dtype
    if device.startswith("cuda"):
        # Emulated bfloat16 is slower than float16.
        native = optional("torch", extra=extra).cuda.is_bf16_supported(including_emulation=False)
        return "bfloat16" if native else "float16"
    return "float16" if device.startswith("mps") else "float32"


def move_network(network: Any, device: str, model: str, dtype: Any = None) -> Any:
    """The network on its device, in evaluation mode; `dtype` converts all of it to this precision."""
    try:
        return network.to(device=device, dtype=dtype).eval()
    except (RuntimeError, AssertionError) as error:  # torch without CUDA raises an AssertionError
        raise InputError(
            f"`device` must be one that torch can use here, with room for {model}; got {device!r}: "
            f"{first_line(error)} Pass `device='cpu'`."
        ) from error


Model = TypeVar("Model")

_STORE: ContextVar[dict[str, Any] | None] = ContextVar("kept model", default=None)


@contextmanager
def keep_model(store: dict[str, Any]) -> Iterator[None]:
    """Keep the model that is loaded inside this block in `store`, which holds at most one, and reuse it from there."""
    token = _STORE.set(store)
    try:
        yield
    finally:
        _STORE.reset(token)


def kept_model(make_key: Callable[[], str], load: Callable[[], Model]) -> Model:
    """The result of `load`, or inside `keep_model` its earlier result for the same key.

    The key must identify the current weights on the disk, so that changed weights are loaded again.
    """
    store = _STORE.get()
    if store is None:
        return load()
    key = make_key()
    if key not in store:
        store.clear()  # before the next model needs the memory
        store[key] = load()
    return cast("Model", store[key])
