"""The spiked model that stands for the network, and its conditional Gaussian functions on a grid of kappa.

After the step, block q of the features given kappa = <v, x> is equivalent to
phi_i = mu0_q(kappa) + mu1_q(kappa) <w0_i, x> + sqrt(mu2_q(kappa)) xi_i with xi_i ~ N(0, 1), plus, for each neuron, a
shift <w0_i, v> T_q(kappa) that is as large as the bulk (spiked_features sections 2 and 5.2; T is their channel).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from giantstep.gaussian import Function, gauss_legendre_panels
from giantstep.readout import Bulk, Features, IsotropicBulk
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
    bulk: Bulk = IsotropicBulk()
    """The law of the rows; after a finite batch s_q is the norm of the rows of an anisotropic bulk."""
    gaussian_rows: bool = False
    """Rows w0_i ~ N(0, I/d) instead of the sphere: their norms fluctuate, a channel s_q nu_q of weight 1/2."""
    stretched: bool = False
    """Whether a finite dimension also counts the fluctuation of |x|^2 (chi of step_size_regimes section 6)."""

    def __len__(self) -> int:
        return len(self.gamma)

    def take(self, index: Integers) -> SpikedModel:
        """Return the parameter sets listed in `index`."""
        rows = {name: getattr(self, name)[index] for name in _ROWS}
        return dataclasses.replace(self, **rows, bulk=self.bulk.take(index))

    @property
    def isotropic(self) -> bool:
        """Whether the rows have no preferred direction."""
        return isinstance(self.bulk, IsotropicBulk)

    def distinct(self) -> tuple[SpikedModel, Integers]:
        """Return the distinct parameter sets and, for each of the M sets, which of them it is."""
        columns = [getattr(self, name).reshape(len(self), -1) for name in _ROWS]
        rows = np.concatenate([*columns, self.bulk.columns(len(self))], axis=1)
        _, first, which = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        if len(first) == len(self):
            return self, np.arange(len(self))
        return self.take(first), which.reshape(-1)


_ROWS = ("u", "s", "gamma", "noise", "channel_slope", "channel_curvature")


def tabulate(
    activation: Function, target: Function, model: SpikedModel, order: int = NODES_PER_PANEL
) -> Iterator[tuple[Integers, Features]]:
    """Yield (which parameter sets, their features), grouped by the number of nodes that their kappa rule needs.

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
        yield index, _tabulate(activation, target, model.take(index), rho[index], edges, order)


def _tabulate(
    activation: Function, target: Function, model: SpikedModel, rho: Floats, edges: Floats, order: int
) -> Features:
    """Return the features at the nodes of the panels; the channels are t, psi (along v_perp) and |w_i|^2, if any."""
    count, all_gamma, noise = len(model), model.gamma, model.noise
    if np.ptp(all_gamma) == 0:  # the same nodes and labels for all
        edges, rho, all_gamma = edges[:1], rho[:1], all_gamma[:1]
        noise = noise[:1] if np.ptp(noise) == 0 else noise
    nodes, weights = gauss_legendre_panels(edges, order)
    weights = weights * np.exp(-(nodes**2) / 2)
    weights /= weights.sum(axis=1, keepdims=True)
    kappa, gamma = nodes[:, None, :], all_gamma[:, None]
    moments = activation.moments(model.u[:, :, None] * kappa, model.s[:, :, None])
    labels = target.moments(gamma * nodes, rho[:, None])
    stretch = model.s[:, :, None] * moments.curvature
    # after a finite batch mu1 and the channels refer to rows that are not scaled: mub1, mub2 of spiked_features (6.1)
    mu1 = moments.slope if model.isotropic else moments.slope / model.s[:, :, None]
    aligned = model.channel_slope[:, :, None] * kappa * mu1 + model.channel_curvature[:, :, None] * moments.curvature
    T0 = [aligned, np.zeros_like(aligned)]
    if not model.isotropic:
        T0.append(moments.curvature / (2 * model.s[:, :, None]))
    elif model.gaussian_rows:  # spiked_features 5.4
        T0.append(stretch)
    ones = np.ones(model.u.shape)

    def for_all(values: Floats) -> Floats:
        return np.broadcast_to(values, (count, *values.shape[1:]))

    return Features(
        pi=model.pi,
        weights=for_all(weights),
        mu0=moments.mean,
        mu1=mu1,
        mu2=moments.noise,
        T0=np.concatenate(T0, axis=1),
        omega=np.concatenate([ones, ones, 0.5 * ones][: len(T0)], axis=1),
        Jp=np.concatenate([0 * ones, ones, 0 * ones][: len(T0)], axis=1)[:, None, :],
        h=for_all(labels.mean),
        h1=for_all(labels.slope[:, None]),
        hh=for_all(target.second_moment(gamma * nodes, rho[:, None]) + noise[:, None]),
        field=for_all(gamma * nodes),
        rho=for_all(rho[:, None]),
        stretch=stretch if model.stretched else None,
        kappa=for_all(kappa),
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
