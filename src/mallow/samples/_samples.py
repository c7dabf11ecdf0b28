"""The central value of the library: samples of one kind, with their features once they are embedded."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from mallow._checks import whole
from mallow.errors import Caveat, InputError
from mallow.samples._shards import Shards
from mallow.samples._value_checks import checked_labels, checked_paths, checked_texts, finite_features

Kind = Literal["text", "image", "audio", "features"]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Samples:
    """Samples of one kind, in order, with their features once they are embedded.

    Parameters
    ----------
    texts : sequence of str or None
    images : sequence of paths or None
    audio : sequence of paths or None
        Recordings: .wav or .flac files.
    features : array (n, d) or None
        One row per sample, all entries finite. An array with one axis is n samples of one feature. An array mapped from
        a .npy file stays on disk until it is used. Pass texts, images, audio or features; features may also accompany
        the others, for samples that were embedded elsewhere.
    ids : sequence of str or None
        One per sample; other values, such as numbers, are converted to strings. Samples with the same id belong
        together: they are generations for the same prompt.
    prompts : sequence of str or None
        One per sample; samples with the same prompt repeat it.
    source : str
        The origin of the samples, for messages.
    skipped : tuple of str
        The entries that were skipped while reading, with the reason: ``"human.jsonl:17: empty text"``.
    provenance : dict or None
        The origin of the features: the embedder and its revision. It must be valid JSON.
    caveats : tuple of Caveat
        Caveats of the embedder about these samples.
    shards : Shards or None
        Features in many files, which are not in memory. `load` reads them; `mallow.score` and `mallow.compare` do not
        need this.
    spaces : dict or None
        More features for evidence, each in a separate space: name → array (n, d). `mallow.score` adds its own spaces
        for texts: see docs/evidence.md.

    Attributes
    ----------
    texts : tuple of str or None
        The texts. None if there are none; `require_texts` then raises an `InputError`.
    images : tuple or None
        The images. None if there are none; `require_images` then raises an `InputError`.
    audio : tuple or None
        The recordings. None if there are none; `require_audio` then raises an `InputError`.
    features : array (n, d) or None
        The features. None if there are none; `require_features` then raises an `InputError`.

    Examples
    --------
    >>> samples = Samples(texts=["One.", "Two."], ids=["a", "b"])
    >>> samples.kind, len(samples), samples.features is None
    ('text', 2, True)
    """

    ROW: ClassVar[str] = "row "  # begins the ids of rows that belong together

    texts: tuple[str, ...] | None = None
    images: tuple[Path, ...] | None = None
    features: NDArray[Any] | None = None
    ids: tuple[str, ...] | None = None
    prompts: tuple[str, ...] | None = None
    source: str = "samples"
    skipped: tuple[str, ...] = ()
    provenance: dict[str, object] | None = None
    caveats: tuple[Caveat, ...] = ()
    shards: Shards | None = None
    audio: tuple[Path, ...] | None = None
    spaces: Mapping[str, NDArray[Any]] | None = None

    def __post_init__(self) -> None:
        given = [name for name in ("texts", "images", "audio") if getattr(self, name) is not None]
        if len(given) > 1:
            raise InputError(f"`Samples` takes `{given[0]}` or `{given[1]}`, not both. Make one set of each.")
        if not given and self.features is None and self.shards is None:
            raise InputError("`Samples` needs one of `texts`, `images`, `audio` and `features`; got none of them.")
        if self.texts is not None:
            self._set("texts", checked_texts(self.texts))
        if self.images is not None:
            self._set("images", checked_paths("images", self.images))
        if self.audio is not None:
            self._set("audio", checked_paths("audio", self.audio))
        if self.features is not None:
            self._set("features", finite_features("`features`", self.features))
        if self.spaces is not None:
            spaces = {name: finite_features(f"`spaces[{name!r}]`", rows) for name, rows in self.spaces.items()}
            self._set("spaces", spaces)
        if len(self) == 0:
            raise InputError("`Samples` must contain at least one sample; got none.")
        for name in ("ids", "prompts"):
            if getattr(self, name) is not None:
                self._set(name, checked_labels(name, getattr(self, name)))
        columns = {name: getattr(self, name) for name in ("ids", "prompts", "features")}
        columns |= {f"spaces[{name!r}]": rows for name, rows in (self.spaces or {}).items()}
        for name, values in columns.items():
            if values is not None and len(values) != len(self):
                raise InputError(
                    f"`{name}` must have one entry for each of the {len(self)} samples; got {len(values)}."
                )

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    @classmethod
    def trusted(cls, **values: Any) -> Samples:
        """Samples from values that are already checked and have the right types: for readers and embedders."""
        samples = object.__new__(cls)
        for field in fields(cls):
            samples._set(field.name, values.pop(field.name, field.default))
        if values:
            raise TypeError(f"Samples has no attributes {', '.join(values)}")
        return samples

    def __len__(self) -> int:
        return len(self.items)

    def __repr__(self) -> str:
        embedded = "" if self.features is None or self.kind == "features" else f", width={self.features.shape[1]}"
        return f"Samples({self.kind}, n={len(self)}{embedded}, source={self.source!r}, skipped={len(self.skipped)})"

    @property
    def kind(self) -> Kind:
        """The kind of the samples, embedded or not: "text", "image", "audio" or "features"."""
        if self.texts is not None:
            return "text"
        return "image" if self.images is not None else "audio" if self.audio is not None else "features"

    @property
    def items(self) -> Sequence[Any]:
        """The texts, the paths of the images or recordings, or the rows of features."""
        for items in (self.texts, self.images, self.audio, self.features, self.shards):
            if items is not None:
                return items  # type: ignore[return-value]
        return ()

    @property
    def embedder(self) -> str | None:
        """The name of the embedder that made the features, if it is known."""
        name = (self.provenance or {}).get("embedder")
        return None if name is None else str(name)

    @property
    def width(self) -> int:
        """The number of features of a sample. An InputError if the samples are not embedded."""
        return self.require_features().shape[1] if self.shards is None else self.shards.width

    @property
    def unit_names(self) -> tuple[str, ...] | None:
        """The names by which samples belong together: ids or, without them, prompts.

        None without either, and without ids if all samples have the same prompt, which distinguishes nothing.

        Examples
        --------
        >>> Samples(texts=["a", "b", "c"], prompts=["1", "1", "2"]).unit_names
        ('1', '1', '2')
        >>> Samples(texts=["a", "b", "c"], prompts=["", "", ""]).unit_names is None
        True
        """
        if self.ids or self.prompts is None:
            return self.ids
        return self.prompts if len(self.prompts) == 1 or len(set(self.prompts)) > 1 else None

    @property
    def unit_kind(self) -> str | None:
        """The kind of `unit_names`: "prompt", "row" (see `with_row_ids`), "file name" or "id"; None without any."""
        if self.ids is None and (self.shards is None or not self.shards.has_ids):
            return None if self.unit_names is None else "prompt"
        if self.shards is not None and self.shards.has_prompts:
            return "prompt"
        if self.ids is not None and self.ids[0].startswith(self.ROW):
            return "row"
        return "file name" if self.kind in ("image", "audio") else "id"

    @property
    def generations(self) -> int | None:
        """The number of samples per id (per prompt, if there are no ids); None if it varies.

        Examples
        --------
        >>> Samples(texts=["a", "b", "c", "d"], ids=["1", "1", "2", "2"]).generations
        2
        """
        groups = self.ids or self.prompts
        times = set(Counter(groups).values()) if groups else {1}
        return times.pop() if len(times) == 1 else None

    def require_texts(self) -> tuple[str, ...]:
        """The texts. An InputError if the samples are of a different kind."""
        return self.texts or self._refuse_kind("text")

    def require_images(self) -> tuple[Path, ...]:
        """The paths of the images. An InputError if the samples are of a different kind."""
        return self.images or self._refuse_kind("image")

    def require_audio(self) -> tuple[Path, ...]:
        """The paths of the recordings. An InputError if the samples are of a different kind."""
        return self.audio or self._refuse_kind("audio")

    def require_features(self) -> NDArray[Any]:
        """The features (n, d). An InputError if the samples are not embedded."""
        if self.features is None and self.shards is not None:
            return self.shards.read()
        if self.features is None:
            raise InputError(
                f"{self.source}: {self.kind} samples have no features yet. Embed them first with "
                "`mallow.embed.embed_samples` or the command `mallow embed`."
            )
        return self.features

    def _refuse_kind(self, kind: str) -> NoReturn:
        raise InputError(f"{self.source}: {kind} samples are needed here; got {self.kind} samples.")

    def load(self) -> Samples:
        """The same samples with the features of their shards in memory. An InputError if they need too much."""
        if self.shards is None:
            return self
        changes = {"features": self.shards.read(), "ids": self.ids or self.shards.ids(), "shards": None}
        return Samples.trusted(**vars(self) | changes)

    def with_features(
        self, features: NDArray[Any], *, provenance: Mapping[str, object], caveats: Sequence[Caveat] = ()
    ) -> Samples:
        """The same samples with their features, which the caller has checked: finite, one row per sample."""
        changes = {"features": features, "provenance": dict(provenance), "caveats": (*self.caveats, *caveats)}
        return Samples.trusted(**vars(self) | changes)

    def with_items(self, items: Sequence[Any]) -> Samples:
        """Other texts or files, which the caller has checked, in place of these; without features and spaces."""
        label = {"text": "texts", "image": "images", "audio": "audio"}[self.kind]
        return Samples.trusted(**vars(self) | {label: tuple(items), "features": None, "spaces": None})

    def with_spaces(self, spaces: Mapping[str, NDArray[Any]]) -> Samples:
        """The same samples with more spaces, which the caller has checked: finite, one row per sample."""
        return Samples.trusted(**vars(self) | {"spaces": {**(self.spaces or {}), **spaces}})

    def with_row_ids(self) -> Samples:
        """The same samples with the ids "row 0", "row 1", …: row i belongs to row i of other sets that have them."""
        return Samples.trusted(**vars(self) | {"ids": tuple(f"{self.ROW}{row}" for row in range(len(self)))})

    def without_ids(self) -> Samples:
        """The same samples without ids, so that samples of one prompt belong together."""
        return self if self.ids is None else Samples.trusted(**vars(self) | {"ids": None})

    def bare(self) -> Samples:
        """Only the features, without the texts, images or recordings behind them."""
        self.require_features()
        return Samples.trusted(**vars(self) | {"texts": None, "images": None, "audio": None, "spaces": None})

    def take(self, places: NDArray[np.integer] | Sequence[int]) -> Samples:
        """The samples at some places, in the order of `places`."""
        chosen = [int(place) for place in places]
        rows_of = slice(places.stop) if isinstance(places, range) and places == range(places.stop) else chosen
        changes: dict[str, object] = {}
        for name in ("texts", "images", "audio", "ids", "prompts"):
            values = getattr(self, name)
            changes[name] = None if values is None else tuple(values[place] for place in chosen)
        changes["features"] = None if self.features is None else self.features[rows_of]
        changes["spaces"] = self.spaces and {name: rows[rows_of] for name, rows in self.spaces.items()}
        return Samples.trusted(**vars(self) | changes)

    def first(self, count: int | None) -> Samples:
        """The samples of the first `count` prompts. All samples if `count` is None or there are fewer prompts.

        Samples with the same id (the same prompt, if there are no ids) belong to one prompt, and a prompt keeps all of
        its samples, wherever they are. Without ids and prompts, or if all samples have the same one, samples are
        counted.

        Examples
        --------
        >>> Samples(texts=["a", "b", "c", "d"], ids=["1", "1", "2", "2"]).first(1).texts
        ('a', 'b')
        """
        if count is None or whole("count", count, least=1) >= len(self):
            return self
        if self.shards is not None and not self.shards.has_ids:
            return Samples.trusted(**vars(self) | {"shards": self.shards.first(count)})
        if self.shards is not None:
            return self.load().first(count)
        places = first_places(self.ids or self.prompts or range(len(self)), count)
        return self if len(places) == len(self) else self.take(places)


def first_places(labels: Sequence[object], count: int) -> range | list[int]:
    """The places of the samples of the first `count` prompts. Equal labels mean the same prompt.

    If all samples have the same label, each of them counts; see `Samples.first`.
    """
    prompts = dict.fromkeys(labels)
    if len(prompts) == len(labels) or len(prompts) == 1 < count:
        return range(min(len(labels), count))
    kept = set(itertools.islice(prompts, count))
    return [place for place, label in enumerate(labels) if label in kept]
