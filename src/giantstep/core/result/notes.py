"""Notes of a result: sentences that its reader should see, kept in ``attrs["notes"]``;
nothing is printed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def notes_in(attrs: Mapping[Any, Any]) -> list[str]:
    """Return the notes of a result by its attributes; files may hold a single one as a
    text.
    """
    return [str(note) for note in np.atleast_1d(attrs.get("notes", []))]


def missing_theories(attrs: Mapping[Any, Any]) -> list[str]:
    """Return the refusals that stand as `status` where the limit has no theory, by the
    attributes of a result.
    """
    return [str(sentence) for sentence in np.atleast_1d(attrs.get("no_theory", []))]
