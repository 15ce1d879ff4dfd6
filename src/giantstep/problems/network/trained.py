"""A real network between two steps: its weights, its samples, the gradient a step
follows, and what is measured.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from giantstep.core.base.types import Array, DeviceArray, Floats, Integers
from giantstep.core.lab import Draws, to_numpy
from giantstep.core.lab.algebra import multiply
from giantstep.core.lab.feature_spectra import (
    cell_edges,
    extreme_singular_vectors,
    gram_eigenvalues,
    leading_singular_values,
    resolvent_traces,
    summarise_spectrum,
)
from giantstep.core.maths.gaussian import hermite_values
from giantstep.core.readout import OUTLIER_ROOM
from giantstep.core.readout.feature_spikes import (
    SPIKE_ROOM,
    check_degrees,
    spike_degrees,
)
from giantstep.problems.network.population_gradient import population_gradient
from giantstep.problems.network.questions import TEST_SAMPLES
from giantstep.problems.network.scenario import Network
from giantstep.problems.network.weights import (
    Moved,
    RealNetwork,
    batch_gradient,
    block_sums,
)
from giantstep.problems.network.whitened import Whitened, spike_axes

Copy = tuple[int, int, int]
"""Which layer, which sample and which label noise a fit has."""
ONLY: Copy = (0, 0, 0)
"""The fit of a single network."""


class RealFit(NamedTuple):
    """Fits of a real second layer at B points."""

    weights: DeviceArray  # (p, B): b = a/sqrt(p), f(x) = sum_i b_i sigma(<w_i, x>)
    train: Floats  # (B,): training error
    objective: Floats  # (B,): loss and penalty per sample


@dataclass(frozen=True)
class Trained:
    """The network after some steps, and the samples of its fit."""

    network: RealNetwork  # weights (p, d) and labels, in whitened coordinates
    network_of: Network
    inputs: Whitened  # where the target lies
    blocks: list[slice]  # neurons of every value of the second layer
    second_layer: DeviceArray  # (p,): zeta_i during the steps
    samples: Integers  # (B,): sample sizes of the fit
    draws: Draws
    # (p, d): rows of the bulk, w0_i, or w_i - u_q v after a step on a finite batch
    bulk: DeviceArray
    flip: float = 0.0
    streams: str = "batch{number}"  # names of the random streams of the batches
    directions: DeviceArray = (
        None  # (d, 2): the spike v and v_perp; None where they are the first two axes
    )
    velocity: DeviceArray = None
    # whether a step had a finite batch, whose noise has directions of its own
    on_batch: bool = False

    @property
    def dim(self) -> int:
        """Dimension d of the inputs."""
        return int(self.network.weights.shape[1])

    def with_weights(self, weights: DeviceArray) -> Trained:
        """Return the network with other weights; where these point is not known yet."""
        network = dataclasses.replace(self.network, weights=weights)
        return dataclasses.replace(self, network=network, directions=None)

    def with_spike(self, sizes: DeviceArray, spike: DeviceArray) -> Trained:
        """Return the network whose bulk rows are w_i - sizes_i spike; v and v_perp are
        known then.
        """
        axes = spike_axes(spike, self.draws.xp)
        return dataclasses.replace(
            self, bulk=self.network.weights - sizes[:, None] * spike, directions=axes
        )

    def stream(self, number: int) -> str:
        """Return the name of the random stream of a step's batch."""
        return self.streams.format(number=number)

    def training(
        self, draws: Draws | None = None, noise: str = "train"
    ) -> Iterator[tuple[DeviceArray, DeviceArray]]:
        """Yield (features, labels) of the samples of the fit; other draws, or another
        stream of the noise, if given.
        """
        network = self.network
        rows = int(self.samples.max())
        stream = "train"
        draws = draws or self.draws
        if (
            self.network_of.fit_sample == "same"
        ):  # drawn once more from the start of their streams
            stream = noise = self.stream(len(self.network_of.steps) - 1)
            draws = draws.anew()
        errors = network.label_noise(noise, rows, draws)
        for (features, signal, _), error in zip(
            network.samples(stream, rows, draws), errors
        ):
            yield features, network.target(signal) + error

    def fitted(self, ridges: Floats) -> RealFit:
        """Return the fits of this network on its own samples."""
        return self.network_of.readout.fit(self, ridges, self.draws, "train")

    @cached_property
    def spike_axes(self) -> Floats:
        """The spike v and v_perp as columns (d, 2)."""
        xp = self.draws.xp
        return to_numpy(
            xp.eye(self.dim, 2) if self.directions is None else self.directions
        )

    def gradient(
        self,
        square: bool,
        batch: float,
        stream: str,
        *,
        output: DeviceArray = None,
        offset: float = 0.0,
    ) -> tuple[DeviceArray, DeviceArray | None]:
        """Return E (y - f) sigma'(<w_i,x>) x (p, d) on the population or on a batch,
        and X^T (y - f)/n0 of the batch.

        f = offset + sum_j output_j sigma(<w_j,x>)/p, by default of the second layer, or
        0 for the correlation loss.
        """
        xp = self.draws.xp
        network = self.network
        if output is None:
            output = self.second_layer if square else 0.0 * self.second_layer
        if math.isfinite(batch):

            def flipped(
                signal: DeviceArray,
            ) -> DeviceArray:  # classes that are flipped, for one pass over a batch
                labels = network.target(signal)
                return xp.where(
                    self.draws.uniform(stream + "_flips", len(labels)) < self.flip,
                    -labels,
                    labels,
                )

            if self.flip:
                real = dataclasses.replace(network, target=flipped)
            else:
                real = network
            return batch_gradient(
                real,
                output,
                max(1, round(batch)),
                self.draws,
                offset=offset,
                stream=stream,
            )
        expansion = (self.network_of.expansion, self.inputs)
        kept = 1 - 2 * self.flip
        return (
            population_gradient(
                network.activation, expansion, network.weights, output, xp, kept, offset
            ),
            None,
        )


def outputs_of(
    networks: Sequence[Trained],
    fits: Mapping[Copy, DeviceArray],
    rows: int,
    moved: Moved | None = None,
) -> Iterator[tuple[Floats, Floats, DeviceArray]]:
    """Yield the outputs of all fits (copies, m, B) at fresh, `moved` inputs, their
    coordinates (m, r), the inputs.
    """
    draws = networks[0].draws
    streams = [
        trained.network.samples("test", rows, draws.anew(), moved)
        for trained in networks
    ]
    for chunks in zip(*streams):
        _, signal, inputs = chunks[0]
        outputs = [
            to_numpy(multiply(chunks[layer][0], fit, draws.xp))
            for (layer, _, _), fit in fits.items()
        ]
        # the signal is a view of a buffer
        yield (
            np.stack(outputs),
            np.array(to_numpy(signal)),
            inputs,
        )


# -- what an experiment measures, a function `measure_...` for each question: errors ---


def measure_errors(
    trained: Trained, ridges: Floats, settings: Mapping[str, Any]
) -> dict[str, Array]:
    """Fit the second layer at every point and measure its errors on fresh samples,
    label noise included.
    """
    fit = trained.fitted(ridges)
    rows = int(settings.get("test_samples") or TEST_SAMPLES)
    network = trained.network_of
    flip = trained.flip
    squares, wrong = (np.zeros(len(ridges)) for _ in range(2))
    for outputs, signal, _ in outputs_of((trained,), {ONLY: fit.weights}, rows):
        squares += np.sum(
            (outputs[0] - np.asarray(network.target(signal))[:, None]) ** 2, axis=0
        )
        wrong += wrong_signs(network, outputs, signal)
    values = {
        "train_error": fit.train,
        "objective": fit.objective,
        **_order_parameters(trained, fit.weights),
    }
    values["test_misclassified"] = np.where(np.isnan(fit.train), np.nan, wrong / rows)
    values["test_error"] = squares / rows + trained.network.noise
    if network.readout.classes:
        values["test_error"] = (1 - 2 * flip) * values["test_misclassified"] + flip
    return values


def wrong_signs(network: Network, outputs: Floats, signal: Floats) -> Floats:
    """Return how often outputs (copies, m, B) have another sign than their class, over
    copies (B,); NaN without one.
    """
    if network.class_direction is None:
        return np.full(outputs.shape[2], np.nan)
    side = np.sign(signal @ network.class_direction)
    return np.asarray(
        np.mean(np.sign(outputs) != side[None, :, None], axis=0).sum(axis=0)
    )


def _order_parameters(trained: Trained, fitted: DeviceArray) -> dict[str, Array]:
    """Return norm, theta, t, psi, Q1 and Q2 of the fits b = a/sqrt(p) (p, B); sums over
    rows where they are defined.
    """
    Q2, theta, tau = block_sums(fitted, trained.blocks, trained.bulk, trained.draws.xp)
    values = {"norm": Q2.sum(axis=-1), "theta": theta, "Q2": Q2}
    defined = (
        trained.network_of.target.directions == 1 and trained.network_of.inputs is None
    )
    along = tau @ trained.spike_axes * (1.0 if defined else np.nan)
    across = tau @ tau.swapaxes(1, 2) - along[:, :, :1] * along[:, None, :, 0]
    return {**values, "t": along[:, :, 0], "psi": along[:, :, 1], "Q1": across}


# -- where the blocks are, and errors along kappa --------------------------------------


def measure_steps(
    trained: Trained, ridges: Floats, settings: Mapping[str, Any]
) -> dict[str, Array]:
    """Measure where the blocks are: means over their neurons, and d times the
    covariance inside them.
    """
    inputs = trained.inputs
    weights = to_numpy(trained.network.weights)
    d = trained.dim
    rows = [weights[block] for block in trained.blocks]
    overlaps = [inputs.signal(part, np) for part in rows]
    U = np.stack([part.mean(axis=0) for part in overlaps])
    moved = np.stack([inputs.along(part, np).mean(axis=0) for part in rows])
    across = [
        np.linalg.norm(np.delete(part, inputs.axes, axis=1), axis=1) for part in rows
    ]
    norm = np.array([np.mean(np.sum(part**2, axis=1)) for part in rows])
    spread = d * np.stack(
        [np.atleast_2d(np.cov(part, rowvar=False)) for part in overlaps]
    )
    values = {
        "U": U,
        "s": np.sqrt(norm - np.sum(moved**2, axis=1)),
        "row_norm": norm,
        "spread": spread,
    }
    values |= {
        "cosine": U / np.sqrt(norm)[:, None],
        "spread_s": d * np.array([part.var(ddof=1) for part in across]),
    }
    return {
        name: np.repeat(value[None], len(ridges), axis=0)
        for name, value in values.items()
    }


def measure_along(
    trained: Trained, ridges: Floats, settings: Mapping[str, Any]
) -> dict[str, Array]:
    """Sort fresh samples by the leading learnt direction into cells around the
    positions; average error and output.
    """
    network = trained.network
    kappa = np.asarray(settings["kappa"], dtype=float)
    rows = int(settings["test_samples"])
    place = _leading(trained)
    cells = cell_edges(kappa)
    counts = np.zeros(len(kappa))
    squares, means = (np.zeros((len(ridges), len(kappa))) for _ in range(2))
    for outputs, signal, inputs in outputs_of(
        (trained,), {ONLY: trained.fitted(ridges).weights}, rows
    ):
        labels = np.asarray(network.target(signal))
        cell = np.searchsorted(cells, place(inputs)) - 1
        inside = np.flatnonzero((cell >= 0) & (cell < len(kappa)))
        counts += np.bincount(cell[inside], minlength=len(kappa))
        for point, output in enumerate(outputs[0].T):
            squares[point] += np.bincount(
                cell[inside], (labels - output)[inside] ** 2, len(kappa)
            )
            means[point] += np.bincount(cell[inside], output[inside], len(kappa))
    with np.errstate(invalid="ignore"):  # an empty cell is not measured
        return {
            "error_along": squares / counts + network.noise,
            "mean_along": means / counts,
        }


def _leading(trained: Trained) -> Callable[[DeviceArray], Floats]:
    """Return what gives the place of inputs along the leading direction: the spike, or
    where the blocks moved most.
    """
    inputs = trained.inputs
    xp = trained.draws.xp
    known = (
        trained.directions is not None or inputs.frame is None and not trained.on_batch
    )
    if known and inputs.root is None and trained.network_of.target.directions == 1:
        axis = xp.asarray(trained.spike_axes[:, 0])
        return lambda rows: to_numpy(rows @ axis)
    # the noise of a batch has directions of its own
    whole = trained.on_batch and inputs.root is None
    if whole:
        seen = lambda rows: rows  # noqa: E731
    else:
        seen = lambda rows: inputs.along(rows, xp)  # noqa: E731
    sizes = [block.stop - block.start for block in trained.blocks]
    rows = to_numpy(seen(trained.network.weights))
    U = np.stack(
        [
            np.sqrt(size) * rows[block].mean(axis=0)
            for size, block in zip(sizes, trained.blocks)
        ]
    )
    leading: Floats = np.linalg.svd(U, full_matrices=False)[2][0]
    if whole:
        target = to_numpy(inputs.along(xp.asarray(leading[None]), xp))[0]
    else:
        target = leading
    leading = leading * np.sign(target[np.argmax(np.abs(target))])
    return lambda rows: to_numpy(seen(rows) @ xp.asarray(leading))


# -- spectra and spikes ----------------------------------------------------------------


def measure_spectrum(
    trained: Trained, ridges: Floats, settings: Mapping[str, Any]
) -> dict[str, Array]:
    """Summarise the eigenvalues of Phi^T Phi/p (or /n).

    So many as ``settings["outliers"]`` says are outliers at each point; those above
    ``settings["line"]`` are counted.
    """
    p = trained.network.width
    x = np.asarray(settings["x"], dtype=float)
    spectra = gram_eigenvalues(trained.training(), p, trained.samples, trained.draws.xp)
    rows = []
    for size, above, line in zip(
        trained.samples, settings["outliers"], settings["line"]
    ):
        eigenvalues = spectra[int(size)] / p
        if np.isfinite(line):
            count = float(np.sum(eigenvalues > line))
        else:
            count = np.nan
        unit = p / size if settings.get("normalisation") == "n" else 1.0
        summary = summarise_spectrum(unit * eigenvalues, p, int(above), x, OUTLIER_ROOM)
        rows.append({**summary, "outlier_count": count})
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def all_eigenvalues(trained: Trained, settings: Mapping[str, Any]) -> Floats:
    """Return all p eigenvalues of Phi^T Phi/p (or /n) at every point, increasing (B,
    p).
    """
    p = trained.network.width
    spectra = gram_eigenvalues(trained.training(), p, trained.samples, trained.draws.xp)
    values = np.zeros((len(trained.samples), p))
    for row, size in zip(values, trained.samples):
        largest = spectra[int(size)]
        row[p - len(largest) :] = np.maximum(largest, 0.0) / (
            size if settings.get("normalisation") == "n" else p
        )
    return values


def measure_resolvent(
    trained: Trained, ridges: Floats, settings: Mapping[str, Any]
) -> dict[str, Array]:
    """Return m(z) and the block traces V1, V2 of the resolvent of Phi^T Phi/p."""
    z = np.asarray(settings["z"], dtype=complex)
    network = trained.network_of
    V1, V2 = resolvent_traces(
        trained.training(),
        trained.blocks,
        trained.bulk,
        trained.samples,
        z,
        trained.draws.xp,
    )
    known = network.target.directions == 1 and network.inputs is None
    traces = {
        "m": V2.sum(axis=-1),
        "V2": V2,
        "V1": V1 if known else np.full_like(V1, np.nan),
    }
    return {
        f"{name}_{half}": getattr(value, half)
        for name, value in traces.items()
        for half in ("real", "imag")
    }


def measure_weights(
    trained: Trained, ridges: Floats, settings: Mapping[str, Any]
) -> dict[str, Array]:
    """Return the extreme singular values of the weights and where their vectors point,
    the same for all points.
    """
    xp = trained.draws.xp
    second_layer = trained.second_layer
    values = {}
    extremes = extreme_singular_vectors(trained.network.weights, xp)
    for end, prefix, (value, left, right) in zip(
        ("top", "bottom"), ("", "bottom_"), extremes
    ):
        values[f"{end}_singular_value"] = value
        squared_left = (left @ second_layer) ** 2 / (
            (left @ left) * (second_layer @ second_layer)
        )
        values[f"{prefix}left_alignment"] = float(squared_left)
        overlaps = to_numpy(trained.inputs.signal(right[None], xp))[0]
        values[f"{prefix}right_alignment"] = float(
            overlaps @ overlaps / float(right @ right)
        )
    return {
        name: np.full(len(trained.samples), value) for name, value in values.items()
    }


def measure_spikes(
    trained: Trained, ridges: Floats, settings: Mapping[str, Any]
) -> dict[str, Array]:
    """Return the largest singular values of F/sqrt(n) on the fit sample, and their
    overlaps with h_j(kappa).
    """
    degrees = check_degrees(settings.get("degree"))
    blocks = _features_and_functions(trained, degrees)
    sizes = (trained.network.width, len(degrees) + 1)
    values, overlaps = leading_singular_values(
        blocks, *sizes, trained.samples, SPIKE_ROOM, trained.draws.xp
    )
    alignment = overlaps[:, :, :-1]
    of_norm = overlaps[:, :, -1]
    named = spike_degrees(alignment, of_norm, degrees)
    return {
        "singular_values": values,
        "alignment": alignment,
        "norm_alignment": of_norm,
        "spike_degree": named,
    }


def _features_and_functions(
    trained: Trained, degrees: Integers
) -> Iterator[tuple[DeviceArray, DeviceArray]]:
    """Yield [F, h_j(kappa), chi] (m, p + J + 1), whose Gram matrix holds all that is
    wanted, and no labels.
    """
    xp, (p, d), rows = (
        trained.draws.xp,
        trained.network.weights.shape,
        int(trained.samples.max()),
    )
    buffer = xp.empty((min(trained.draws.chunk, rows), p + len(degrees) + 1))
    nothing = xp.zeros(len(buffer))
    place = _leading(trained)
    for features, _, inputs in trained.network.samples("train", rows, trained.draws):
        block = buffer[: len(features)]
        block[:, :p] = features
        block[:, p:-1] = xp.asarray(
            hermite_values(place(inputs), int(degrees.max()))[degrees].T
        )
        block[:, -1] = (xp.sum(inputs * inputs, axis=1) - d) / (2 * d) ** 0.5
        yield block, nothing[: len(block)]
