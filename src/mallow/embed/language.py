"""Texts through a language model of transformers: one vector a text, from the last layer.

Any causal model (GPT-2, Llama, OPT, Gemma, Mamba …), any model that reads both ways (BERT, RoBERTa, ModernBERT …) and the
encoder of any encoder–decoder model (T5, BART …), from the hub, a local folder or a GGUF file.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import importlib.util
import io
import mmap
import os
import struct
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from mallow.embed.batches import within_memory
from mallow.embed.protocol import Points, Rows, checked_texts, collected, digest
from mallow.errors import InputError, optional, whole

__all__ = ["LanguageModel", "Pooling", "Precision", "quiet"]

Pooling = Literal["last", "mean", "cls"]
"""Which hidden states make the vector of a text."""

Precision = Literal["float32", "float16", "bfloat16"]

Attention = Literal["causal", "both", "encoder"]
"""Backwards only; both ways; the encoder of an encoder–decoder model."""

Tokens = NDArray[np.int32]

# The default comes first.
_POOLINGS: dict[Attention, tuple[Pooling, ...]] = {
    "causal": ("last", "mean"),
    "both": ("mean", "cls"),
    "encoder": ("mean",),
}
_CPU_BUDGET = 2048  # padded tokens: more is no faster on a CPU, and its activations leave the cache
_OVERHEAD = 32  # tokens that the calls of one more batch cost on a CPU; the same time is far more on an accelerator
_FREE_SHARE = 0.5  # of the free memory of an accelerator; the estimate behind it is rough, and a batch can be halved
_TOKENISED = 1024  # texts at a time, so that the lists of Python integers stay small
# The same function: one fused kernel instead of eight passes over memory.
_FUSED = {"gelu_new": "gelu_pytorch_tanh"}
_ADVICE = "Set a smaller max_length, or use a smaller model."


@dataclass(frozen=True)
class LanguageModel:
    """Features of texts: hidden states of the last layer of a language model, after its final norm.

    ``pooling="last"`` with GPT-2 large, the default, is the published featurisation of MAUVE: the state of the last token
    of the text, cut to 1,024 tokens. A text has the same features whatever the texts around it, to about 1e-6 in float32.

    Parameters
    ----------
    model : str
        Name on the hub; or a local folder as `save_pretrained` writes it; or a file that ends in .gguf, whose weights
        transformers turns back into `dtype` (needs ``pip install 'mallow[gguf]'``).
    revision : str or None
        Branch, tag or commit on the hub; None is the newest that is known. The commit found goes into the name.
    pooling : "last", "mean", "cls" or None
        Last token, mean over all tokens, or first token. Causal models have "last" (None means this) and "mean"; models
        that read both ways have "mean" (None) and "cls"; encoder–decoder models are cut to their encoder and have "mean".
        A model is causal when transformers lists its type as a causal and not as a masked model, or when its
        configuration says ``is_decoder``.
    max_length : int
        Longer texts are cut to this many tokens, and never to more than the model can read.
    dtype : "float32", "float16", "bfloat16" or None
        None is float32 on a CPU; bfloat16 on CUDA, float16 where the card has no bfloat16; float16 on MPS.
    device : str or None
        As torch names it: "cpu", "cuda", "cuda:1", "mps". None takes CUDA, then MPS, then the CPU.
    token_budget : int or None
        Tokens in one batch, padding included. None is 2,048 on a CPU and follows the free memory elsewhere. A batch that
        does not fit is halved. It does not change the features and is not in the name.

    Notes
    -----
    Special tokens are those that the model's tokenizer adds by default: none for GPT-2, ``<bos>`` for Llama and Gemma,
    ``[CLS]`` and ``[SEP]`` for BERT; for a GGUF file also the ``<bos>`` that its metadata asks for. A text without a single
    token (an empty one, for GPT-2) is read as the token that begins a text, or else the one that ends it.

    Examples
    --------
    >>> LanguageModel("gpt2-large", revision="main")
    LanguageModel(model='gpt2-large', revision='main', pooling=None, max_length=1024, dtype=None, device=None, token_budget=None)
    """

    kind: ClassVar[Literal["text"]] = "text"

    model: str = "gpt2-large"
    revision: str | None = None
    pooling: Pooling | None = None
    max_length: int = 1024
    dtype: Precision | None = None
    device: str | None = None
    token_budget: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "model", _checked_model(self.model))
        if self.revision is not None and _is_local(self.model):
            raise InputError(f"`revision` is for models on the hub; {self.model} is local. Leave it out.")
        _one_of("pooling", self.pooling, get_args(Pooling))
        _one_of("dtype", self.dtype, get_args(Precision))
        whole("max_length", self.max_length, least=1)
        if self.token_budget is not None:
            whole("token_budget", self.token_budget, least=1)

    @functools.cached_property
    def name(self) -> str:
        """Weights with their commit or digest, pooling, length and precision; the weights are not loaded for it."""
        precision = _precision(
            self.dtype, self._device, _has_bfloat16
        )  # first: without torch there is no point in asking the hub
        if _is_local(self.model):
            path = Path(self.model)
            label, mark = path.resolve().name, digest(path)
        else:
            label, mark = self.model, self._commit[:12]
        return f"LanguageModel({label}@{mark}, pooling={self._pooling}, max_length={self.max_length}, {precision})"

    def __call__(self, samples: Sequence[str]) -> Points:
        """The features (n, d) of the texts, in their order, in float32."""
        return collected(self.stream(samples), len(samples))

    def stream(self, samples: Sequence[str]) -> Iterator[Rows]:
        """Places and features of one batch after the other, the longest texts first."""
        texts = checked_texts(samples)

        def tokenised(model: Any, tokenizer: Any, limit: int) -> list[Tokens]:
            vocabulary = getattr(model.config.get_text_config(), "vocab_size", 0)
            _refuse_empty_tokenizer(self.model, len(tokenizer), vocabulary)
            begins = self.model.endswith(".gguf") and _gguf_wants_bos(self.model)
            return _tokenised(tokenizer, texts, limit, begins=begins)

        yield from self._streamed(tokenised)

    def of_tokens(self, tokens: Sequence[Sequence[int]]) -> Points:
        """The features (n, d) of texts that are tokens of this model already, each at least one; long ones are cut."""
        found = [np.asarray(each, np.int32).reshape(-1) for each in tokens]
        for place, each in enumerate(found):
            if not each.size:
                raise InputError(f"`tokens` must hold at least one token a text; the text at {place} has none.")
        return collected(self._streamed(lambda model, tokenizer, limit: [each[:limit] for each in found]), len(found))

    def _streamed(self, tokenised: Callable[[Any, Any, int], list[Tokens]]) -> Iterator[Rows]:
        torch = optional("torch", extra="text")
        device, pooling = self._device, self._pooling  # what can be wrong without the weights comes before them
        tokenizer = self._loaded("AutoTokenizer")
        model, causal = self._network(torch, device)
        tokens = tokenised(model, tokenizer, min(self.max_length, _context(model, tokenizer)))
        tail = _last_mlp(torch, model) if causal and pooling == "last" else None
        budget = self.token_budget or _budget(device, *_size(torch, model, device))
        threads = torch.get_num_threads()
        # On a CPU two batches at a time, each with half of the threads, are faster than one with all of them.
        workers = 2 if device.startswith("cpu") and threads > 1 else 1
        with _shortened(tail) as at:

            def rows(places: NDArray[np.int64]) -> Points:
                return _rows(torch, model, [tokens[place] for place in places], pooling, causal=causal, at=at)

            try:
                yield from within_memory(
                    [len(each) for each in tokens],
                    budget,
                    rows,
                    overhead=_OVERHEAD if device.startswith("cpu") else 64 * _OVERHEAD,
                    workers=workers,
                    prepare=lambda: torch.set_num_threads(threads // 2) if workers > 1 else None,
                    release=_release(torch, device),
                    advice=_ADVICE,
                )
            finally:
                torch.set_num_threads(threads)

    @property
    def _device(self) -> str:
        torch = optional("torch", extra="text")
        return _device(self.device, torch.cuda.is_available, torch.backends.mps.is_available)

    @property
    def _pooling(self) -> Pooling:
        attention = _gguf_attention(self.model) if self.model.endswith(".gguf") else self._attention(self._config)
        allowed = _POOLINGS[attention]
        if self.pooling is not None and self.pooling not in allowed:
            reads = {"causal": "is a causal model", "both": "reads both ways", "encoder": "is an encoder–decoder model"}
            raise InputError(
                f"`pooling` must be {' or '.join(map(repr, allowed))} here, because {self.model} {reads[attention]}; "
                f"got {self.pooling!r}."
            )
        return self.pooling or allowed[0]

    def _attention(self, config: Any) -> Attention:
        auto = optional("transformers.models.auto.modeling_auto", extra="text")
        return _attention(config, auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES)

    @property
    def _config(self) -> Any:
        return self._loaded("AutoConfig")

    def _loaded(self, auto: str, **options: Any) -> Any:
        """What an Auto class of transformers makes of this model; its errors in one sentence with the way out."""
        transformers = optional("transformers", extra="text")
        source = self.model
        if source.endswith(".gguf"):
            _gguf_architecture(source)  # refuses what is no such file
            if missing := [name for name in ("gguf", "accelerate") if importlib.util.find_spec(name) is None]:
                raise InputError(
                    f"{' and '.join(missing)} needed for GGUF files, not installed: pip install 'mallow[gguf]'"
                )
            options["gguf_file"] = os.path.basename(source)
            source = os.path.dirname(source) or "."
        elif self.revision is not None:
            options["revision"] = self.revision
        with _in_one_sentence(self.model, self.revision, auto), quiet(transformers, bars="gguf_file" in options):
            return getattr(transformers, auto).from_pretrained(source, **options)

    @property
    def _commit(self) -> str:
        """The commit that the revision stands for, from where the hub's client puts its files."""
        hub = optional("huggingface_hub", extra="text")
        with _in_one_sentence(self.model, self.revision, "AutoConfig"):
            path = hub.hf_hub_download(self.model, "config.json", revision=self.revision)
        return Path(path).parent.name

    def _network(self, torch: Any, device: str) -> tuple[Any, bool]:
        """The model without its vocabulary head, ready to run, and whether what follows a token is unseen by it."""
        options = {}
        if self.model.endswith(".gguf"):
            attention = _gguf_attention(self.model)
        else:
            config = options["config"] = self._config
            attention = self._attention(config)
            for name in ("activation_function", "hidden_act"):
                if (found := getattr(config, name, None)) in _FUSED:
                    setattr(config, name, _FUSED[found])
        precision = getattr(torch, _precision(self.dtype, device, _has_bfloat16))
        model, report = self._loaded("AutoModel", **options, dtype=precision, output_loading_info=True)
        _refuse_missing_weights(self.model, report["missing_keys"], attention)
        if attention == "encoder":
            model = model.get_encoder()
        model = _moved(model, device, self.model)
        return model, attention == "causal" and _sees_only_backwards(torch, model)


def _checked_model(model: str | os.PathLike[str]) -> str:
    if not isinstance(model, (str, os.PathLike)) or not os.fspath(model):
        raise InputError(f"`model` must be a name on the hub, a local folder or a .gguf file; got {model!r}.")
    found = os.fspath(model)
    local = os.path.expanduser(found)
    if os.path.exists(local):
        if os.path.isfile(local) and not local.endswith(".gguf"):
            raise InputError(f"`model` must be a folder or a file that ends in .gguf; got the file {found}.")
        return local
    if found.endswith(".gguf") or os.path.isabs(local) or found.startswith(".") or found.count("/") > 1:
        raise InputError(f"`model` must be a name on the hub, a local folder or a .gguf file; there is no {found}.")
    return found


def _is_local(model: str) -> bool:
    return os.path.exists(model)


def _one_of(name: str, value: object, allowed: Sequence[str]) -> None:
    if value is None or value in allowed:
        return
    near = difflib.get_close_matches(str(value).lower(), allowed, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise InputError(f"`{name}` must be one of {', '.join(map(repr, allowed))} or None; got {value!r}.{hint}")


# What kind of model it is, and where it runs: pure decisions.


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


def _device(device: str | None, cuda: Callable[[], bool], mps: Callable[[], bool]) -> str:
    if device is not None:
        return device
    return "cuda" if cuda() else "mps" if mps() else "cpu"


def _precision(dtype: Precision | None, device: str, bfloat16: Callable[[], bool]) -> Precision:
    if dtype is not None:
        return dtype
    if device.startswith("cuda"):
        return "bfloat16" if bfloat16() else "float16"
    return "float16" if device.startswith("mps") else "float32"


def _moved(network: Any, device: str, model: str) -> Any:
    """The network where it is to run, ready to run."""
    try:
        return network.to(device).eval()
    except (RuntimeError, AssertionError) as error:
        raise InputError(
            f"`device` must be one that torch can use here, with room for {model}; got {device!r}: "
            f"{_first_line(error)} Pass device='cpu'."
        ) from error


def _has_bfloat16() -> bool:
    # Emulated bfloat16 is slower than float16.
    return bool(optional("torch", extra="text").cuda.is_bf16_supported(including_emulation=False))


def _budget(device: str, free: int | None, width: int, itemsize: int) -> int:
    """Tokens in one batch, padding included."""
    if device.startswith("cpu"):
        return _CPU_BUDGET
    if free is None:
        return 8 * _CPU_BUDGET
    # Live at once in a layer: the residual, queries, keys and values, two or three states of four times the width.
    return int(min(max(_FREE_SHARE * free / (24 * width * itemsize), 1024), 262_144))


def _size(torch: Any, model: Any, device: str) -> tuple[int | None, int, int]:
    """Free memory in bytes where it is known, width of the hidden states, bytes in a number."""
    free = int(torch.cuda.mem_get_info(device)[0]) if device.startswith("cuda") else None
    return free, int(model.config.get_text_config().hidden_size), int(model.dtype.itemsize)


def _release(torch: Any, device: str) -> Callable[[], object] | None:
    if device.startswith("cuda"):
        return torch.cuda.empty_cache  # type: ignore[no-any-return]
    return torch.mps.empty_cache if device.startswith("mps") else None


def _context(model: Any, tokenizer: Any) -> int:
    """The most tokens that the model can read."""
    config = model.config.get_text_config()
    stated = [getattr(config, name, None) for name in ("max_position_embeddings", "n_positions", "max_seq_len")]
    found = [int(value) for value in stated if value is not None and value > 0]  # -1: unlimited, in some of them
    if not found:  # relative positions, as in T5: the length it was trained with
        found = [int(tokenizer.model_max_length)]
    # RoBERTa and its kin count positions from the padding token on: 514 of them are 512 tokens.
    found += [
        module.num_embeddings - module.padding_idx - 1
        for name, module in model.named_modules()
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None
    ]
    return min(found)


def _sees_only_backwards(torch: Any, model: Any) -> bool:
    """Whether the state of a token is the same whatever follows it, found by trying.

    Then texts padded on the right need no mask, and attention takes its fastest path. A model that claims to be causal
    and is not (XLNet) gets masks.
    """
    with torch.inference_mode():
        first = _states(model, torch.tensor([[2, 3], [2, 4]], device=model.device), None)[:, 0].float()
    return bool((first[0] - first[1]).abs().max() <= 1e-3 * first.abs().max())


def _last_mlp(torch: Any, model: Any) -> Any:
    """The MLP of the last layer, if it can be run for one token a text alone: then 2/3 of that layer are saved.

    Its output for one token is added to the states of all tokens, which is right at that token, and the others are not
    looked at. Layers differ between models, so this is tried; None where there is no such part or the result differs.
    """
    stacks = [each for each in model.children() if isinstance(each, torch.nn.ModuleList) and len(each) > 0]
    tail = getattr(stacks[-1][-1], "mlp", None) if stacks else None
    if tail is None:
        return None
    ids = torch.tensor([[2, 3, 4], [4, 3, 2]], device=model.device)
    last, every = torch.tensor([2, 1], device=model.device), torch.arange(2)
    with torch.inference_mode():
        plain = _states(model, ids, None)[every, last].float()
        try:
            with _shortened(tail) as at:
                at.places = last
                short = _states(model, ids, None)[every, last].float()
        except (RuntimeError, TypeError, IndexError):
            return None
    return tail if bool((plain - short).abs().max() <= 1e-2 * plain.abs().max()) else None


@contextlib.contextmanager
def _shortened(module: Any) -> Iterator[threading.local]:
    """Inside, the module gets one state a text, (batch, 1, width): that at `places`, which each thread sets for itself."""
    at = threading.local()

    def shorten(_: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        states, *others = inputs
        return states.gather(1, at.places[:, None, None].expand(-1, 1, states.shape[-1])), *others

    handle = None if module is None else module.register_forward_pre_hook(shorten)
    try:
        yield at
    finally:
        if handle is not None:
            handle.remove()


# Texts → tokens → rows.


def _tokenised(tokenizer: Any, texts: Sequence[str], limit: int, *, begins: bool) -> list[Tokens]:
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


def _rows(
    torch: Any, model: Any, tokens: Sequence[Tokens], pooling: Pooling, *, causal: bool, at: threading.local
) -> Points:
    """Features of one batch: padded on the right with any token, masked where the model could see it."""
    lengths = np.asarray([len(each) for each in tokens])
    padded = np.full((len(tokens), lengths.max()), tokens[0][-1], np.int64)
    for row, each in zip(padded, tokens, strict=True):
        row[: len(each)] = each
    inside = np.arange(padded.shape[1]) < lengths[:, None]  # (batch, length)
    with torch.inference_mode():
        mask = None if causal or inside.all() else torch.from_numpy(inside.astype(np.int64)).to(model.device)
        last = at.places = torch.from_numpy(lengths - 1).to(model.device)
        states = _states(model, torch.from_numpy(padded).to(model.device), mask)  # (batch, length, width)
        if pooling == "cls":
            chosen = states[:, 0].float()
        elif pooling == "last":
            chosen = states[torch.arange(len(tokens), device=states.device), last].float()
        elif inside.all():
            chosen = states.mean(1, dtype=torch.float32)
        else:
            kept = torch.from_numpy(inside).to(states.device)[..., None]
            total = torch.where(kept, states, 0).sum(1, dtype=torch.float32)
            chosen = total / torch.from_numpy(lengths[:, None]).to(states.device, torch.float32)
        rows: Points = chosen.cpu().numpy()
    return rows


def _states(model: Any, ids: Any, mask: Any) -> Any:
    options = {} if mask is None else {"attention_mask": mask}
    if getattr(model.config, "use_cache", None) is not None and not model.config.is_encoder_decoder:
        options["use_cache"] = False  # nothing is generated: keys and values need not be kept
    return model(input_ids=ids, **options).last_hidden_state


# GGUF: the two facts that are wanted before, or without, transformers reading all of it.


def _gguf_attention(path: str) -> Attention:
    """From the header: transformers takes seconds to make a configuration of such a file."""
    return "encoder" if "t5" in _gguf_architecture(path) else "causal"


def _gguf_architecture(path: str) -> str:
    """The key general.architecture of the header, such as "llama"."""
    with open(path, "rb") as file:
        head = file.read(1 << 16)
    if head[:4] != b"GGUF":
        raise InputError(f"`model` must be a GGUF file where its name ends in .gguf; {path} is none.")
    return _gguf_value(head, b"general.architecture", kind=8).decode(errors="replace")


def _gguf_wants_bos(path: str) -> bool:
    """Whether the metadata say that texts begin with <bos>; transformers does not add it for all models (Gemma)."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return _gguf_value(content, b"tokenizer.ggml.add_bos_token", kind=7) == b"\1"


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


# What goes wrong while loading.


@contextlib.contextmanager
def _in_one_sentence(model: str, revision: str | None, auto: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        damaged = type(error).__name__ == "SafetensorError"  # an exception of its own kind
        if not (damaged or isinstance(error, (OSError, ValueError, ImportError, KeyError, TypeError))):
            raise
        raise InputError(_why_not(error, model, revision, auto)) from error


def _refuse_empty_tokenizer(model: str, known: int, vocabulary: int) -> None:
    """Without tokenizer files transformers makes a tokenizer of nothing, to which all texts are the same."""
    if known < vocabulary / 2:
        raise InputError(
            f"`model` must come with its tokenizer; that of {model} knows {known} tokens and the model {vocabulary}. "
            "Save the tokenizer into the same folder."
        )


def _refuse_missing_weights(model: str, missing: Sequence[str], attention: Attention) -> None:
    """Weights that are not in the checkpoint would be random; those of parts that are not used do not matter."""
    used = [
        key for key in missing if "pooler" not in key and not (attention == "encoder" and key.startswith("decoder."))
    ]
    if used:
        raise InputError(
            f"`model` must have all its weights; {model} lacks {len(used)}, such as {used[0]}. "
            "Is it a checkpoint of another architecture than its config.json says?"
        )


def _why_not(error: BaseException, model: str, revision: str | None, auto: str) -> str:
    """One sentence for the errors of transformers, and the way out."""
    chain: list[BaseException] = []
    found: BaseException | None = error
    while found is not None and found not in chain:
        chain.append(found)
        found = found.__cause__ or found.__context__
    kinds = {kind.__name__ for each in chain for kind in type(each).__mro__}
    instead = "Or give a local folder or a .gguf file."
    if _is_local(model):
        part = {"AutoConfig": "configuration", "AutoTokenizer": "tokenizer"}.get(auto, "weights")
        return f"`model` must be as transformers saves it; the {part} of {model} cannot be loaded: {_first_line(error)}"
    if "GatedRepoError" in kinds:
        return (
            f"`model` {model} is on the hub for those who accept its terms. Do so there, then: hf auth login. {instead}"
        )
    if "RevisionNotFoundError" in kinds:
        return f"`revision` must be a branch, tag or commit of {model} on the hub; there is no {revision!r}."
    if "RepositoryNotFoundError" in kinds or "HFValidationError" in kinds:
        return f"`model` must be on the hub; there is no {model} that you can see. Check the name. {instead}"
    if kinds & {
        "LocalEntryNotFoundError",
        "OfflineModeIsEnabled",
        "ConnectError",
        "ConnectionError",
        "TimeoutException",
    }:
        at = "" if revision is None else f" at {revision!r}"
        return (
            f"`model` {model}{at} is not among the downloaded models, and the hub cannot be reached. "
            f"Check the name, or connect. {instead}"
        )
    return f"`model` {model} cannot be loaded: {_first_line(error)} {instead}"


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    line = lines[0].strip() if lines else type(error).__name__
    return line if line.endswith((".", "?", "!")) else line + "."


@contextlib.contextmanager
def quiet(transformers: Any, *, bars: bool = False) -> Iterator[None]:
    """No bars and no lists of unused weights (the vocabulary head is left out on purpose); restored at the end.

    Where `bars`, transformers shows one that its own switch does not reach.
    """
    logging = transformers.utils.logging
    level, enabled = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with contextlib.redirect_stderr(io.StringIO()) if bars else contextlib.nullcontext():
            yield
    finally:
        logging.set_verbosity(level)
        if enabled:
            logging.enable_progress_bar()
