"""Features written as shards, in every format."""

import itertools
from pathlib import Path

import numpy as np

FORMATS = ("npy", "npz", "parquet", "safetensors")


def write_shard(path, rows, ids=None):
    """One shard, in the format of its suffix."""
    if path.suffix == ".npy":
        np.save(path, rows)
    elif path.suffix == ".npz":
        np.savez(path, features=rows, **({} if ids is None else {"ids": np.array(ids)}))
    elif path.suffix == ".safetensors":
        from safetensors.numpy import save_file

        save_file({"features": np.ascontiguousarray(rows)}, path)
    else:
        import pyarrow as pa
        from pyarrow import parquet

        columns = {"features": pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), rows.shape[1])}
        columns |= {} if ids is None else {"id": list(ids)}
        parquet.write_table(pa.table(columns), path, row_group_size=77)


def write_shards(folder, rows, cuts, form="npy", ids=None):
    """The rows, cut at some places, as files of a new folder."""
    folder = Path(folder)
    folder.mkdir()
    ends = [0, *cuts, len(rows)]
    for place, (low, high) in enumerate(itertools.pairwise(ends)):
        write_shard(folder / f"part-{place:03d}.{form}", rows[low:high], None if ids is None else ids[low:high])
    return str(folder)
