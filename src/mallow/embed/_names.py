"""The one table from names to embedders, for the command line and for `embedder="name"`."""

from __future__ import annotations

import dataclasses
import difflib
import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mallow.embed._images import Preprocess
from mallow.embed._protocol import AnyEmbedder
from mallow.errors import InputError

__all__ = ["DEFAULT", "attribute", "named"]

DEFAULT = {"text": "minilm", "image": "inception"}
"""The embedder of each kind of sample where none is named; docs/choosing.md has the evidence."""

# name → what it embeds, module, function or class. The modules are imported when they are asked for.
_TABLE = {
    "minilm": ("text", "mallow.embed._onnx", "minilm"),
    "glove": ("text", "mallow.embed._word_vectors", "glove"),
    "ngram": ("text", "mallow.embed._string_kernels", "NGramKernel"),
    "subsequence": ("text", "mallow.embed._string_kernels", "SubsequenceKernel"),
    "inception": ("image", "mallow.embed._vision", "inception"),
}
# Files, by suffix.
_FILES = {
    "text": {
        ".gguf": ("mallow.embed._language_model", "LanguageModel"),
        ".onnx": ("mallow.embed._onnx", "OnnxText"),
        ".txt": ("mallow.embed._word_vectors", "WordVectors"),
        ".vec": ("mallow.embed._word_vectors", "WordVectors"),
        ".gz": ("mallow.embed._word_vectors", "WordVectors"),
        ".bin": ("mallow.embed._word_vectors", "WordVectors"),
    },
    "image": {
        ".onnx": ("mallow.embed._vision", "OnnxImages"),
        ".pt": ("mallow.embed._vision", "TorchScript"),
        ".ts": ("mallow.embed._vision", "TorchScript"),
    },
}


def named(spec: str | None, *, kind: str, options: Mapping[str, Any] | None = None) -> AnyEmbedder:
    """The embedder that a name stands for.

    Parameters
    ----------
    spec : str or None
        - None: the default for that kind of sample;
        - ``minilm``, ``glove``, ``ngram``, ``subsequence`` (texts), ``inception`` (images);
        - ``package.module:object``: a function, or an embedder, or a class or function without arguments that gives one;
        - ``sentence:NAME``: a model of sentence-transformers;
        - a path: a folder of a transformers model, or a .gguf, .onnx, .pt (TorchScript) or GloVe/word2vec text file. For an
          image network the options of `mallow.embed._images.Preprocess` are options too;
        - any other word: a transformers model of that name on the hub, ``NAME@REVISION`` for one revision.
    kind : "text" or "image"
        What it is to embed.
    options : mapping or None
        Changes to the embedder's fields, such as ``{"pooling": "mean", "max_length": 512}``.
    """
    if kind not in DEFAULT:
        raise InputError("Features are embedded already. Leave the embedder out, or pass texts or images.")
    found = _found(DEFAULT[kind] if spec is None else spec, kind, dict(options or {}))
    its_kind = getattr(found, "kind", kind)
    if its_kind != kind:
        raise InputError(f"`embedder` must embed {kind} samples; {spec} embeds {its_kind} samples.")
    return found


def _found(spec: str, kind: str, options: dict[str, Any]) -> AnyEmbedder:
    if spec in _TABLE:
        its_kind, module, name = _TABLE[spec]
        if its_kind != kind:
            others = [each for each, (one, *_) in _TABLE.items() if one == kind]
            raise InputError(f"`embedder` must embed {kind} samples; {spec} embeds {its_kind} samples. Try {others}.")
        return _changed(_loaded(module, name)(), options, spec)
    if spec.startswith("sentence:"):
        model, _, revision = spec.removeprefix("sentence:").partition("@")
        found = _loaded("mallow.embed._sentence_model", "SentenceModel")(model)
        return _changed(found, options | ({"revision": revision} if revision else {}), spec)
    path = Path(spec).expanduser()
    if path.exists() or path.suffix in {**_FILES["text"], **_FILES["image"]}:
        return _from_path(path, kind, options, spec)
    if ":" in spec:
        return _changed(_imported(spec), options, spec)
    model, _, revision = spec.partition("@")
    near = difflib.get_close_matches(spec.lower(), _TABLE, n=1, cutoff=0.75)
    if near and "/" not in spec:
        raise InputError(f"`embedder`: there is no {spec!r}; did you mean {near[0]!r}?")
    return _changed(_transformers(kind)(model), options | ({"revision": revision} if revision else {}), spec)


def _transformers(kind: str) -> Callable[..., Any]:
    home = {"text": ("mallow.embed._language_model", "LanguageModel"), "image": ("mallow.embed._vision", "VisionModel")}
    return _loaded(*home[kind])


def _from_path(path: Path, kind: str, options: dict[str, Any], spec: str) -> AnyEmbedder:
    if not path.exists():
        raise InputError(f"`embedder`: there is no file {path}.")
    if path.is_dir():
        return _changed(_transformers(kind)(str(path)), options, spec)
    known = _FILES[kind]
    if path.suffix not in known:
        raise InputError(
            f"`embedder` must be a file that ends in {', '.join(known)} for {kind} samples; got {path.name}."
        )
    make = _loaded(*known[path.suffix])
    fields = [field.name for field in dataclasses.fields(make)]  # type: ignore[arg-type]
    if "preprocess" in fields:  # of an image: its options are given beside those of the network
        of_image = {field.name for field in dataclasses.fields(Preprocess)}
        chosen = {name: options.pop(name) for name in list(options) if name in of_image and name not in fields}
        options = {"preprocess": Preprocess(**chosen), **options}
    _refuse_unknown(options, fields, spec)
    found: AnyEmbedder = make(str(path), **options)
    return found


def attribute(spec: str, argument: str) -> Any:
    """What package.module:object names, made where it is a class; `argument` is what it is meant for."""
    module, _, name = spec.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(
            f"`{argument}` must name something that can be imported as package.module:object; {spec!r} cannot: {error}."
        ) from error
    return found() if isinstance(found, type) else found


def _imported(spec: str) -> AnyEmbedder:
    found = attribute(spec, "embedder")
    if not (callable(found) or hasattr(found, "points")):
        raise InputError(f"`embedder` must be callable; {spec} is {type(found).__name__}.")
    return found  # type: ignore[no-any-return]


def _loaded(module: str, name: str) -> Callable[..., Any]:
    return getattr(importlib.import_module(module), name)  # type: ignore[no-any-return]


def _changed(embedder: Any, options: Mapping[str, Any], spec: str) -> AnyEmbedder:
    """The embedder with some fields replaced; values given as text take the type of the field they replace."""
    if not options:
        return embedder  # type: ignore[no-any-return]
    fields = (
        [field.name for field in dataclasses.fields(embedder) if field.init]
        if dataclasses.is_dataclass(embedder)
        else []
    )
    _refuse_unknown(options, fields, spec)
    found: AnyEmbedder = dataclasses.replace(embedder, **options)
    return found


def _refuse_unknown(options: Mapping[str, Any], fields: list[str], spec: str) -> None:
    for name in options:
        if name not in fields:
            raise InputError(f"{spec} has no option {name!r}; it has: {', '.join(fields) or 'none'}.")
