"""Texts through a language model of transformers: one vector per text, from the last layer.

Any causal model (GPT-2, Llama, OPT, Gemma, Mamba …), any bidirectional model (BERT, RoBERTa, ModernBERT …) and the
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

from mallow._checks import one_of, whole
from mallow._optional import optional
from mallow.embed._protocol import Points, Rows, checked_texts, collected
from mallow.errors import InputError
from mallow.models import (
    Attention,
    Precision,
    Source,
    Tokens,
    context_length,
    fast_products,
    kept_model,
    move_network,
    tokenise,
    within_memory,
)

Pooling = Literal["last", "mean", "cls"]
"""Which hidden states are pooled into the vector of a text."""

# The default comes first.
_POOLINGS: dict[Attention, tuple[Pooling, ...]] = {
    "causal": ("last", "mean"),
    "both": ("mean", "cls"),
    "encoder": ("mean",),
}
_CPU_BUDGET = 1024  # padded tokens; measured: 2,048 take 9 to 17% longer, since the activations leave the cache
_CPU_OVERHEAD = 32  # tokens; chosen: the cost of one more batch on a CPU
_ACCELERATOR_OVERHEAD = 64 * _CPU_OVERHEAD  # chosen: in the same time an accelerator computes far more tokens
_FREE_SHARE = 0.5  # of the free memory of an accelerator; chosen: the estimate is rough, and a batch can be halved
# The same function, in one fused kernel instead of eight passes over memory.
_FUSED = {"gelu_new": "gelu_pytorch_tanh"}
_ADVICE = "Set a smaller max_length, or use a smaller model."


@dataclass(frozen=True)
class LanguageModel:
    """Features of texts: hidden states of a language model, by default of its last layer, after the final norm.

    ``pooling="last"`` with GPT-2 large, the default, is the published featurisation of MAUVE: the state of the last
    token of the text, truncated to 1,024 tokens. The features of a text do not depend on the other texts, to about 1e-6
    in float32.

    Parameters
    ----------
    model : str
        Name on the hub, a local folder as `save_pretrained` writes it, or a file that ends in .gguf, whose weights
        transformers converts to `dtype` (needs the extra `gguf`).
    revision : str or None
        Branch, tag or commit on the hub; None is the newest that is known. The commit that it resolves to is part of
        the name.
    pooling : "last", "mean", "cls" or None
        Last token, mean over all tokens, or first token. Causal models allow "last" (the default) and "mean";
        bidirectional models "mean" (the default) and "cls". Of encoder–decoder models only the encoder is used, with
        "mean". A model is causal if transformers lists its type as a causal and not as a masked model, or if its
        configuration has ``is_decoder``.
    max_length : int
        Longer texts are truncated to this many tokens, or to the longest input of the model if that is shorter.
    dtype : "float32", "float16", "bfloat16" or None
        None is float32 on a CPU, bfloat16 on CUDA (float16 if the card has no bfloat16) and float16 on MPS.
    device : str or None
        A device name of torch: "cpu", "cuda", "cuda:1", "mps". None takes CUDA if available, then MPS, then the CPU.
    token_budget : int or None
        Tokens in one batch, padding included. None is 1,024 on a CPU and depends on the free memory elsewhere. A batch
        that does not fit is halved. It does not change the features and is not part of the name.
    layer : int or None
        The hidden layer: 0 for the embeddings of the input, 1 for the output of the first layer, and so on. Negative
        numbers count from the end. None is the last one after the final norm, as published. Middle layers often
        represent topics better, and the last layers the next word.

    Notes
    -----
    The model's tokenizer adds its default special tokens: none for GPT-2, ``<bos>`` for Llama and Gemma,
    ``[CLS]`` and ``[SEP]`` for BERT; for a GGUF file also the ``<bos>`` that its metadata asks for. A text without any
    token (an empty one, for GPT-2) is replaced by the token that begins a text, or else by the one that ends it.

    Examples
    --------
    >>> LanguageModel("gpt2-large", revision="main")
    LanguageModel(model='gpt2-large', revision='main', pooling=None, max_length=1024, dtype=None, device=None,
    token_budget=None, layer=None)
    """

    kind: ClassVar[Literal["text"]] = "text"

    model: str = "gpt2-large"
    revision: str | None = None
    pooling: Pooling | None = None
    max_length: int = 1024
    dtype: Precision | None = None
    device: str | None = None
    token_budget: int | None = None
    layer: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "model", self._source.model)
        one_of("pooling", self.pooling, (*get_args(Pooling), None))
        whole("max_length", self.max_length, least=1)
        if self.token_budget is not None:
            whole("token_budget", self.token_budget, least=1)
        if self.layer is not None and (isinstance(self.layer, bool) or not isinstance(self.layer, int | np.integer)):
            raise InputError(f"`layer` must be a whole number or None, for the last layer; got {self.layer!r}.")

    @property
    def name(self) -> str:
        """Weights with their commit or digest, pooling, length and precision. The weights need not be loaded."""
        precision = self._source.precision  # first: without torch there is no point in asking the hub
        label = self._source.label
        layer = "" if self.layer is None else f"layer={self.layer}, "
        return f"LanguageModel({label}, pooling={self._pooling}, {layer}max_length={self.max_length}, {precision})"

    def __call__(self, samples: Sequence[str]) -> Points:
        """The features (n, d) of the texts, in their order, in float32."""
        return collected(self.stream(samples), len(samples))

    def stream(self, samples: Sequence[str]) -> Iterator[Rows]:
        """Places and features, one batch after the other, the longest texts first."""
        texts = checked_texts(samples)

        def tokenise_texts(model: Any, tokenizer: Any, limit: int) -> list[Tokens]:
            self._source.refuse_empty_tokenizer(tokenizer, model)
            return tokenise(tokenizer, texts, limit, add_bos=self._source.wants_bos)

        yield from self._stream_tokens(tokenise_texts)

    def of_tokens(self, tokens: Sequence[Sequence[int]]) -> Points:
        """The features (n, d) of texts that are already tokens of this model, at least one each; long ones are cut."""
        texts = [np.asarray(text, np.int32).reshape(-1) for text in tokens]
        for place, text in enumerate(texts):
            if not text.size:
                raise InputError(f"`tokens` must hold at least one token per text, but the text at {place} has none.")
        parts = self._stream_tokens(lambda model, tokenizer, limit: [text[:limit] for text in texts])
        return collected(parts, len(texts))

    def _stream_tokens(self, make_tokens: Callable[[Any, Any, int], list[Tokens]]) -> Iterator[Rows]:
        torch = optional("torch", extra="text")
        device, pooling = self._source.chosen_device, self._pooling  # wrong options raise before the weights are loaded
        tokenizer, (model, causal, last_mlp) = kept_model(
            lambda: f"{self!r} {self.name}", lambda: (self._source.load("AutoTokenizer"), self._load(torch))
        )
        texts = make_tokens(model, tokenizer, min(self.max_length, context_length(model, tokenizer)))
        self._check_layer(model)
        mlp = last_mlp if pooling == "last" and self.layer is None else None
        budget = self.token_budget or _token_budget(device, *_model_size(torch, model, device))
        threads = torch.get_num_threads()
        on_cpu = device.startswith("cpu")
        # On a CPU two batches at a time, each with half of the threads, are faster than one with all of them.
        workers = 2 if on_cpu and threads > 1 else 1
        with only_at_places(mlp) as chosen:

            def embed_batch(places: NDArray[np.int64]) -> Points:
                batch = [texts[place] for place in places]
                return pooled_states(torch, model, batch, pooling, causal=causal, chosen=chosen, layer=self.layer)

            try:
                yield from within_memory(
                    [len(text) for text in texts],
                    budget,
                    embed_batch,
                    overhead=_CPU_OVERHEAD if on_cpu else _ACCELERATOR_OVERHEAD,
                    workers=workers,
                    prepare=lambda: torch.set_num_threads(threads // 2) if workers > 1 else None,
                    release=_release_function(torch, device),
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
            kinds = {"causal": "a causal", "both": "a bidirectional", "encoder": "an encoder–decoder"}
            raise InputError(
                f"`pooling` must be {' or '.join(map(repr, allowed))}, because {self.model} is "
                f"{kinds[self._source.attention]} model; got {self.pooling!r}."
            )
        return self.pooling or allowed[0]

    def _check_layer(self, model: Any) -> None:
        layers = int(model.config.get_text_config().num_hidden_layers)
        if self.layer is not None and not -layers - 1 <= self.layer <= layers:
            raise InputError(
                f"`layer` must be from 0, the input embeddings, to {layers}, the last layer of {self.model}, or from "
                f"{-layers - 1} to -1 from the end; got {self.layer}."
            )

    def _load(self, torch: Any) -> tuple[Any, bool, Any]:
        """The model without its vocabulary head, whether its states ignore what follows a token, and `find_last_mlp`.

        The model is ready to run.
        """
        source, options = self._source, {}
        if not source.is_gguf:
            config = options["config"] = source.load("AutoConfig")
            for name in ("activation_function", "hidden_act"):
                if (activation := getattr(config, name, None)) in _FUSED:
                    setattr(config, name, _FUSED[activation])
        model, missing = source.load_network("AutoModel", **options)
        unused = ("decoder.",) if source.attention == "encoder" else ()
        source.refuse_missing_weights([key for key in missing if "pooler" not in key and not key.startswith(unused)])
        if source.attention == "encoder":
            model = model.get_encoder()
        model = move_network(model, source.chosen_device, source.model)
        causal = source.attention == "causal" and is_causal(torch, model)
        return model, causal, find_last_mlp(torch, model) if causal else None


def _token_budget(device: str, free: int | None, width: int, itemsize: int) -> int:
    """Tokens in one batch, padding included."""
    if device.startswith("cpu"):
        return _CPU_BUDGET
    if free is None:
        return 16 * _CPU_BUDGET
    # In memory at once in a layer: the residual, queries, keys and values, two or three states of four times the width.
    return int(min(max(_FREE_SHARE * free / (24 * width * itemsize), 1024), 262_144))


def _model_size(torch: Any, model: Any, device: str) -> tuple[int | None, int, int]:
    """Free memory in bytes if it is known, width of the hidden states, bytes per number."""
    free = int(torch.cuda.mem_get_info(device)[0]) if device.startswith("cuda") else None
    return free, int(model.config.get_text_config().hidden_size), int(model.dtype.itemsize)


def _release_function(torch: Any, device: str) -> Callable[[], object] | None:
    if device.startswith("cuda"):
        return torch.cuda.empty_cache  # type: ignore[no-any-return]
    return torch.mps.empty_cache if device.startswith("mps") else None


def is_causal(torch: Any, model: Any) -> bool:
    """Whether the state of a token does not depend on later tokens, found out by trying.

    If so, texts padded on the right need no mask, and attention takes its fastest path. A model that claims to be
    causal and is not (XLNet) gets masks.
    """
    with torch.inference_mode():
        first = _states(model, torch.tensor([[2, 3], [2, 4]], device=model.device), None)[:, 0].float()
    return bool((first[0] - first[1]).abs().max() <= 1e-3 * first.abs().max())


def find_last_mlp(torch: Any, model: Any) -> Any:
    """The MLP of the last layer, if it can be run for only one token per text, which saves 2/3 of that layer.

    Its output for one token is added to the states of all tokens. This is correct for this token, and the other
    tokens are not used. Layers differ between models, so this is tried; None if there is no such part or the result
    differs.
    """
    stacks = [part for part in model.children() if isinstance(part, torch.nn.ModuleList) and len(part) > 0]
    mlp = getattr(stacks[-1][-1], "mlp", None) if stacks else None
    if mlp is None:
        return None
    ids = torch.tensor([[2, 3, 4], [4, 3, 2]], device=model.device)
    last, every = torch.tensor([2, 1], device=model.device), torch.arange(2)
    with torch.inference_mode():
        plain = _states(model, ids, None)[every, last].float()
        try:
            with only_at_places(mlp) as chosen:
                chosen.places = last
                short = _states(model, ids, None)[every, last].float()
        except (RuntimeError, TypeError, IndexError):
            return None
    return mlp if bool((plain - short).abs().max() <= 1e-2 * plain.abs().max()) else None


@contextlib.contextmanager
def only_at_places(module: Any) -> Iterator[threading.local]:
    """Inside, the module gets one state per text, (batch, 1, width), at the `places` that each thread sets for itself.

    Nothing changes if `module` is None.
    """
    chosen = threading.local()

    def shorten(_: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        states, *others = inputs
        return states.gather(1, chosen.places[:, None, None].expand(-1, 1, states.shape[-1])), *others

    handle = None if module is None else module.register_forward_pre_hook(shorten)
    try:
        yield chosen
    finally:
        if handle is not None:
            handle.remove()


def pooled_states(
    torch: Any,
    model: Any,
    texts: Sequence[Tokens],
    pooling: Pooling,
    *,
    causal: bool,
    chosen: threading.local,
    layer: int | None = None,
) -> Points:
    """Features of one batch of texts: padded on the right with any token, masked if the model could see the padding.

    `layer` is the hidden layer, 0 for the input embeddings; None for the last one, after the final norm.
    """
    lengths = np.asarray([len(tokens) for tokens in texts])
    padded = np.full((len(texts), lengths.max()), texts[0][-1], np.int64)
    for row, tokens in zip(padded, texts, strict=True):
        row[: len(tokens)] = tokens
    inside = np.arange(padded.shape[1]) < lengths[:, None]  # (batch, length)
    with torch.inference_mode():
        mask = None if causal or inside.all() else torch.from_numpy(inside.astype(np.int64)).to(model.device)
        last = chosen.places = torch.from_numpy(lengths - 1).to(model.device)
        states = _states(model, torch.from_numpy(padded).to(model.device), mask, layer)  # (batch, length, width)
        if pooling == "cls":
            pooled = states[:, 0].float()
        elif pooling == "last":
            pooled = states[torch.arange(len(texts), device=states.device), last].float()
        elif inside.all():
            pooled = states.mean(1, dtype=torch.float32)
        else:
            kept = torch.from_numpy(inside).to(states.device)[..., None]
            total = torch.where(kept, states, 0).sum(1, dtype=torch.float32)
            pooled = total / torch.from_numpy(lengths[:, None]).to(states.device, torch.float32)
        rows: Points = pooled.cpu().numpy()
    return rows


def _states(model: Any, ids: Any, mask: Any, layer: int | None = None) -> Any:
    options = {} if mask is None else {"attention_mask": mask}
    if getattr(model.config, "use_cache", None) is not None and not model.config.is_encoder_decoder:
        options["use_cache"] = False  # nothing is generated, so keys and values need not be kept
    with fast_products(optional("torch", extra="text"), str(model.device)):
        if layer is None:
            return model(input_ids=ids, **options).last_hidden_state
        return model(input_ids=ids, output_hidden_states=True, **options).hidden_states[layer]
