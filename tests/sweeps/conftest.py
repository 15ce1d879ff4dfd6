"""A diary of what was computed, and a store in an empty folder."""

from collections.abc import Callable
from pathlib import Path

import pytest

Diary = Callable[[], list[str]]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest.fixture
def diary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Diary:
    """Return the lines written since the last call."""
    from .faulty import (
        DIARY,
    )  # importing it registers a family, which is not for tests of all families

    path = tmp_path / "diary.txt"
    monkeypatch.setenv(DIARY, str(path))

    def lines() -> list[str]:
        text = path.read_text() if path.exists() else ""
        path.unlink(missing_ok=True)
        return sorted(text.splitlines())

    return lines
