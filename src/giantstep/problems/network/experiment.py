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
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from giantstep.core.base.errors import bad_field
from giantstep.core.base.types import Array, Floats, Integers, Points
from giantstep.core.lab import Draws, chunk_rows, to_numpy
from giantstep.core.scenario.vocabulary import Vocabulary
from giantstep.problems.inputs.parts import InputRows
from giantstep.problems.network import measure_beyond
from giantstep.problems.network import trained as measure
from giantstep.problems.network.beyond import BEYOND
from giantstep.problems.network.limit import count_outliers
from giantstep.problems.network.measure_beyond import (
    PAIRED,
    fitting_memory,
    second_draws,
)
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
    times = settings["time"]
    inputs = whiten(network, points, dim)
    if inputs.rows is not None:
        draws = _row_draws(network, inputs.rows, points, dim, draws, settings)
        settings = {
            **settings,
            "test_samples": min(int(settings.get("test_samples") or 1), draws.left),
        }
    if what == "spectrum":
        counts, lines = count_outliers(network, points, dim, times)
    if what in BEYOND:
        law, noise = test_law(network, points, 0)
        settings = {**settings, "law": law, "shifted_noise": noise}
    streams = [draws, second_draws(draws)] if what in PAIRED else [draws]
    paths = [
        trained_networks(network, points, inputs, dim, own, settings) for own in streams
    ]
    measured = getattr(measure_beyond if what in BEYOND else measure, f"measure_{what}")
    path: list[dict[str, Array]] = []
    for time, networks in enumerate(zip(*paths)):
        if time in times:
            # the same samples
            again = [
                dataclasses.replace(real, draws=real.draws.anew()) for real in networks
            ]
            if what == "spectrum":
                settings = {
                    **settings,
                    "outliers": counts[:, len(path)],
                    "line": lines[:, len(path)],
                }
            path.append(measured(*again, points["readout.ridge"], settings))
    return {
        name: np.stack([answer[name] for answer in path], axis=1) for name in path[0]
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
    count = len(points["noise"])
    path = list[dict[str, Array]]()
    if inputs.rows is not None:
        draws = _row_draws(network, inputs.rows, points, dim, draws, settings)
    for time, real in enumerate(
        trained_networks(network, points, inputs, dim, draws, settings)
    ):
        if time not in settings["time"]:
            continue
        again = dataclasses.replace(real, draws=real.draws.anew())  # the same samples
        kept: dict[str, Array] = {
            "first_layer": np.repeat(
                to_numpy(real.network.weights)[None], count, axis=0
            )
        }
        if what in FITTED:
            fit = again.fitted(points["readout.ridge"])
            kept["second_layer"] = to_numpy(fit.weights).T * math.sqrt(
                real.network.width
            )
        if what == "spectrum":
            kept["eigenvalues"] = measure.all_eigenvalues(again, settings)
        path.append(kept)
    values = {name: np.stack([kept[name] for kept in path], axis=1) for name in path[0]}
    axes = inputs.signal(draws.xp.eye(dim), draws.xp)
    of_all = {
        "layer_of_steps": to_numpy(real.second_layer),
        "target_directions": to_numpy(axes).reshape(dim, -1).T,
    }
    return values | {
        name: np.repeat(array[None], count, axis=0) for name, array in of_all.items()
    }


def kept_memory(
    network: Network, points: Points, what: str, dim: int, settings: Mapping[str, Any]
) -> int:
    """Return the bytes of what `networks` returns: every point has a copy."""
    p = count_neurons(points, dim)
    times = len(settings["time"])
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
    xp, width = draws.xp, count_neurons(points, dim)
    rows = draw_rows(width, dim, draws, sphere=network.rows == "sphere")
    blocks = [slice(0, width)]
    law = network.second_layer
    if isinstance(law, Vocabulary):
        blocks = split_neurons(law.probabilities, width)
        second_layer = xp.asarray(
            np.repeat(law.values, [block.stop - block.start for block in blocks])
        )
    else:
        second_layer = draws.normal("second_layer", width)
    if inputs.root is not None:
        rows *= xp.asarray(inputs.root)
    noise = float(points["noise"][0])
    flip = float(points["flip"][0])
    streams = settings.get("stream", "batch{number}")
    real = RealNetwork(
        network.activation, rows, lambda x: inputs.signal(x, xp), network.target, noise
    )
    samples = count_samples(points, dim)
    axes = inputs.target_axes(dim, xp)
    trained = Trained(
        real,
        network,
        inputs,
        blocks,
        second_layer,
        samples,
        draws,
        rows,
        flip,
        streams,
        axes,
    )
    yield trained
    point = {
        **take_points(points, np.zeros(1, dtype=np.int64)),
        "dim": np.array([float(dim)]),
    }
    for number, step in enumerate(network.steps):
        trained = step.train(trained, number, point)
        yield trained


def whiten(network: Network, points: Points, dim: int) -> Whitened:
    """Return where the target lies at a dimension; the first axis is a planted spike,
    where there is one.
    """
    if network.inputs is None:
        found = [
            points[place.field("alignment")][0]
            for place in network.places
            if place.field("alignment") in points
        ]
        return Whitened.isotropic(
            network.target.directions, float(found[0]) if found else 1.0
        )
    law = network.input_law(dim)
    if isinstance(
        network.inputs, InputRows
    ):  # the target has signs that matter: every axis is a coordinate
        frame = network.inputs.whitened_target()
        table = network.inputs.table()
        return Whitened(
            np.arange(len(law.eigenvalues)),
            frame,
            np.sqrt(law.eigenvalues),
            table.whitened(),
        )
    spectrum = law.spectrum()
    return Whitened.of_spectrum(
        spectrum.eigenvalues, law.counts(dim), spectrum.atoms, spectrum.frame
    )


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
    sizes = {}
    for place in network.places:
        batch = network.steps[place.number].samples(place, points, dim)
        if np.isinf(batch):
            raise bad_field(
                place.field("batch_per_dim"),
                batch,
                "finite where inputs are rows of a table",
            )
        if batch:
            sizes[
                str(settings.get("stream", "batch{number}")).format(number=place.number)
            ] = int(batch)
    return RowDraws(
        draws, rows, {**sizes, "train": int(count_samples(points, dim).max())}
    )


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
    device = settings.get("device", "cpu")
    most = int(samples.max())
    chunk = chunk_rows(device)
    if network.inputs is None:
        table = 0
    else:
        table = getattr(getattr(network.inputs, "rows", None), "size", 0)
    momentum = any(
        np.any(points.get(place.field("momentum"), np.zeros(1)))
        for place in network.places
    )
    weights = 2 * table + (1 + 2 * bool(network.steps) + momentum) * p * dim
    building = [
        network.steps[place.number].memory(place, points, p, dim, chunk)
        for place in network.places
    ]
    if what == "weights":
        fitting = 3 * min(p, dim) ** 2
    elif what == "steps":
        fitting = p * dim
    elif what in ("resolvent", "spikes"):
        fitting = p * p + max(
            3 * p * p, 2 * p * p + (network.blocks + 1) * dim * min(chunk, p)
        )
    elif what in BEYOND:
        fitting = fitting_memory(what, p, dim, samples, chunk)
    elif (
        what == "errors" and network.readout.classes
    ):  # all features at once, Newton's weighted copy, its matrices
        fitting = 2 * most * p + 2 * p * p
    elif what in ("errors", "along"):
        fitting = ridge_memory(p, samples, points["readout.ridge"], chunk)
    else:
        fitting = gram_memory(p, samples)
    if device != "cpu":
        fitting += 6 * min(p, most) ** 2 + 3 * chunk * p
    fitting += stream_memory(p, dim, samples, chunk)
    return 8 * (weights + max(p * dim + max(building, default=0), fitting))
