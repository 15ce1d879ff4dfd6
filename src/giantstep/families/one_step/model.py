"""The spiked model that stands for the network, and its conditional Gaussian functions on a grid of kappa.

After the step, block q of the features given kappa = <v, x> is equivalent to
phi_i = mu0_q(kappa) + mu1_q(kappa) <w0_i, x> + sqrt(mu2_q(kappa)) xi_i with xi_i ~ N(0, 1), plus, for each neuron, a
shift <w0_i, v> T_q(kappa) that is as large as the bulk (sections 2 and 5.2 of the notes; T is their channel).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from giantstep.gaussian import Function, gauss_legendre_panels
from giantstep.readout.batch_bulk import Batch
from giantstep.readout.features import Tables
from giantstep.types import Floats, Integers

BOUND = 9.0
NODES_PER_PANEL = 20
"""Ten would be wrong by 3e-7 for sin with u = 3, by 1e-5 for erf with u = 3 and ridge 1e-3; twenty leave 1e-12."""
KERNEL_NODES_PER_PANEL = 10
"""For many blocks, whose equations are solved at the nodes themselves."""


@dataclass(frozen=True)
class SpikedModel:
    """Spiked random features of M parameter sets with k blocks: w_i = s_q w0_i + u_q v.

    The channel of block q is T_q = channel_slope_q kappa mu1_q + channel_curvature_q nu_q; planted spikes have
    channel_slope = 1 and channel_curvature = 0.
    """

    pi: Floats  # (k,)
    u: Floats  # (M, k)
    s: Floats  # (M, k)
    gamma: Floats  # (M,)
    noise: Floats  # (M,)
    channel_slope: Floats  # (M, k)
    channel_curvature: Floats  # (M, k)
    batch: Batch | None = None
    """The finite batch behind an anisotropic bulk; s_q is then the norm of the bulk rows."""
    gaussian_rows: bool = False
    """Rows w0_i ~ N(0, I/d) instead of the sphere: their norms fluctuate, a channel s_q nu_q of weight 1/2."""
    stretched: bool = False
    """Whether a finite dimension also counts the fluctuation of |x|^2 (the feature chi of the notes on step sizes)."""

    def __len__(self) -> int:
        return len(self.gamma)

    def take(self, index: Integers) -> SpikedModel:
        """Return the parameter sets listed in `index`."""
        batch = None if self.batch is None else self.batch.take(index)
        rows = {name: getattr(self, name)[index] for name in _ROWS}
        return dataclasses.replace(self, **rows, batch=batch)

    def distinct(self) -> tuple[SpikedModel, Integers]:
        """Return the distinct parameter sets and, for each of the M sets, which of them it is."""
        columns = [getattr(self, name).reshape(len(self), -1) for name in _ROWS]
        if self.batch is not None:
            columns += [self.batch.alpha0[:, None], self.batch.linear, self.batch.square]
        rows = np.concatenate(columns, axis=1)
        _, first, which = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        return self.take(first), which.reshape(-1)


_ROWS = ("u", "s", "gamma", "noise", "channel_slope", "channel_curvature")


def tabulate(
    activation: Function, target: Function, model: SpikedModel, order: int = NODES_PER_PANEL
) -> Iterator[tuple[Integers, Tables]]:
    """Yield (which parameter sets, their tables), grouped by the number of nodes that their kappa rule needs.

    `order` is the number of nodes on a panel.
    """
    rho = np.sqrt(np.maximum(0.0, 1 - model.gamma**2))
    finest = np.minimum(1.0, np.min(np.abs(model.s) / np.maximum(np.abs(model.u), 1e-12), axis=1))
    if target.kinks:
        smeared = (rho > 0) & (model.gamma != 0)
        width = rho / np.where(smeared, np.maximum(np.abs(model.gamma), 1e-12), 1.0)
        finest = np.where(smeared, np.minimum(finest, width), finest)
    levels = np.ceil(np.log2(1 / np.minimum(1.0, 2 * np.maximum(finest, 2.0**-40)))).astype(np.int64)
    for level in np.unique(levels):
        index = np.flatnonzero(levels == level)
        edges = _panel_edges(target, model.gamma[index], int(level))
        yield index, _tables(activation, target, model.take(index), rho[index], edges, order)


def _tables(
    activation: Function, target: Function, model: SpikedModel, rho: Floats, edges: Floats, order: int
) -> Tables:
    nodes, weights = gauss_legendre_panels(edges, order)
    weights = weights * np.exp(-(nodes**2) / 2)
    weights /= weights.sum(axis=1, keepdims=True)
    kappa = nodes[:, None, :]
    features = activation.moments(model.u[:, :, None] * kappa, model.s[:, :, None])
    labels = target.moments(model.gamma[:, None] * nodes, rho[:, None])
    slope = features.slope
    stretch = model.s[:, :, None] * features.curvature
    if model.batch is None:
        channel = (
            model.channel_slope[:, :, None] * kappa * slope + model.channel_curvature[:, :, None] * features.curvature
        )
        if model.gaussian_rows:  # (5.4)
            channel = np.concatenate([channel, stretch], axis=1)
    else:
        slope = slope / model.s[:, :, None]
        channel = np.concatenate([kappa * slope, features.curvature / (2 * model.s[:, :, None])], axis=1)
    second = target.second_moment(model.gamma[:, None] * nodes, rho[:, None])
    return Tables(
        nodes=nodes,
        weights=weights,
        mu0=features.mean,
        mu1=slope,
        mu2=features.noise,
        channel=channel,
        omega=np.repeat(np.array([[1.0, 0.5]]), model.u.shape[1], axis=1)[:, : channel.shape[1]].repeat(len(model), 0),
        stretch=stretch * model.stretched,
        h=labels.mean,
        h1=labels.slope,
        hh=second + model.noise[:, None],
        gamma=model.gamma,
    )


def _panel_edges(target: Function, gamma: Floats, level: int) -> Floats:
    """Return the panel edges (M, E): width at most 1, graded by halves towards 0 and towards the target's kinks."""
    graded = 2.0 ** -np.arange(1, level + 1)
    fixed = np.concatenate([np.arange(-BOUND, BOUND + 1), graded, -graded])
    edges = [np.broadcast_to(fixed, (len(gamma), fixed.size))]
    for kink in target.kinks:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            place = np.where(gamma == 0, BOUND, kink / gamma)[:, None]
        offsets = np.concatenate([[0.0], graded, -graded]) if kink != 0 else np.zeros(1)
        edges.append(np.clip(place + offsets, -BOUND, BOUND))
    return np.sort(np.concatenate(edges, axis=1), axis=1)
