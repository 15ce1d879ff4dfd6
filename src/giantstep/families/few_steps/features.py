"""Features of the network given kappa, and the labels beside them: few_steps_readout (4.1), (4.2), for `readout`."""

from __future__ import annotations

import dataclasses

import numpy as np

from giantstep.families.few_steps.trajectory import (
    Classes,
    Directions,
    Network,
    conditional_target,
    independent_spread,
    scale_of,
    split_directions,
    tabulated,
    theta_root,
    without_mean,
)
from giantstep.gaussian import Function
from giantstep.gaussian.moments import Moments
from giantstep.readout import Equations, Features, InputBulk, solve_signal
from giantstep.readout.bulk import Bulk, Response
from giantstep.readout.input_bulk import QuadraticNoise
from giantstep.readout.input_spread import InputSpread
from giantstep.readout.isotropic_bulk import IsotropicBulk
from giantstep.types import Floats, Integers

UNPENALISED = 1e10
"""R of a width at which coefficients of the channels cost nothing."""


def describe_features(network: Network, classes: Classes, leading: bool = False) -> Features:
    """Return the features of these classes and the target on a rule in the learnt directions; one parameter set.

    For one atom mu1 is B_q D_1, so that the bulk rows are unit vectors, and the channels are the variables of the
    spread. For inputs with a covariance mu1 is D_1, and the channels are Q^T tau_q and y_q of structured_inputs (4.5):
    `describe_bulk` knows what they cost. With `leading` the first axis of kappa is the direction along which the
    classes have moved most.
    """
    s = scale_of(network, classes)
    basis = _basis(network, classes, leading)
    given = conditional_target(network, classes, basis)
    A = classes.U @ basis.learnt @ given.nodes.T
    moments = _moments(network, A, s, basis.learnt.shape[1])
    slope = moments.slope / s[:, None]  # D_1
    JU, Js = independent_spread(network, classes)
    h1, unit = given.h1.T, np.ones(len(s))
    if _isotropic(network):
        unit = classes.B[:, 0]
        rest = np.concatenate([basis.rest, basis.silent()], axis=1)
        h1 = np.pad(h1, ((0, rest.shape[1] - len(h1)), (0, 0)))
        along, across = basis.learnt.T @ JU, rest.T @ JU
    else:  # unit vectors: one for each direction, the last one for y
        m, L = basis.learnt.shape[1], basis.rest.shape[1]
        units = np.broadcast_to(np.eye(m + L + 1), (len(s), m + L + 1, m + L + 1))
        along, across, Js = units[:, :m], units[:, m : m + L], units[:, -1]
    T0 = np.einsum("qmc,nm,qn->cqn", along, given.nodes, slope)
    T0 += np.einsum("qc,qn->cqn", Js, moments.curvature)
    Jp = np.einsum("qlc,q->lcq", across, 1 / unit)
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
        h1=h1[None],
        hh=given.square[None] + network.noise,
        kappa=given.nodes.T[None],
    )


def _moments(network: Network, A: Floats, s: Floats, learnt: int) -> Moments:
    """Return the moments of the classes at A (k, N), on a rule in so many learnt directions."""
    points = A.shape[1] / network.fineness**learnt if learnt > 1 else 0.0
    columns = np.stack(
        [tabulated(network.activation, _stacked_moments, a, float(scale), points) for a, scale in zip(A, s)], axis=1
    )
    return Moments(columns[0], columns[1], np.maximum(columns[2], 0.0), columns[3])


def _stacked_moments(activation: Function, A: Floats, s: Floats) -> Floats:
    return np.stack(activation.moments(A, s))


def _isotropic(network: Network) -> bool:
    return len(network.inputs.masses) == 1


def _basis(network: Network, classes: Classes, leading: bool) -> Directions:
    basis = split_directions(classes, network.target)
    return basis.along_leading(np.sqrt(network.pi)[:, None] * classes.U) if leading else basis


def describe_bulk(network: Network, classes: Classes, leading: bool = False) -> Bulk:
    """Return the law of the bulk rows that belongs to `describe_features`."""
    inputs = network.inputs
    if _isotropic(network):
        return IsotropicBulk()
    B = classes.B.T
    product = inputs.eigenvalues[:, None, None] * B[:, :, None] * B[:, None, :]
    diagonal = np.sqrt(inputs.coordinate_eigenvalues) * classes.past[-1][:, inputs.atoms]
    seen = np.concatenate(_basis(network, classes, leading), axis=1)
    JU, Js = independent_spread(network, classes)
    own = np.zeros_like(diagonal)
    if classes.own is not None:  # every atom has a coordinate of the noise of the batch
        diagonal = np.concatenate([diagonal, np.sqrt(inputs.eigenvalues) * classes.B], axis=1)
        own = classes.own
    columns = theta_root(network, classes).shape[2] + np.arange(diagonal.shape[1])
    spread = InputSpread(JU, Js, diagonal, columns, seen, own)
    if np.isfinite(network.quadratic_dim):
        spread = _with_quadratic_noise(network, classes, spread)
    return InputBulk(product, inputs.masses, spread)


def _with_quadratic_noise(network: Network, classes: Classes, spread: InputSpread) -> InputSpread:
    """Return the spread with one more coordinate for each atom, its noise He_2, that enters through nu_q: (8.1)."""
    inputs, (k, R, C) = network.inputs, spread.JU.shape
    K = len(inputs.masses)
    size = inputs.eigenvalues * classes.B**2 / scale_of(network, classes)[:, None] / np.sqrt(network.quadratic_dim)
    JU = np.zeros((k, R + K, C))
    JU[:, :R] = spread.JU
    JU[:, R:, :K] = size[:, :, None] * without_mean(network, np.eye(K))
    return InputSpread(
        JU,
        spread.Js,
        np.concatenate([spread.diagonal, size], axis=1),
        np.concatenate([spread.columns, np.arange(K)]),
        np.pad(spread.seen, ((0, K), (0, 0))),
        np.pad(spread.own, ((0, 0), (0, K))),
        quadratic=K,
    )


def with_quadratic_noise(equations: Equations) -> Equations:
    """Return equations whose bulk knows the noise of its quadratic channels, where it has any."""
    bulk, features = equations.bulk, equations.features
    if not isinstance(bulk, InputBulk) or not bulk.spread.quadratic:
        return equations
    curvature = features.T0[:, -len(features.pi) :]  # what y_q multiplies
    noise = QuadraticNoise(features, curvature, equations.ratio, equations.b)
    return dataclasses.replace(equations, bulk=dataclasses.replace(bulk, noise=noise))


def floors(equations: Equations, owner: Integers) -> tuple[Floats, Floats]:
    """Return the error of each point (B,) on all data, few_steps_readout (8.1), and at infinite width, (8.2).

    (8.1) is (4.3)-(4.5) at V = 0, rho = 1, lambda = 0; (8.2) leaves out its penalty too: the distance of the target to
    the span of the means and the channels. `owner` (B,) says which set of features a point has: the first depends on
    the width and on the features, the second on these only.
    """
    pairs = np.stack([owner, equations.width], axis=1)
    _, chosen, which = np.unique(pairs, axis=0, return_index=True, return_inverse=True)
    part = _on_all_data(equations.take(chosen))
    features, count = part.features, len(chosen)
    weights = np.broadcast_to(features.weights, (count, features.weights.shape[1]))
    Vh1, Vh2 = features.moments(weights)
    start = part.bulk.start(Vh2.min(axis=1), part.block_width)
    response = part.bulk.solve(Vh1, Vh2, part.block_width, start)
    all_data = _unexplained(part, response, weights)
    _, first, set_of = np.unique(owner[chosen], return_index=True, return_inverse=True)
    free = np.broadcast_to(part.bulk.spread.free if isinstance(part.bulk, InputBulk) else True, (count,))
    floor = np.empty(len(first))
    for number, row in enumerate(first):
        if free[row]:
            floor[number] = _distance(features.take(np.array([row])))
            continue
        unpenalised = response.take(np.array([row]))
        unpenalised.R[:] = UNPENALISED
        floor[number] = _unexplained(part.take(np.array([row])), unpenalised, weights[[row]])[0]
    return all_data[which.reshape(-1)], floor[set_of.reshape(-1)][which.reshape(-1)]


def _on_all_data(equations: Equations) -> Equations:
    """Return the equations of these points at rho = 1, a = 0, b = 1."""
    ones, bulk = np.ones(len(equations.width)), equations.bulk
    if isinstance(bulk, InputBulk):
        bulk = dataclasses.replace(bulk, noise=None)  # of the limit: it vanishes with 1/d
    return Equations(equations.features, ones, equations.width, 0.0 * ones, ones, bulk)


def _unexplained(equations: Equations, response: Response, weights: Floats) -> Floats:
    """Return what the means and channels with the penalties of this response do not explain of the labels."""
    features = equations.features
    psih = np.swapaxes((features.mu1 * weights[:, None, :]) @ np.swapaxes(features.h1, 1, 2), 1, 2)
    signal = solve_signal(equations, response, weights, features.h, psih, np.zeros(len(weights)))
    explained = signal.c0 * features.h + np.sum(features.h1 * signal.c1, axis=1)
    return np.sum(features.weights * (features.hh - explained), axis=1)


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
