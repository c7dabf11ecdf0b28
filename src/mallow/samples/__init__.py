"""Samples in and out: texts, images and features, from files, folders, tables, lists and arrays.

    read(source) -> Samples          checked once, here; embedding adds features to the same set
    write(samples, path)

Nothing is skipped silently. A bad entry is an error that names its place; with `skip_bad` the entry is skipped and
listed in `Samples.skipped`.
"""

from mallow.samples._decode import decode_image
from mallow.samples._limits import Limits
from mallow.samples._read import read
from mallow.samples._samples import Samples
from mallow.samples._shard_files import list_shards, open_shard, shard_suffix
from mallow.samples._shards import Chunk, Shard, Shards, find_shards
from mallow.samples._write import write

__all__ = [
    "Chunk",
    "Limits",
    "Samples",
    "Shard",
    "Shards",
    "decode_image",
    "find_shards",
    "list_shards",
    "open_shard",
    "read",
    "shard_suffix",
    "write",
]
