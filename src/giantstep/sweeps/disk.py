"""What a store has to know about the file system it lies on."""

from __future__ import annotations

import os
from pathlib import Path

NETWORKS = ("nfs", "lustre", "gpfs", "beegfs", "cifs", "smb", "ceph", "afs", "9p", "panfs", "wekafs", "fuse.")
"""How the names of file systems begin that several machines may share."""
_MOUNTS = Path("/proc/self/mounts")


def journal_mode(path: Path) -> str:
    """Return SQLite's journal for a store: the write-ahead log, which needs memory shared by all who have it open.

    That is only so on a disk of one machine; where several may share it, the older journal relies on file locks alone.
    """
    return "TRUNCATE" if file_system(path).startswith(NETWORKS) else "WAL"


def file_system(path: Path) -> str:
    """Return the name of the file system of a path, as the kernel calls it; "" where it does not say."""
    folder = Path(os.path.realpath(path)).parent
    try:
        lines = [line.split()[1:3] for line in _MOUNTS.read_text().splitlines()]
    except OSError:
        return ""
    mounts = {point.encode().decode("unicode_escape"): kind for point, kind in lines}  # a space is written \040
    return next((mounts[str(parent)] for parent in (folder, *folder.parents) if str(parent) in mounts), "")


def is_read_only(path: Path) -> bool:
    """Tell whether a file cannot be written, or none beside it."""
    closed = path.exists() and not os.access(path, os.W_OK)
    return closed or not os.access(path.absolute().parent, os.W_OK | os.X_OK)
