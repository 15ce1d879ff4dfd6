"""The experiment of a network: real data, real steps, and a real fit after every one of
them.

Inputs and rows are whitened (`whitened`): isotropic inputs have the target on the first
r axes. All steps belong to one trajectory; the samples of the fit and of the test are
the same after every step, so that what a step buys is measured with little noise. One
trial passes once over the data of a fit; all sample sizes and ridges are answered on
the way.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from giantstep.core.base.errors import bad_field
from giantstep.core.base.types import Array, DeviceArray, Floats, Integers, Points
from giantstep.core.lab import Draws, chunk_rows, to_numpy
from giantstep.core.scenario.vocabulary import Vocabulary
from giantstep.problems.inputs.parts import InputRows
from giantstep.problems.network.limit import count_outliers
from giantstep.problems.network.measurements.along import measure_along
from giantstep.problems.network.measurements.errors import measure_errors
from giantstep.problems.network.measurements.spectra import (
    all_eigenvalues,
    measure_resolvent,
    measure_spectrum,
)
from giantstep.problems.network.measurements.spikes import measure_spikes
from giantstep.problems.network.measurements.steps import measure_steps
from giantstep.problems.network.measurements.weights import measure_weights
from giantstep.problems.network.plugins import module_of_measures
from giantstep.problems.network.problem import take_points
from giantstep.problems.network.questions import FITTED
from giantstep.problems.network.scenario import Network
from giantstep.problems.network.shift import test_law
from giantstep.problems.network.trained import Trained
from giantstep.problems.network.weights import (
    RealNetwork,
    draw_rows,
    gram_memory,
    ridge_memory,
    split_neurons,
    stream_memory,
)
from giantstep.problems.network.whitened import RowDraws, Whitened

_MEASUREMENTS: Mapping[str, Callable[..., dict[str, Array]]] = {
    "errors": measure_errors,
    "steps": measure_steps,
    "along": measure_along,
    "spectrum": measure_spectrum,
    "resolvent": measure_resolvent,
    "weights": measure_weights,
    "spikes": measure_spikes,
}
"""Question -> what measures it. Those of `plugins` are measured by their folders, of
one network or of two alike.
"""


def trial(
    network: Network,
    points: Points,
    what: str,
    dim: int,
    draws: Draws,
    settings: Mapping[str, Any],
) -> dict[str, Array]:
    """Answer all points of a group, which share everything but samples_per_dim and
    ridge, by one network.
    """
    if dim <= network.target.directions:
        raise bad_field(
            "dim",
            dim,
            f"above {network.target.directions}, the number of target directions",
        )
    inputs = whiten(network, points, dim)
    if inputs.rows is not None:
        draws = _row_draws(network, inputs.rows, points, dim, draws, settings)
        # a table has no more rows for the test than steps and fit leave
        tests = min(int(settings.get("test_samples") or 1), draws.left)
        settings = {**settings, "test_samples": tests}
    streams = [draws]
    folder = module_of_measures(what)
    if folder is None:
        measure = _MEASUREMENTS[what]
    else:
        measure = getattr(folder, f"measure_{what}")
        # points of a group share the law of the test inputs
        law, noise = test_law(network, points, 0)
        settings = {**settings, "law": law, "shifted_noise": noise}
        if what in folder.PAIRED:
            # the second network shares no random number with the first
            streams.append(folder.second_draws(draws))
    trajectories = [
        trained_networks(network, points, inputs, dim, stream, settings)
        for stream in streams
    ]
    of_times = _settings_of_times(network, points, what, dim, settings)
    path: list[dict[str, Array]] = []
    # generators: a trajectory holds one network at a time
    for time, networks in enumerate(zip(*trajectories)):
        if time not in settings["time"]:
            continue
        afresh = [_with_draws_anew(real) for real in networks]
        path.append(measure(*afresh, points["readout.ridge"], of_times[len(path)]))
    return _over_times(path)


def _settings_of_times(
    network: Network, points: Points, what: str, dim: int, settings: Mapping[str, Any]
) -> list[Mapping[str, Any]]:
    """Return the settings at every time that is measured: a spectrum has outliers of
    its own at each.
    """
    times = settings["time"]
    if what != "spectrum":
        return [settings] * len(times)
    # the limit says which of the eigenvalues are outliers: a spectrum does not
    counts, lines = count_outliers(network, points, dim, times)
    return [
        {**settings, "outliers": counts[:, number], "line": lines[:, number]}
        for number in range(len(times))
    ]


def _with_draws_anew(real: Trained) -> Trained:
    """Return a network whose streams begin again: after every step it is fitted and
    tested on the same samples.
    """
    return dataclasses.replace(real, draws=real.draws.anew())


def _over_times(path: list[dict[str, Array]]) -> dict[str, Array]:
    """Return the values of all times (B, T, ...)."""
    return {
        name: np.stack([values[name] for values in path], axis=1) for name in path[0]
    }


def networks(
    network: Network,
    points: Points,
    what: str,
    dim: int,
    draws: Draws,
    settings: Mapping[str, Any],
) -> dict[str, Array]:
    """Return the layers, the target, and for a spectrum the eigenvalues, of the network
    that `trial` measures.

    Questions about pairs of networks keep the first of the two.
    """
    inputs = whiten(network, points, dim)
    if inputs.rows is not None:
        draws = _row_draws(network, inputs.rows, points, dim, draws, settings)
    path: list[dict[str, Array]] = []
    trajectory = trained_networks(network, points, inputs, dim, draws, settings)
    for time, real in enumerate(trajectory):
        if time in settings["time"]:
            path.append(_kept_at(real, points, what, settings))
    # overlaps of the unit vectors with the target are the target's entries
    axes = inputs.signal(draws.xp.eye(dim), draws.xp)
    values = _over_times(path)
    # neither depends on the time; every point has a copy
    count = len(points["noise"])
    values["layer_of_steps"] = _copies(to_numpy(real.second_layer), count)
    target = to_numpy(axes).reshape(dim, -1).T
    values["target_directions"] = _copies(target, count)
    return values


def _kept_at(
    real: Trained, points: Points, what: str, settings: Mapping[str, Any]
) -> dict[str, Array]:
    """Return what is kept of a network at one time, at every point."""
    afresh = _with_draws_anew(real)
    weights = to_numpy(real.network.weights)
    kept: dict[str, Array] = {"first_layer": _copies(weights, len(points["noise"]))}
    if what in FITTED:
        # the fit has b = a/sqrt(p); a is kept
        fitted = to_numpy(afresh.fitted(points["readout.ridge"]).weights)
        kept["second_layer"] = fitted.T * math.sqrt(real.network.width)
    if what == "spectrum":
        kept["eigenvalues"] = all_eigenvalues(afresh, settings)
    return kept


def _copies(array: Array, count: int) -> Array:
    """Return so many copies of an array, along a first axis."""
    return np.repeat(array[None], count, axis=0)


def kept_memory(
    network: Network, points: Points, what: str, dim: int, settings: Mapping[str, Any]
) -> int:
    """Return the bytes of what `networks` returns: every point has a copy."""
    p = count_neurons(points, dim)
    times = len(settings["time"])
    # at every time both layers; once the layer of the steps and the target
    numbers = times * p * (dim + 1) + p + dim * network.target.directions
    return 8 * len(points["noise"]) * numbers


def trained_networks(
    network: Network,
    points: Points,
    inputs: Whitened,
    dim: int,
    draws: Draws,
    settings: Mapping[str, Any],
) -> Iterator[Trained]:
    """Yield the real network before the first step and after every one; `inputs` is
    where `whiten` has the target.
    """
    trained = _at_the_start(network, points, inputs, dim, draws, settings)
    yield trained
    # points of a group share what steps depend on: the first stands for all
    point = take_points(points, np.zeros(1, dtype=np.int64))
    point["dim"] = np.array([float(dim)])
    for number, step in enumerate(network.steps):
        trained = step.train(trained, number, point)
        yield trained


def _at_the_start(
    network: Network,
    points: Points,
    inputs: Whitened,
    dim: int,
    draws: Draws,
    settings: Mapping[str, Any],
) -> Trained:
    """Return the network before its first step, drawn at random."""
    xp = draws.xp
    width = count_neurons(points, dim)
    # drawn before whitening: rows are isotropic in the coordinates of the inputs
    rows = draw_rows(width, dim, draws, sphere=network.rows == "sphere")
    blocks, second_layer = _draw_second_layer(network, width, draws)
    if inputs.root is not None:
        # whitened rows are Sigma^1/2 w
        rows *= xp.asarray(inputs.root)
    real = RealNetwork(
        activation=network.activation,
        weights=rows,
        signal=lambda x: inputs.signal(x, xp),
        target=network.target,
        noise=float(points["noise"][0]),
    )
    return Trained(
        network=real,
        network_of=network,
        inputs=inputs,
        blocks=blocks,
        second_layer=second_layer,
        samples=count_samples(points, dim),
        draws=draws,
        bulk=rows,
        flip=float(points["flip"][0]),
        streams=settings.get("stream", "batch{number}"),
        directions=inputs.target_axes(dim, xp),
    )


def _draw_second_layer(
    network: Network, width: int, draws: Draws
) -> tuple[list[slice], DeviceArray]:
    """Return the blocks of neurons, and the second layer during the steps (p,)."""
    law = network.second_layer
    if not isinstance(law, Vocabulary):
        # no two neurons have the same value: they are one block
        return [slice(0, width)], draws.normal("second_layer", width)
    blocks = split_neurons(law.probabilities, width)
    sizes = [block.stop - block.start for block in blocks]
    return blocks, draws.xp.asarray(np.repeat(law.values, sizes))


def whiten(network: Network, points: Points, dim: int) -> Whitened:
    """Return where the target lies at a dimension; the first axis is a planted spike,
    where there is one.
    """
    if network.inputs is None:
        return Whitened.isotropic(
            network.target.directions, _alignment(network, points)
        )
    law = network.input_law(dim)
    if isinstance(network.inputs, InputRows):
        # components of the target have signs, which matter to rows that are not
        # Gaussian: every axis is a coordinate
        return Whitened(
            axes=np.arange(len(law.eigenvalues)),
            frame=network.inputs.whitened_target(),
            root=np.sqrt(law.eigenvalues),
            rows=network.inputs.table().whitened(),
        )
    # Gaussian inputs look the same along any axis of an eigenspace: few coordinates do
    spectrum = law.spectrum()
    return Whitened.of_spectrum(
        spectrum.eigenvalues, law.counts(dim), spectrum.atoms, spectrum.frame
    )


def _alignment(network: Network, points: Points) -> float:
    """Return the alignment of a planted spike with the target; 1 without a spike, w*
    is then the first axis.
    """
    for place in network.places:
        name = place.field("alignment")
        if name in points:
            # all planted spikes lie along one direction
            return float(points[name][0])
    return 1.0


def _row_draws(
    network: Network,
    rows: Floats,
    points: Points,
    dim: int,
    draws: Draws,
    settings: Mapping[str, Any],
) -> RowDraws:
    """Return draws of the rows of a table: a batch for every step, the samples of the
    fit, and the rest.
    """
    # rows are told apart by the stream that uses them
    stream = str(settings.get("stream", "batch{number}"))
    sizes = {}
    for place in network.places:
        batch = network.steps[place.number].samples(place, points, dim)
        if np.isinf(batch):
            raise bad_field(
                place.field("batch_per_dim"),
                batch,
                "finite where inputs are rows of a table",
            )
        # a planted step sees no rows
        if batch:
            sizes[stream.format(number=place.number)] = int(batch)
    # smaller samples are the first rows of the largest
    sizes["train"] = int(count_samples(points, dim).max())
    return RowDraws(draws, rows, sizes)


def count_neurons(points: Points, dim: int) -> int:
    """Return the width p, which all points share."""
    return max(1, round(float(points["width_per_dim"][0]) * dim))


def count_samples(points: Points, dim: int) -> Integers:
    """Return the sample size n of every point."""
    return np.maximum(1, np.rint(points["samples_per_dim"] * dim)).astype(np.int64)


def memory(
    network: Network, points: Points, what: str, dim: int, settings: Mapping[str, Any]
) -> int:
    """Return the bytes one trial needs at its peak."""
    p = count_neurons(points, dim)
    samples = count_samples(points, dim)
    most = int(samples.max())
    device = settings.get("device", "cpu")
    chunk = chunk_rows(device)
    # the gradient, and what the hungriest step needs beside it
    stepping = p * dim + max(
        (
            network.steps[place.number].memory(place, points, p, dim, chunk)
            for place in network.places
        ),
        default=0,
    )
    fitting = _fitting_memory(network, points, what, dim, chunk)
    if device != "cpu":
        # workspaces of its solvers, and intermediate values of whole chunks
        fitting += 6 * min(p, most) ** 2 + 3 * chunk * p
    fitting += stream_memory(p, dim, samples, chunk)
    # steps and fits come one after the other, the weights live through both
    return 8 * (_weights_memory(network, points, p, dim) + max(stepping, fitting))


def _weights_memory(network: Network, points: Points, width: int, dim: int) -> int:
    """Return how many numbers live from the first step to the last fit."""
    copies = 1
    if network.steps:
        # what a step reads, and what it writes
        copies += 2
    velocities = [
        points.get(place.field("momentum"), np.zeros(1)) for place in network.places
    ]
    if any(np.any(momentum) for momentum in velocities):
        copies += 1
    table = 0
    if network.inputs is not None:
        table = getattr(getattr(network.inputs, "rows", None), "size", 0)
    # rows of a table are there as they were given, and whitened
    return 2 * table + copies * width * dim


def _fitting_memory(
    network: Network, points: Points, what: str, dim: int, chunk: int
) -> int:
    """Return how many numbers the fits or the spectra of a question need."""
    p = count_neurons(points, dim)
    samples = count_samples(points, dim)
    if what == "weights":
        # the Gram matrix, its eigenvectors and their workspace
        return 3 * min(p, dim) ** 2
    if what == "steps":
        return p * dim
    if what in ("resolvent", "spikes"):
        rows = (network.blocks + 1) * dim * min(chunk, p)
        return p * p + max(3 * p * p, 2 * p * p + rows)
    folder = module_of_measures(what)
    if folder is not None:
        needed: int = folder.fitting_memory(what, p, dim, samples, chunk)
        return needed
    if what == "errors" and network.readout.classes:
        # all features at once, Newton's weighted copy, its matrices
        return 2 * int(samples.max()) * p + 2 * p * p
    if what in ("errors", "along"):
        return ridge_memory(p, samples, points["readout.ridge"], chunk)
    return gram_memory(p, samples)
