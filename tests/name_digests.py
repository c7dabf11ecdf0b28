"""The digest of weights in the name of an embedder, by its definition: stored features are found by this name."""

import hashlib
from pathlib import Path


def name_digest(path: Path | str) -> str:
    """Twelve hexadecimal digits for the content of a file, or of all files in a folder, with their names."""
    path, total = Path(path), hashlib.sha256()
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if file.is_file():
            total.update(f"{file.relative_to(path).as_posix()}\0".encode() if path.is_dir() else b"")
            total.update(hashlib.sha256(file.read_bytes()).digest())
    return total.hexdigest()[:12]
