"""Files that are never half written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from giantstep.core.base.errors import InputError

if TYPE_CHECKING:
    pass


def write_text(path: str | Path, text: str) -> None:
    """Write a text file in one move."""
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="")


@contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `path` which replaces it once everything is
    written.
    """
    goal = Path(path)
    if not goal.parent.is_dir():
        raise InputError(
            f"There is no folder {str(goal.parent)!r} to write {goal.name!r} into."
        )
    if goal.is_dir():
        raise InputError(f"{str(goal)!r} is a folder, not a file.")
    temporary = goal.with_name(f".{goal.stem}.{os.getpid()}{goal.suffix}")
    try:
        yield temporary
        os.replace(temporary, goal)
    except PermissionError:
        raise InputError(
            f"The folder {str(goal.parent)!r} cannot be written to."
        ) from None
    finally:
        temporary.unlink(missing_ok=True)
