"""Starts of a Newton iteration from solutions that are known: which ones, and how they are combined."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np

from giantstep.deadline import check_time
from giantstep.readout.bulk import Response
from giantstep.types import Booleans, Floats, Integers

NEAR = 0.1
"""Difference of positions up to which a solution starts another one without steps between."""


def combine(responses: Sequence[Response], weights: Floats) -> Response:
    """Return starts that are combinations of responses, with weights (responses, B)."""
    names = ("R", "S", "g")
    parts = {name: np.stack([getattr(one, name) for one in responses]) for name in names}
    combined = {name: np.einsum("mb,mb...->b...", weights, part) for name, part in parts.items()}
    return dataclasses.replace(responses[0], **combined)


def linear_weights(x: Floats, around: Floats) -> Floats:
    """Return the weights (4, B) of interpolation on the line between the inner two of four neighbours."""
    _, left, right, _ = around
    share = np.clip((x - left) / np.where(left == right, 1.0, right - left), 0.0, 1.0)
    return np.array([0 * share, 1 - share, share, 0 * share])


def lagrange_weights(x: Floats, nodes: Floats) -> Floats:
    """Return the weights (m, B) of the values at `nodes` (m, B or 1) in the polynomial through them, at x (B,)."""
    apart = nodes[:, None] - nodes
    others = ~np.eye(len(nodes), dtype=bool)[:, :, None]
    ratios = (x - nodes)[None] / np.where(apart == 0, 1.0, apart)
    weights: Floats = np.prod(np.where(others, ratios, 1.0), axis=1)
    return weights


def cubic_weights(x: Floats, around: Floats, linear: Floats) -> Floats:
    """Return the weights (4, B) of cubic interpolation; the linear ones where there are not two on either side."""
    lone = (np.diff(around, axis=0) == 0).any(axis=0)
    return np.where(lone, linear, lagrange_weights(x, around))


def bisect(position: Floats, done: Booleans) -> Iterator[tuple[Integers, Integers]]:
    """Yield (which entries come next, two on either side that are done (4, ...)) until all are done.

    Those that are near (`NEAR`) to one that is done come next, and the middle of every gap. Where there is none on one
    side, it is the nearest one again.
    """
    order, done = np.argsort(position, kind="stable"), done.copy()
    at = position[order]
    while not done.all():
        check_time()
        known, todo = np.flatnonzero(done[order]), np.flatnonzero(~done[order])
        after = np.searchsorted(known, todo)
        left, right = known[np.maximum(after - 1, 0)], known[np.minimum(after, len(known) - 1)]
        nearest = np.where(np.abs(at[left] - at[todo]) <= np.abs(at[right] - at[todo]), left, right)
        in_gap = np.arange(len(after)) - np.searchsorted(after, after)
        middle = np.bincount(after, minlength=len(known) + 1)[after] // 2 == in_gap
        fresh = middle | (np.abs(at[nearest] - at[todo]) < NEAR)
        around = known[np.clip(after[fresh] + np.arange(-2, 2)[:, None], 0, len(known) - 1)]
        yield order[todo[fresh]], order[around]
        done[order[todo[fresh]]] = True
