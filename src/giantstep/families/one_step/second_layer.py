"""The law of the second layer at the start: its values and probabilities, and the values of real neurons."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from giantstep.types import DeviceArray, Floats, Points
from giantstep.vocabulary import Vocabulary

if TYPE_CHECKING:
    from giantstep.families.one_step.scenario import OneStep
    from giantstep.lab import Draws

GAUSSIAN_NODES = 80
WHOLE_GAUSSIAN_NODES = 60


def second_layer_law(scenario: OneStep) -> tuple[Floats, Floats]:
    """Return the values zeta_q and probabilities pi_q; a Gaussian law becomes the Gauss-Hermite nodes that matter."""
    if isinstance(scenario.second_layer, Vocabulary):
        return np.array(scenario.second_layer.values), np.array(scenario.second_layer.probabilities)
    nodes, weights = np.polynomial.hermite_e.hermegauss(GAUSSIAN_NODES)
    weights = weights / weights.sum()
    keep = weights > 1e-8
    return nodes[keep], weights[keep] / weights[keep].sum()


def whole_law(scenario: OneStep) -> tuple[Floats, Floats]:
    """Return values and probabilities of the second layer; a Gaussian one becomes all its Gauss-Hermite nodes."""
    if isinstance(scenario.second_layer, Vocabulary):
        return second_layer_law(scenario)
    nodes, weights = np.polynomial.hermite_e.hermegauss(WHOLE_GAUSSIAN_NODES)
    return nodes, weights / weights.sum()


def warn_of_gaussian(scenario: OneStep, points: Points) -> list[str]:
    """Warn of a continuous law without a dimension after a step that fits every function of kappa with it."""
    if scenario.second_layer != "gaussian" or not np.any(np.isinf(points["dim"])):
        return []
    return [
        'With second_layer="gaussian" the limit is approached only logarithmically in the dimension; '
        "give dim= for a prediction at a finite size."
    ]


def draw_second_layer(scenario: OneStep, width: int, draws: Draws) -> tuple[list[slice], DeviceArray]:
    """Return the neurons of every block and the values zeta_i of all; a Gaussian law is one block."""
    from giantstep.lab.network import split_neurons

    law = scenario.second_layer
    if not isinstance(law, Vocabulary):
        return [slice(0, width)], draws.normal("second_layer", width)
    blocks = split_neurons(law.probabilities, width)
    counts = [block.stop - block.start for block in blocks]
    return blocks, draws.xp.asarray(np.repeat(law.values, counts))
