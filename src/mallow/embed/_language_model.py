"""Texts through a language model of transformers: one vector a text, from the last layer.

Any causal model (GPT-2, Llama, OPT, Gemma, Mamba …), any model that reads both ways (BERT, RoBERTa, ModernBERT …) and the
encoder of any encoder–decoder model (T5, BART …), from the hub, a local folder or a GGUF file.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from mallow._checks import whole
from mallow._optional import optional
from mallow.embed._protocol import Points, Rows, checked_texts, collected
from mallow.errors import InputError
from mallow.models import Attention, Precision, Source, Tokens, context, moved, one_of, tokenised, within_memory

__all__ = ["LanguageModel", "Pooling"]

Pooling = Literal["last", "mean", "cls"]
"""Which hidden states make the vector of a text."""

# The default comes first.
_POOLINGS: dict[Attention, tuple[Pooling, ...]] = {
    "causal": ("last", "mean"),
    "both": ("mean", "cls"),
    "encoder": ("mean",),
}
_CPU_BUDGET = 2048  # padded tokens: more is no faster on a CPU, and its activations leave the cache
_OVERHEAD = 32  # tokens that the calls of one more batch cost on a CPU; the same time is far more on an accelerator
_FREE_SHARE = 0.5  # of the free memory of an accelerator; the estimate behind it is rough, and a batch can be halved
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
        object.__setattr__(self, "model", self._source.model)
        one_of("pooling", self.pooling, (*get_args(Pooling), None))
        whole("max_length", self.max_length, least=1)
        if self.token_budget is not None:
            whole("token_budget", self.token_budget, least=1)

    @functools.cached_property
    def name(self) -> str:
        """Weights with their commit or digest, pooling, length and precision; the weights are not loaded for it."""
        precision = self._source.precision  # first: without torch there is no point in asking the hub
        label = self._source.label
        return f"LanguageModel({label}, pooling={self._pooling}, max_length={self.max_length}, {precision})"

    def __call__(self, samples: Sequence[str]) -> Points:
        """The features (n, d) of the texts, in their order, in float32."""
        return collected(self.stream(samples), len(samples))

    def stream(self, samples: Sequence[str]) -> Iterator[Rows]:
        """Places and features of one batch after the other, the longest texts first."""
        texts = checked_texts(samples)

        def tokens(model: Any, tokenizer: Any, limit: int) -> list[Tokens]:
            self._source.refuse_empty(tokenizer, model)
            return tokenised(tokenizer, texts, limit, begins=self._source.wants_bos)

        yield from self._streamed(tokens)

    def of_tokens(self, tokens: Sequence[Sequence[int]]) -> Points:
        """The features (n, d) of texts that are tokens of this model already, each at least one; long ones are cut."""
        found = [np.asarray(each, np.int32).reshape(-1) for each in tokens]
        for place, each in enumerate(found):
            if not each.size:
                raise InputError(f"`tokens` must hold at least one token a text; the text at {place} has none.")
        return collected(self._streamed(lambda model, tokenizer, limit: [each[:limit] for each in found]), len(found))

    def _streamed(self, tokens_of: Callable[[Any, Any, int], list[Tokens]]) -> Iterator[Rows]:
        torch = optional("torch", extra="text")
        device, pooling = self._source.where, self._pooling  # what can be wrong without the weights comes before them
        tokenizer = self._source.loaded("AutoTokenizer")
        model, causal = self._network(torch)
        tokens = tokens_of(model, tokenizer, min(self.max_length, context(model, tokenizer)))
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

    @functools.cached_property
    def _source(self) -> Source:
        return Source(self.model, self.revision, self.dtype, self.device)

    @property
    def _pooling(self) -> Pooling:
        allowed = _POOLINGS[self._source.attention]
        if self.pooling is not None and self.pooling not in allowed:
            reads = {"causal": "is a causal model", "both": "reads both ways", "encoder": "is an encoder–decoder model"}
            raise InputError(
                f"`pooling` must be {' or '.join(map(repr, allowed))} here, because {self.model} "
                f"{reads[self._source.attention]}; got {self.pooling!r}."
            )
        return self.pooling or allowed[0]

    def _network(self, torch: Any) -> tuple[Any, bool]:
        """The model without its vocabulary head, ready to run, and whether what follows a token is unseen by it."""
        source, options = self._source, {}
        if not source.is_gguf:
            config = options["config"] = source.loaded("AutoConfig")
            for name in ("activation_function", "hidden_act"):
                if (found := getattr(config, name, None)) in _FUSED:
                    setattr(config, name, _FUSED[found])
        model, missing = source.network("AutoModel", **options)
        unused = ("decoder.",) if source.attention == "encoder" else ()
        source.refuse_missing([key for key in missing if "pooler" not in key and not key.startswith(unused)])
        if source.attention == "encoder":
            model = model.get_encoder()
        model = moved(model, source.where, source.model)
        return model, source.attention == "causal" and _sees_only_backwards(torch, model)


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
