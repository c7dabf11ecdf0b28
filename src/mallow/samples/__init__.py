"""Samples in and out: texts, images, recordings and features, from files, folders, tables, lists and arrays.

    read(source) -> Samples          checked once, here; embedding adds features to the same set
    write(samples, path)

Nothing is skipped silently. A bad entry is an error that names its place; with `skip_bad` the entry is skipped and
listed in `Samples.skipped`.
"""

from mallow._files import is_url
from mallow.samples._feature_arrays import check_members
from mallow.samples._media import AUDIO_SUFFIXES, decode_audio, decode_image, read_audio_header
from mallow.samples._parts import read_parts
from mallow.samples._read import holds_shards, read, read_column, split_field
from mallow.samples._samples import Samples
from mallow.samples._score_logs import ItemScores, read_item_scores
from mallow.samples._shard_files import list_shards, shard_suffix, stamp_of
from mallow.samples._shards import Chunk, Shards, find_shards
from mallow.samples._value_checks import Limits
from mallow.samples._write import (
    join,
    make_shard_folder,
    read_provenance,
    read_record,
    shard_exists,
    write,
    write_record,
    write_shard,
)

__all__ = ["Limits", "Samples", "read", "write"]
