"""The labels of an experiment: how they are drawn, and their losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from giantstep.families.mixture_glm.scenario import MixtureGLM
from giantstep.lab import Draws, to_numpy
from giantstep.risk import huber
from giantstep.types import DeviceArray, Floats, Indices


def draw_labels(
    scenario: MixtureGLM, fields: DeviceArray, clusters: Indices, draws: Draws, stream: str = ""
) -> DeviceArray:
    """Draw the label of each sample given its teacher field and cluster."""
    xp, kind, count = draws.xp, scenario.labels, len(clusters)
    if kind == "cluster":
        values = xp.asarray(scenario.signs[clusters])
    elif kind in ("logit", "random"):
        chance = 0.5 * (1 + xp.tanh(fields / 2)) if kind == "logit" else 0.5
        values = xp.where(xp.asarray(draw_vector(draws, f"{stream}coin", count, draws.uniform)) < chance, 1.0, -1.0)
    else:
        function = scenario.label_function
        values = fields if function is None else xp.asarray(function(fields))
        if scenario.noise:
            noise = xp.asarray(draw_vector(draws, f"{stream}noise", count, draws.normal))
            values = values + scenario.noise**0.5 * noise
        if function is None:
            values = xp.where(values >= 0, 1.0, -1.0)
    if scenario.flip:
        turned = xp.asarray(draw_vector(draws, f"{stream}flips", count, draws.uniform)) < scenario.flip
        values = xp.where(turned, -values, values)
    return values


def draw_vector(draws: Draws, stream: str, count: int, draw: Callable[[str, int], DeviceArray]) -> Floats:
    """Draw numbers a chunk at a time, so that the first ones do not depend on how many are wanted."""
    pieces = [to_numpy(draw(stream, draws.chunk)) for _ in range(-(-count // draws.chunk))]
    return np.concatenate(pieces)[:count]


def loss_of(loss: str, threshold: float) -> Callable[[Any, Any], Any]:
    """Return l(y, z); the limits `interpolate` and `maxmargin` have the losses they are limits of."""
    if loss in ("square", "interpolate"):
        return lambda y, z: 0.5 * (y - z) ** 2
    if loss == "logistic":
        return lambda y, z: np.logaddexp(0.0, -y * z)
    if loss in ("hinge", "maxmargin"):
        return lambda y, z: np.maximum(1 - y * z, 0.0)
    return lambda y, z: huber(y - z, threshold)
