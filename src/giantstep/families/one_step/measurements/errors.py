"""Errors and order parameters of real fits of the second layer."""

from __future__ import annotations

from typing import Any

import numpy as np

from giantstep.families.one_step.network import Trained
from giantstep.lab import Draws, ridge_path, to_numpy
from giantstep.lab.algebra import multiply
from giantstep.lab.feature_spectra import cell_edges
from giantstep.lab.network import block_sums, measure_errors
from giantstep.readout import LOSSES
from giantstep.risk.fitting import fit
from giantstep.types import Array, DeviceArray, Floats


def measure_ridge(trained: Trained, ridges: Floats, test_samples: int, draws: Draws) -> dict[str, Array]:
    """Fit b = a/sqrt(p) at every point: f(x) = sum_i b_i sigma(<w_i,x>), penalty ridge*p."""
    p = trained.network.width
    penalties = ridges * p
    fitted, train = ridge_path(trained.training(draws), p, trained.samples, penalties, draws.xp)
    test, wrong = measure_errors(trained.network, fitted, test_samples, draws)
    values = _order_parameters(trained, fitted, draws.xp)
    return {
        "test_error": test,
        "train_error": train,
        "objective": train + penalties * values["norm"] / trained.samples,
        "test_misclassified": wrong,
        **values,
    }


def _order_parameters(trained: Trained, fitted: DeviceArray, xp: Any) -> dict[str, Array]:
    """Return norm, theta, t, psi, Q1 and Q2 of the fits b = a/sqrt(p) (p, B)."""
    Q2, theta, tau = block_sums(fitted, trained.blocks, trained.bulk, xp)
    along = tau @ to_numpy(trained.directions)
    return {
        "norm": Q2.sum(axis=-1),
        "theta": theta,
        "Q2": Q2,
        "t": along[:, :, 0],
        "psi": along[:, :, 1],
        "Q1": tau @ tau.swapaxes(1, 2) - along[:, :, :1] * along[:, None, :, 0],
    }


def measure_classes(
    trained: Trained, loss: str, flip: float, ridges: Floats, test_samples: int, draws: Draws
) -> dict[str, Array]:
    """Fit b = a/sqrt(p) with a convex loss at every point, to optimality; penalty ridge*p/2 |b|^2."""
    p, samples, xp = trained.network.width, trained.samples, draws.xp
    inputs, labels = _collect(trained, draws)
    labels[draws.uniform("flips", len(labels)) < flip] *= -1
    penalties = ridges * p
    fits = [fit(inputs[:size], labels[:size], loss, ridge=penalty) for size, penalty in zip(samples, penalties)]
    fitted = xp.asarray(np.stack([solution.weights for solution in fits], axis=1))
    values = _order_parameters(trained, fitted, xp)
    values["train_error"], values["objective"] = np.empty(len(fits)), np.empty(len(fits))
    for point, (solution, size) in enumerate(zip(fits, samples)):
        margins = to_numpy(labels[:size] * (inputs[:size] @ xp.asarray(solution.weights)))
        losses = LOSSES[loss].value(margins)
        values["train_error"][point] = np.mean(margins < 0)
        values["objective"][point] = np.mean(losses) + 0.5 * penalties[point] * values["norm"][point] / size
    _, wrong = measure_errors(trained.network, fitted, test_samples, draws)
    values["test_misclassified"] = wrong
    values["test_error"] = (1 - 2 * flip) * wrong + flip
    unsolved = np.array([not solution.solved for solution in fits])
    for name, array in values.items():
        values[name] = np.where(unsolved.reshape((-1,) + (1,) * (array.ndim - 1)), np.nan, array)
    return values


def _collect(trained: Trained, draws: Draws) -> tuple[DeviceArray, DeviceArray]:
    """Return all features (n, p) and labels (n,) of the fit, on their device."""
    rows, xp = int(trained.samples.max()), draws.xp
    inputs, labels, start = xp.empty((rows, trained.network.width)), xp.empty(rows), 0
    for features, chunk in trained.training(draws):  # the features are views of a buffer: copied at once
        stop = start + len(chunk)
        inputs[start:stop], labels[start:stop] = features, chunk
        start = stop
    return inputs, labels


def measure_along(trained: Trained, ridges: Floats, kappa: Floats, test_samples: int, draws: Draws) -> dict[str, Array]:
    """Sort fresh samples by <v,x> into cells around the positions `kappa`; average the error and the output."""
    xp, network = draws.xp, trained.network
    fitted, train = ridge_path(trained.training(draws), network.width, trained.samples, ridges * network.width, xp)
    cells = cell_edges(kappa)
    counts = np.zeros(len(cells) - 1)
    squares, means = (np.zeros((len(train), len(counts))) for _ in range(2))
    for features, signal, inputs in network.samples("test", test_samples, draws):
        outputs = to_numpy(multiply(features, fitted, xp))
        along = to_numpy(inputs @ trained.directions[:, 0])
        labels, cell = to_numpy(network.target(signal)), np.searchsorted(cells, along) - 1
        inside = np.flatnonzero((cell >= 0) & (cell < len(counts)))
        counts += np.bincount(cell[inside], minlength=len(counts))
        for point, output in enumerate(outputs.T):
            residual = (labels - output) ** 2
            squares[point] += np.bincount(cell[inside], residual[inside], len(counts))
            means[point] += np.bincount(cell[inside], output[inside], len(counts))
    with np.errstate(invalid="ignore"):  # an empty cell is not measured
        return {"error_along": squares / counts + network.noise, "mean_along": means / counts}
