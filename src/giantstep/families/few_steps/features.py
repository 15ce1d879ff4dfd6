"""Features of the network given kappa, and the labels beside them: few_steps_readout (4.1), (4.2), for `readout`."""

from __future__ import annotations

import numpy as np

from giantstep.families.few_steps.trajectory import (
    Classes,
    Network,
    conditional_target,
    independent_spread,
    scale_of,
    split_directions,
)
from giantstep.readout import Equations, Features, InputBulk, solve_signal
from giantstep.readout.bulk import Bulk
from giantstep.readout.isotropic_bulk import IsotropicBulk
from giantstep.types import Floats


def describe_features(network: Network, classes: Classes, leading: bool = False) -> Features:
    """Return the features of these classes and the target on a rule in the learnt directions; one parameter set.

    mu1 is B_q D_1 for one atom, so that the bulk rows are unit vectors, and D_1 for inputs with a covariance. With
    `leading` the first axis of kappa is the direction along which the classes have moved most.
    """
    s = scale_of(network, classes)
    basis = split_directions(classes, network.target)
    if leading:
        basis = basis.along_leading(np.sqrt(network.pi)[:, None] * classes.U)
    given = conditional_target(network, classes, basis)
    moments = network.activation.moments(classes.U @ basis.learnt @ given.nodes.T, s[:, None])
    slope = moments.slope / s[:, None]  # D_1
    JU, Js = independent_spread(network, classes)
    T0 = np.einsum("qmc,nm,qn->cqn", basis.learnt.T @ JU, given.nodes, slope)
    T0 += np.einsum("qc,qn->cqn", Js, moments.curvature)
    unit = classes.B[:, 0] if len(network.inputs.masses) == 1 else np.ones(len(s))
    Jp = np.einsum("qlc,q->lcq", basis.rest.T @ JU, 1 / unit)
    flat = T0.shape[0] * T0.shape[1]
    return Features(
        pi=network.pi,
        weights=given.weights[None],
        mu0=moments.mean[None],
        mu1=(unit[:, None] * slope)[None],
        mu2=moments.noise[None],
        T0=T0.reshape(1, flat, -1),
        omega=np.ones((1, flat)),
        Jp=Jp.reshape(1, -1, flat),
        h=given.h[None],
        h1=given.h1.T[None],
        hh=given.square[None] + network.noise,
        kappa=given.nodes.T[None],
    )


def describe_bulk(network: Network, classes: Classes) -> Bulk:
    """Return the law of the bulk rows that belongs to `describe_features`."""
    inputs = network.inputs
    if len(inputs.masses) == 1:
        return IsotropicBulk()
    B = classes.B.T
    return InputBulk(inputs.eigenvalues[:, None, None] * B[:, :, None] * B[:, None, :], inputs.masses)


def floors(features: Features, bulk: Bulk, width: Floats) -> tuple[Floats, float]:
    """Return the error of every width beta (B,) on all data, few_steps_readout (8.1), and of infinite width, (8.2).

    (8.1) is (4.3)-(4.5) at V = 0, rho = 1, lambda = 0; (8.2) leaves out its penalty too: the distance of the target to
    the span of the means and the channels.
    """
    count, nodes = len(width), features.weights.shape[1]
    ones = np.ones(count)
    equations = Equations(features, ones, width, 0.0 * ones, ones, bulk)
    weights = np.broadcast_to(features.weights, (count, nodes))
    Vh1, Vh2 = features.moments(weights)
    start = equations.bulk.start(Vh2.min(axis=1), equations.block_width)
    response = equations.bulk.solve(Vh1, Vh2, equations.block_width, start)
    psih = np.swapaxes((features.mu1 * weights[:, None, :]) @ np.swapaxes(features.h1, 1, 2), 1, 2)
    signal = solve_signal(equations, response, weights, features.h, psih, 0.0 * ones)
    explained = signal.c0 * features.h + np.sum(features.h1 * signal.c1, axis=1)
    return np.sum(features.weights * (features.hh - explained), axis=1), _distance(features)


def _distance(features: Features) -> float:
    """Return E hh minus what the functions (mu0, T) explain of (h, h1) without any penalty."""
    root = np.sqrt(features.weights[0])
    k, channels = len(features.pi), features.channels
    means = np.concatenate([features.mu0[0], features.T0[0]]) * root
    slopes = np.tile(features.mu1[0] * root, (channels, 1))
    rows = [means.T] + [np.pad(slopes * Jp[:, None], ((k, 0), (0, 0))).T for Jp in features.Jp[0]]
    wanted = np.concatenate([features.h[0] * root, *(h1 * root for h1 in features.h1[0])])
    design = np.concatenate(rows)
    if len(design) > 4 * design.shape[1]:
        design, triangle = np.linalg.qr(design)
        left, values, _ = np.linalg.svd(triangle)
        explained = (left.T @ (design.T @ wanted))[values > 1e-12 * values[0]]
    else:
        left, values, _ = np.linalg.svd(design, full_matrices=False)
        explained = (left.T @ wanted)[values > 1e-12 * values[0]]
    return float(features.hh[0] @ features.weights[0] - explained @ explained)
