"""Roots of monotone functions, one bracket at a time."""

from __future__ import annotations

from collections.abc import Callable


def bisect(
    positive: Callable[[float], bool],
    low: float,
    high: float,
    *,
    relative: float = 1e-13,
    max_steps: int = 200,
) -> float:
    """Return the place in (low, high) where `positive` turns from true (at `low`) to false (at `high`)."""
    for _ in range(max_steps):
        middle = 0.5 * (low + high)
        if abs(high - low) <= relative * abs(middle) or middle in (low, high):
            break
        if positive(middle):
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)
