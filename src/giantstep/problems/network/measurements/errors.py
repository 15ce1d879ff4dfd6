"""Errors of the read-out and its order parameters, measured on a real network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from giantstep.core.base.types import Array, DeviceArray, Floats
from giantstep.problems.network.questions import TEST_SAMPLES
from giantstep.problems.network.scenario import Network
from giantstep.problems.network.trained import ONLY, Trained, outputs_of
from giantstep.problems.network.weights import block_sums


def measure_errors(
    trained: Trained, ridges: Floats, settings: Mapping[str, Any]
) -> dict[str, Array]:
    """Fit the second layer at every point and measure its errors on fresh samples,
    label noise included.
    """
    network = trained.network_of
    fit = trained.fitted(ridges)
    rows = int(settings.get("test_samples") or TEST_SAMPLES)
    squares = np.zeros(len(ridges))
    wrong = np.zeros(len(ridges))
    for outputs, signal, _ in outputs_of((trained,), {ONLY: fit.weights}, rows):
        labels = np.asarray(network.target(signal))
        squares += np.sum((outputs[0] - labels[:, None]) ** 2, axis=0)
        wrong += wrong_signs(network, outputs, signal)
    # outputs of a fit that failed are NaN, which have no sign: they count as wrong
    misclassified = np.where(np.isnan(fit.train), np.nan, wrong / rows)
    if network.readout.classes:
        # the test has no flipped labels: a flip turns a right answer into a wrong one
        # with probability `flip`, and a wrong one into a right one
        test_error = (1 - 2 * trained.flip) * misclassified + trained.flip
    else:
        # the labels of the test are without noise: its variance is added, not sampled
        test_error = squares / rows + trained.network.noise
    return {
        "test_error": test_error,
        "train_error": fit.train,
        "objective": fit.objective,
        "test_misclassified": misclassified,
        **_order_parameters(trained, fit.weights),
    }


def wrong_signs(network: Network, outputs: Floats, signal: Floats) -> Floats:
    """Return how often outputs (copies, m, B) have another sign than their class, over
    copies (B,); NaN without one.
    """
    if network.class_direction is None:
        return np.full(outputs.shape[2], np.nan)
    side = np.sign(signal @ network.class_direction)
    wrong = np.sign(outputs) != side[None, :, None]
    return np.asarray(np.mean(wrong, axis=0).sum(axis=0))


def _order_parameters(trained: Trained, fitted: DeviceArray) -> dict[str, Array]:
    """Return norm, theta, t, psi, Q1 and Q2 of the fits b = a/sqrt(p) (p, B); sums over
    rows where they are defined.
    """
    Q2, theta, row_sums = block_sums(
        fitted, trained.blocks, trained.bulk, trained.draws.xp
    )
    along = row_sums @ trained.spike_axes  # (B, k, 2)
    if not trained.has_row_sums:
        along = np.full_like(along, np.nan)
    t = along[:, :, 0]
    # Q1 is what the sums have across v: v v^T is taken out, v_perp is left in
    Q1 = row_sums @ row_sums.swapaxes(1, 2) - t[:, :, None] * t[:, None, :]
    return {
        "norm": Q2.sum(axis=-1),
        "theta": theta,
        "Q2": Q2,
        "t": t,
        "psi": along[:, :, 1],
        "Q1": Q1,
    }
