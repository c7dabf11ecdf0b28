"""The files of a source in shards: a folder, a glob or a URL, on disks and in object stores."""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from mallow._files import files_below, is_glob, is_url
from mallow._optional import install_line, optional
from mallow.errors import InputError

SHARD_SUFFIXES = (".npy", ".npz", ".parquet", ".safetensors", ".jsonl", ".jsonl.gz", ".ndjson", ".ndjson.gz", ".tar")

T = TypeVar("T")
_PAUSES = (0.2, 0.8, 3.2)  # seconds before a call of an object store is repeated; chosen: its packages also retry
_REMOTE = getattr(errno, "EREMOTEIO", errno.EIO)  # s3fs: an internal error of the store; only Linux has it
_TRANSIENT = (errno.EBUSY, errno.EIO, errno.EAGAIN, _REMOTE)
Stamp = tuple[int, str]  # bytes; time of the last change, or the version in an object store


def shard_suffix(name: str) -> str:
    """The suffix that determines the format of a shard; "" for other files."""
    return next((suffix for suffix in SHARD_SUFFIXES[::-1] if name.lower().endswith(suffix)), "")


def list_shards(source: str) -> tuple[str, ...]:
    """The shards of a folder, a glob or a URL (also of a single file), in the order of their names. All of one format.

    Hidden files and files of other formats are ignored.
    """
    names = _list_files(source)
    shards = [name for name in names if shard_suffix(name) and not name.rsplit("/", 1)[-1].startswith((".", "_"))]
    if not shards:
        content = ", ".join(name.rsplit("/", 1)[-1] for name in names[:3]) + (", …" if len(names) > 3 else "")
        reason = f"matches no shards, only {content}" if names else "matches no file"
        raise InputError(f"{source}: {reason}. Shards end in {' '.join(SHARD_SUFFIXES)}. Check the path.")
    formats = sorted({shard_suffix(name).removesuffix(".gz") for name in shards})
    if len(formats) > 1:
        raise InputError(
            f"{source}: all shards must be of one format; got {' and '.join(formats)}. Choose some: "
            f"{source.rstrip('/')}/*{formats[0]}"
        )
    if not is_glob(source):
        _refuse_different_names(source, shards)
    return tuple(shards)


def _list_files(source: str) -> list[str]:
    """All files of a folder, a glob or a URL."""
    if not is_url(source):
        path = Path(os.path.expanduser(source))
        if path.is_dir():
            return sorted(str(file) for file in files_below(path) if file.is_file())
        import glob

        names = [str(path)] if path.is_file() else glob.glob(str(path), recursive=True)
        return sorted(name for name in names if os.path.isfile(name))
    system, address = file_system(source)

    def find() -> list[str]:
        if is_glob(address):
            return list(system.glob(address))
        # Not isdir and exists, since they return False if a store does not answer.
        return list(system.find(address)) if system.info(address)["type"] == "directory" else [address]

    try:
        return sorted(system.unstrip_protocol(name) for name in ask_store(source, find))
    except FileNotFoundError:
        return []


def _refuse_different_names(source: str, shards: list[str]) -> None:
    """Files of a folder that differ in more than numbers may be different sets, so the user must decide."""
    kinds = {re.sub(r"[0-9]+", "0", name.rsplit("/", 1)[-1]): name.rsplit("/", 1)[-1] for name in shards}
    if len(kinds) > 1:
        one, other, *_ = kinds.values()
        raise InputError(
            f"{source}: the shards of a folder must be named alike but for numbers, as part-0001.npy is; got {one} and "
            f"{other}, which may be different sets. Choose with a pattern, such as "
            f"{source.rstrip('/')}/*{shard_suffix(one)}, or pass one file."
        )


def file_system(url: str) -> tuple[Any, str]:
    """The file system of a URL, and the path in it."""
    fsspec = optional("fsspec", extra="objects")
    try:
        system, path = fsspec.core.url_to_fs(url)
    except ImportError as error:
        raise InputError(
            f"{url}: the package for {url.partition(':')[0]}:// is not installed: {install_line('objects')}"
        ) from error
    except Exception as error:  # an unknown protocol, or missing credentials
        raise _no_access(url, error) from error
    return system, path


def ask_store(name: str, call: Callable[[], T], *, action: str = "read") -> T:
    """The result of a call of an object store. After temporary errors it is tried again, with growing pauses.

    An object that does not exist is a FileNotFoundError; everything else is an InputError with the name of the object.
    """
    pauses = iter(_PAUSES)
    while True:
        try:
            return call()
        except (FileNotFoundError, InputError):
            raise
        except Exception as error:  # each store has its own errors
            pause = next(pauses, None)
            if pause is None or not _is_transient(error):
                raise _no_access(name, error, action) from error
        time.sleep(pause)


def _is_transient(error: BaseException) -> bool:
    """Whether an error comes from the network or a busy store, and not from the address or missing rights."""
    if isinstance(error, ConnectionError | TimeoutError) or getattr(error, "errno", None) in _TRANSIENT:
        return True
    name = type(error).__name__  # botocore, aiohttp and others have their own classes
    return any(word in name for word in ("Timeout", "ConnectionClosed", "EndpointConnection", "ServerDisconnected"))


def _no_access(name: str, error: Exception, action: str = "read") -> InputError:
    reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    return InputError(f"{name}: cannot be {action}: {reason}. Check the address and your credentials for it.")


def stamp_of(name: str) -> Stamp:
    """The marks of a changed file: its size, and its time or version."""
    with _present(name):
        if not is_url(name):
            status = os.stat(name)
            return status.st_size, str(status.st_mtime_ns)
        system, path = file_system(name)
        system.invalidate_cache()
        facts = ask_store(name, lambda: system.info(path))
    versions = [facts[key] for key in ("ETag", "etag", "mtime", "LastModified", "created") if key in facts]
    return int(facts["size"]), str(versions[0]) if versions else ""


@contextmanager
def _present(name: str) -> Iterator[None]:
    """Inside the block, an InputError if the shard is no longer there or cannot be read."""
    try:
        yield
    except FileNotFoundError as error:
        raise gone(name) from error
    except OSError as error:
        raise _no_access(name, error) from error


def gone(name: str) -> InputError:
    """The error for a shard that is no longer there."""
    return InputError(
        f"{name}: the shard is no longer there. Put it back and start again. A checkpoint keeps finished work."
    )


@contextmanager
def open_shard(name: str) -> Iterator[BinaryIO]:
    """The bytes of a shard, with random access."""
    try:
        if is_url(name):
            system, path = file_system(name)
            stream = ask_store(name, lambda: system.open(path, "rb"))
            read = stream.read  # a failed read does not change the position in the object
            stream.read = lambda length=-1: ask_store(name, lambda: read(length))
        else:
            stream = open(name, "rb")  # noqa: SIM115 - closed below
    except FileNotFoundError as error:
        raise gone(name) from error
    except OSError as error:
        raise InputError(f"{name}: cannot be opened: {error.strerror or error}. Check its permissions.") from error
    with stream:
        yield stream


def read_bytes(name: str, start: int, stop: int) -> bytes:
    """Some bytes of a shard. An InputError if there are fewer."""
    with _present(name):
        if is_url(name):
            system, path = file_system(name)
            content: bytes = ask_store(name, lambda: system.cat_file(path, start=start, end=stop))
        else:
            with open(name, "rb") as file:
                file.seek(start)
                content = file.read(stop - start)
    if len(content) < stop - start:
        raise InputError(f"{name}: the shard ends too early: {len(content)} of {stop - start} bytes. Write it again.")
    return content
