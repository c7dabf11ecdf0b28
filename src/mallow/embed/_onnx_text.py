"""Texts through an encoder saved as ONNX: small models on the CPU, without torch."""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from mallow._checks import one_of, whole
from mallow._files import digest, external_files
from mallow._optional import optional
from mallow.embed._protocol import Rows, StreamsFeatures, checked_texts, read_bytes
from mallow.engine import cores
from mallow.errors import InputError
from mallow.models import kept_model

Pooling = Literal["mean", "cls", "last"]

_TEXTS = 64  # texts per part that `stream` yields; chosen: a second or two of work


@dataclass(frozen=True)
class OnnxText(StreamsFeatures):
    """Features of texts from an encoder stored as an ONNX graph; needs only onnxruntime and tokenizers.

    Each text is run on its own, several at a time on threads. There is no padding, and the features of a text do not
    depend on the other texts even if the graph quantises activations by the range of the whole batch. On a CPU this
    is about as fast as batches of 8 or 32. It is faster for texts of 200 tokens, and slower for texts of a dozen
    tokens.

    Parameters
    ----------
    path : path
        The graph (.onnx). Its inputs are ``input_ids`` and, optionally, ``attention_mask``, ``token_type_ids`` and
        ``position_ids``. Its output is (1, tokens, d), which is pooled here, or (1, d), which is used as it is.
    tokenizer : path or None
        A tokenizer.json, a WordPiece vocab.txt (also .gz), or a folder with one of them. None: the folder of the graph.
        A vocab.txt without capital letters is assumed to be for lower-case text.
    pooling : "mean", "cls" or "last"
        The mean over the tokens, the first token or the last.
    max_length : int
        Number of tokens, special ones included; longer texts are truncated.
    normalise : bool
        Divide each row by its Euclidean norm.
    output : str or None
        Which output of the graph to use. None: the first.
    threads : int or None
        Number of texts at a time. None: one per processor. The features do not depend on it.
    sha256 : str or None
        The SHA-256 that the graph must have, in hexadecimal digits. None: any.
    """

    kind: ClassVar[Literal["text"]] = "text"
    _way_out: ClassVar[str] = "pass the right `sha256`, or None for any file"  # of a file with a different SHA-256

    path: str | os.PathLike[str]
    tokenizer: str | os.PathLike[str] | None = None
    pooling: Pooling = "mean"
    max_length: int = 256
    normalise: bool = False
    output: str | None = None
    threads: int | None = None
    sha256: str | None = None

    def __post_init__(self) -> None:
        if not Path(self.path).is_file():
            raise InputError(f"`path` must be an ONNX graph, but there is no file at {os.fspath(self.path)!r}.")
        one_of("pooling", self.pooling, get_args(Pooling))
        whole("max_length", self.max_length, least=1)
        if self.threads is not None:
            whole("threads", self.threads, least=1)
        _ = self._tokenizer_file

    @property
    def name(self) -> str:
        """Everything that the features depend on, in one line."""
        path = Path(self.path).resolve()
        # Many graphs are called model.onnx. Weights in other files are relative to a link, not to what it leads to.
        graph = f"{path.parent.name}/{path.name}@{digest(self.path, is_graph=True)}"
        output = "" if self.output is None else f", output={self.output}"
        return (
            f"OnnxText({graph}, tokenizer={digest(self._tokenizer_file)}, pooling={self.pooling}, "
            f"max_length={self.max_length}, normalise={self.normalise}{output})"
        )

    def stream(self, samples: Sequence[str], /) -> Iterator[Rows]:
        """Places among the texts with their features, as they are ready. The graph is loaded once."""
        texts = checked_texts(samples)
        encode = kept_model(lambda: f"{self!r} {self.name}", lambda: _Encoder(self))
        threads = self.threads or cores()
        with ThreadPoolExecutor(min(threads, len(texts))) as pool:
            for start in range(0, len(texts), _TEXTS):
                places = range(start, min(start + _TEXTS, len(texts)))
                rows = list(pool.map(lambda place: encode(place, texts[place]), places))
                yield np.array(places), np.stack(rows)

    @property
    def _tokenizer_file(self) -> Path:
        return find_tokenizer_file(Path(self.path).parent if self.tokenizer is None else Path(self.tokenizer))

    def _load_tokenizer(self) -> Any:
        return load_tokenizer(self._tokenizer_file, self.max_length)

    def _load_graph(self) -> Any:
        path = Path(self.path)
        source: str | bytes = str(path)
        if self.sha256 is not None:
            if others := external_files(path):
                raise InputError(
                    f"{path}: keeps weights in other files ({', '.join(others)[:200]}), which `sha256` does not "
                    "cover. Save the graph with its weights in one file, or leave out `sha256`."
                )
            source = read_verified(path, self.sha256, self._way_out)
        runtime = optional("onnxruntime", extra="onnx")
        try:
            return runtime.InferenceSession(source, session_options(runtime), providers=["CPUExecutionProvider"])
        except Exception as error:  # the errors of onnxruntime have no class in common
            raise InputError(f"`path` must be an ONNX graph; {path} cannot be loaded: {error}") from error


class _Encoder:
    """A loaded graph with its tokenizer. Both may be used from several threads."""

    def __init__(self, options: OnnxText) -> None:
        self.options = options
        self.tokenizer = options._load_tokenizer()
        self.session = options._load_graph()
        self.inputs = _checked_inputs(self.session)
        outputs = [output.name for output in self.session.get_outputs()]
        self.output = outputs[0] if options.output is None else options.output
        if self.output not in outputs:
            raise InputError(f"`output` must be one of the graph's {', '.join(outputs)}; got {self.output!r}.")

    def __call__(self, place: int, text: str) -> NDArray[np.float32]:
        _, encoding = encode_leading_part(self.tokenizer, text, self.options.max_length)
        length = len(encoding.ids)
        if not length:
            raise InputError(
                f"`samples` must hold texts with at least one token; got {text!r} at place {place}, and the tokenizer "
                "adds no special tokens. Leave it out."
            )
        available = {
            "input_ids": encoding.ids,
            "attention_mask": encoding.attention_mask,
            "token_type_ids": encoding.type_ids,
            "position_ids": range(length),
        }
        feed = {name: np.array([available[name]], dtype) for name, dtype in self.inputs.items()}
        try:
            hidden = self.session.run([self.output], feed)[0]
        except Exception as error:  # the errors of onnxruntime have no class in common
            raise InputError(
                f"The graph failed on the text at place {place} ({length} tokens): {error}. Check that it takes so "
                "many tokens and that the tokenizer belongs to it. A lower `max_length` may help."
            ) from error
        return _scale(_pool(hidden, self.options.pooling), normalise=self.options.normalise)


def _pool(hidden: NDArray[Any], pooling: Pooling) -> NDArray[np.float64]:
    if hidden.ndim not in (2, 3) or len(hidden) != 1:
        raise InputError(
            f"The graph must return (1, tokens, d) or (1, d) for one text; got shape {hidden.shape}. "
            "Choose another output with `output`."
        )
    tokens: NDArray[np.float64] = hidden[0].astype(np.float64)
    if hidden.ndim == 2:
        return tokens
    # All tokens belong to the text: there is no padding.
    pooled: dict[Pooling, NDArray[np.float64]] = {"mean": tokens.mean(axis=0), "cls": tokens[0], "last": tokens[-1]}
    return pooled[pooling]


def _scale(row: NDArray[np.float64], *, normalise: bool) -> NDArray[np.float32]:
    norm = np.linalg.norm(row) if normalise else 1.0
    return (row / (norm or 1.0)).astype(np.float32)


def session_options(runtime: Any) -> Any:
    """Options of onnxruntime for one thread: the threads are used to run several texts."""
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return options


def read_verified(path: Path, sha256: str, way_out: str) -> bytes:
    """The bytes of a graph, which are also the bytes that are loaded; refused if they are not as expected."""
    content = read_bytes(path)
    actual = hashlib.sha256(content).hexdigest()
    if actual != sha256.lower():
        raise InputError(
            f"{path}: must have the SHA-256 {sha256}; got {actual}. It was damaged or exchanged: {way_out}."
        )
    return content


def _checked_inputs(session: Any) -> dict[str, type[np.signedinteger[Any]]]:
    """The inputs that the graph asks for, with their types."""
    types: dict[str, type[np.signedinteger[Any]]] = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}
    provided = ("input_ids", "attention_mask", "token_type_ids", "position_ids")
    inputs = {}
    for entry in session.get_inputs():
        if entry.name not in provided or entry.type not in types:
            raise InputError(
                f"The graph asks for the input {entry.name!r} ({entry.type}); OnnxText provides {', '.join(provided)} "
                "as integers. Export it as a text encoder."
            )
        if any(isinstance(size, int) and size != wanted for size, wanted in zip(entry.shape, (1, None), strict=False)):
            raise InputError(
                f"The graph takes {entry.name} of the fixed shape {tuple(entry.shape)}; export it with free axes for "
                "the batch and the tokens."
            )
        inputs[entry.name] = types[entry.type]
    return inputs


_CHARACTERS_PER_TOKEN = 8  # chosen: more than texts have, so that the first part of a long text is nearly always enough
# Words at the end of a part that the cut may change; chosen: it may split a special token, which is then read as #
# marks and letters.
_UNCERTAIN_WORDS = 8
_RARE = "㐀 ꙮ"  # missing from nearly all vocabularies
_LARGEST = 100_000_000  # bytes of a vocabulary; chosen: the largest have a few million


def find_tokenizer_file(path: Path) -> Path:
    """The tokenizer.json or vocab.txt: the path itself, or a file in that folder."""
    if path.is_file():
        return path
    for name in ("tokenizer.json", "vocab.txt"):
        if (path / name).is_file():
            return path / name
    raise InputError(
        "`tokenizer` must be a tokenizer.json, a vocab.txt, or a folder with one of them, but there is none at "
        f"{str(path)!r}."
    )


def load_tokenizer(path: Path, max_length: int) -> Any:
    """The tokenizer of a file, set to cut texts to `max_length` tokens and not to pad."""
    tokenizers = optional("tokenizers", extra="onnx")
    if path.suffix == ".json":
        try:
            tokenizer = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # tokenizers raises plain Exceptions
            raise InputError(f"`tokenizer` must be a tokenizer.json; {path} cannot be read: {error}.") from None
        try:
            tokenizer.encode(_RARE)
        except Exception as error:
            raise InputError(
                f"`tokenizer`: {path} must have a token for unknown text; {error}. The file may be damaged: download "
                "it again."
            ) from None
    else:
        tokenizer = _load_word_pieces(path)
    special = tokenizer.num_special_tokens_to_add(False)
    if max_length <= special:
        raise InputError(
            f"`max_length` must be larger than {special}, the number of special tokens in every text; got {max_length}."
        )
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_length)
    return tokenizer


def _load_word_pieces(path: Path) -> Any:
    """BERT's tokenizer with the vocabulary of the file."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            raw = stream.read(_LARGEST + 1)
    except (EOFError, OSError, zlib.error) as error:
        raise InputError(f"`tokenizer`: {path} cannot be read: {error}. Is it complete?") from error
    if len(raw) > _LARGEST:
        raise InputError(
            f"`tokenizer`: {path} must have at most {_LARGEST / 1e6:g} MB; vocabularies have less than one."
        )
    try:
        pieces = raw.decode().removesuffix("\n").split("\n")
    except UnicodeDecodeError:
        pieces = []
    vocabulary = {piece.rstrip("\r"): number for number, piece in enumerate(pieces)}
    missing = [mark for mark in ("[UNK]", "[CLS]", "[SEP]") if mark not in vocabulary]
    if missing:
        raise InputError(
            f"`tokenizer` must be a WordPiece vocabulary with one piece per line, or a tokenizer.json; {path} has no "
            f"{', '.join(missing)}."
        )
    implementations = optional("tokenizers.implementations", extra="onnx")
    has_capitals = any(piece != piece.lower() for piece in vocabulary if not piece.startswith("["))
    return implementations.BertWordPieceTokenizer(vocabulary, lowercase=not has_capitals)


def encode_leading_part(tokenizer: Any, text: str, max_length: int) -> tuple[str, Any]:
    """The text, or a first part of a very long one with the same first `max_length` tokens, and these tokens.

    Tokens are made word by word. The tokens of a first part therefore equal the tokens of the text, except in the
    last few words, which the cut may have changed. A part with enough words beyond the needed tokens gives the same
    result. A tokenizer that does not report words needs the whole text.
    """
    size = _CHARACTERS_PER_TOKEN * max_length
    while size < len(text):
        encoding = tokenizer.encode(text[:size])
        if encoding.overflowing and _last_word(encoding) + _UNCERTAIN_WORDS < _last_word(encoding.overflowing[-1]):
            return text[:size], encoding
        size *= 8
    return text, tokenizer.encode(text)


def _last_word(encoding: Any) -> int:
    return max((word for word in encoding.word_ids if word is not None), default=0)
