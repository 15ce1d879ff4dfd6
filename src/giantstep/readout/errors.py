"""Test and training error of the ridge fit, given the first-order solution: least squares and a linear system."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from giantstep.readout.batch_bulk import Tangents, signal_covariance
from giantstep.readout.features import Tables
from giantstep.readout.first_order import (
    BATCH_CHUNK,
    KERNEL_CHUNK,
    PACKED_BLOCKS,
    FirstOrder,
    batch_tangents,
    kernel,
    packed_coupling,
    response_matrix,
)
from giantstep.solve import solve_each
from giantstep.types import Floats, Integers

CHUNK = 64


@dataclass
class Risk:
    """Errors and order parameters of B points; the letters are those of the notes."""

    test: Floats
    train: Floats
    objective: Floats
    misclassified: Floats
    norm: Floats
    null: Floats
    theta: Floats
    t: Floats
    psi: Floats
    Q1: Floats
    Q2: Floats
    identity: Floats
    along: Floats
    """RES and c interpolated to the wanted places along kappa, (B, 2, K)."""

    @classmethod
    def join(cls, parts: list[Risk], index: Integers, count: int, k: int, places: int) -> Risk:
        """Put chunks of points into their places among `count`; NaN elsewhere."""
        shapes = {"theta": (k,), "t": (k,), "psi": (k,), "Q1": (k, k), "Q2": (k,), "along": (2, places)}
        whole = cls(**{name: np.full((count, *shapes.get(name, ())), np.nan) for name in cls.__dataclass_fields__})
        for name in cls.__dataclass_fields__ if parts else ():
            getattr(whole, name)[index] = np.concatenate([getattr(part, name) for part in parts])
        return whole


def risk(first: FirstOrder, inverse_dim: Floats, *, packed: bool | None = None, kappa: Floats | None = None) -> Risk:
    """Return the errors at each point; `inverse_dim` is 1/d of the finite-size option (0 in the limit).

    `kappa` asks for the error and the mean output at these places along the learnt direction.
    """
    kappa = np.empty(0) if kappa is None else kappa
    if packed is None:
        packed = len(first.equations.pi) <= PACKED_BLOCKS
    size = (CHUNK if first.equations.batch is None else BATCH_CHUNK) if packed else KERNEL_CHUNK
    solved = np.isfinite(first.residual) & np.all(first.denominator > 0, axis=1) & np.all(first.response.R > 0, axis=1)
    solved &= np.isfinite(first.response.S).all(axis=(1, 2))
    index = np.flatnonzero(solved)
    parts = [
        _risk_chunk(first.take(some), inverse_dim[some], packed, kappa)
        for some in np.split(index, np.arange(size, len(index), size))
        if some.size
    ]
    return Risk.join(parts, index, len(first.V), len(first.equations.pi), len(kappa))


def _risk_chunk(first: FirstOrder, inverse_dim: Floats, packed: bool, kappa: Floats) -> Risk:
    equations, response = first.equations, first.response
    tables, beta = equations.tables, equations.width
    a, b, r = equations.a, equations.b, equations.ratio
    R, S, Vh1 = response.R, response.S, response.Vh1
    k = R.shape[1]
    weights, squared = first.node_weights, first.squared_weights
    h, h1, hh, mu1, mu2 = tables.h, tables.h1, tables.hh, tables.mu1, tables.mu2

    psih = ((mu1 * h1[:, None, :]) @ weights[:, :, None])[:, :, 0]  # (4.1)
    if equations.batch is None:
        psi = (S @ psih[:, :, None])[:, :, 0]
        theta, t, c = _means(first, inverse_dim)
    else:
        theta, t, psi, c, dual = _batch_means(first, inverse_dim, psih)

    along = (psi[:, None, :] @ mu1)[:, 0, :]
    source = hh - 2 * c * h + c**2 - 2 * h1 * along  # RES of (4.3) at Q = 0
    paid = theta**2 * inverse_dim[:, None]
    if equations.batch is None:
        source = source + (theta[:, None, :] @ tables.stretch)[:, 0, :] ** 2 * (inverse_dim / 2)[:, None]
        paid = paid + np.sum(t.reshape(len(t), -1, k) ** 2 / tables.omega.reshape(len(tables.omega), -1, k), axis=1)
    drive = beta[:, None] * paid / R**2  # what (4.4) adds to e
    A0 = beta[:, None, None] * psih[:, :, None] * psih[:, None, :]
    if packed:
        features = equations.features
        inhomogeneous = (features @ (squared * source)[:, :, None])[:, :, 0]
        if equations.batch is None:
            lift = response_matrix(equations, response)
            right = lift @ (inhomogeneous + equations.pack(A0, drive))[:, :, None]
        else:
            tangents = batch_tangents(equations, response)
            lift = tangents.matrix
            push = _signal_push(first, tangents, theta, t, dual, inverse_dim)
            right = lift @ inhomogeneous[:, :, None] - push[:, :, None]
        coupling = packed_coupling(equations, squared)
        packed_Q = solve_each(np.eye(lift.shape[1]) - lift @ coupling, right)[:, :, 0]
        Q1, Q2 = equations.unpack(packed_Q)
        variance = ((packed_Q * equations.multiplicity)[:, None, :] @ features)[:, 0, :]
        res = source + variance
    else:
        Ker, E, Mi = kernel(equations, response)
        src = (psi**2 + paid) / R**2
        bare = source + along**2 + ((Mi @ src[:, :, None]).transpose(0, 2, 1) @ E)[:, 0, :]
        eye = np.eye(Ker.shape[1])
        res = solve_each(eye - Ker * squared[:, None, :], bare[:, :, None])[:, :, 0]
        e = (mu2 @ (squared * res)[:, :, None])[:, :, 0] + drive
        A = (mu1 * (squared * res)[:, None, :]) @ np.swapaxes(mu1, 1, 2) + A0
        Th = np.eye(k) - S @ Vh1
        weighted = (R**2 / equations.block_width) * (e + np.einsum("bqi,bqj,bji->bi", Th, A, Th))
        delta = solve_each(response.transfer(equations.block_width), weighted[:, :, None])[:, :, 0]
        Q2 = delta / beta[:, None]
        Q1 = (S @ A @ S + (S * (delta / R**2)[:, None, :]) @ S) / beta[:, None, None]
        variance = res - source

    w = tables.weights
    denominator = first.denominator
    test = np.sum(w * res, axis=1)
    train_over_b = b * np.sum(w * res / denominator**2, axis=1)
    norm = Q2.sum(axis=1)
    loss_over_b = train_over_b + a / r * norm  # (4.7) divided by b, so that it says something at b = 0 too
    expected = np.sum(w * (hh - c * h - h1 * along) / denominator, axis=1)
    # a perfect fit is what is left of hh after cancellation: nothing can be said below its rounding
    rounding = 1e-9 * np.sum(w * hh / denominator, axis=1)
    return Risk(
        test=test,
        train=b * train_over_b,
        objective=b * loss_over_b,
        misclassified=misclassified(tables, c, along, variance),
        norm=norm,
        null=np.broadcast_to(np.sum(w * hh, axis=1), test.shape),
        theta=theta,
        t=t[:, :k],
        psi=psi,
        Q1=Q1,
        Q2=Q2,
        identity=np.abs(loss_over_b - expected) / np.maximum(np.abs(expected), rounding),
        along=_interpolated(tables.nodes, np.stack([res, c], axis=1), kappa),
    )


def _interpolated(nodes: Floats, values: Floats, places: Floats) -> Floats:
    """Interpolate (B, 2, N) values from the nodes of each point to `places` by cubic splines."""
    if not places.size:
        return np.empty((*values.shape[:2], 0))
    from scipy.interpolate import CubicSpline

    out = np.empty((*values.shape[:2], len(places)))
    for point, row in enumerate(np.broadcast_to(nodes, (len(values), nodes.shape[1]))):
        distinct, first = np.unique(row, return_index=True)
        out[point] = CubicSpline(distinct, values[point][:, first], axis=1)(places)
    return out


def _means(first: FirstOrder, inverse_dim: Floats) -> tuple[Floats, Floats, Floats]:
    """Solve (4.2) for theta and t (all channels), columns scaled by sqrt(R omega); return c(kappa) as well.

    At a finite dimension the inputs are stretched by chi/sqrt(2 d), chi ~ N(0, 1), which every mean follows as s nu: a
    spurious regressor that the fit has to suppress.
    """
    tables = first.equations.tables
    R = first.response.R
    count, k = R.shape
    scale = np.sqrt(R)[:, :, None]
    channels = tables.channel.shape[1]
    channel_scale = np.tile(np.sqrt(R), channels // k)[:, :, None] * np.sqrt(tables.omega)[:, :, None]
    functions = np.concatenate([tables.mu0 * scale, tables.channel * channel_scale], axis=1)
    finite_size = np.repeat(np.sqrt(inverse_dim)[:, None], k, axis=1)
    penalty = np.concatenate([finite_size, np.ones((count, channels))], axis=1)
    spurious = None
    if inverse_dim.any() and tables.stretch.any():
        spurious = np.zeros_like(functions)
        spurious[:, :k] = tables.stretch * scale * np.sqrt(inverse_dim / 2)[:, None, None]
    source = np.zeros((count, k + channels))
    solution, c = least_squares(first.node_weights, tables.h, functions, penalty, source, spurious)
    return solution[:, :k] * scale[:, :, 0], solution[:, k:] * channel_scale[:, :, 0], c


def least_squares(
    weights: Floats, wanted: Floats, functions: Floats, penalty: Floats, source: Floats, spurious: Floats | None = None
) -> tuple[Floats, Floats]:
    """Minimise sum weights (wanted - x.functions)^2 + |penalty x - source|^2; return x and c = x.functions at nodes.

    `spurious` functions, if any, add sum weights (x.spurious)^2. By SVD of the design matrix: the mean functions mu0_q
    are often nearly collinear, so that the Gram matrix would lose half the digits, and c is read from the left singular
    vectors instead of being summed.
    """
    root = np.sqrt(weights)
    count, columns, nodes = functions.shape
    design = np.zeros((count, nodes + columns + (0 if spurious is None else nodes), columns))
    design[:, :nodes] = np.swapaxes(functions * root[:, None, :], 1, 2)
    design[:, nodes + np.arange(columns), np.arange(columns)] = penalty
    response = np.zeros(design.shape[:2])
    response[:, :nodes], response[:, nodes : nodes + columns] = root * wanted, source
    if spurious is not None:
        design[:, nodes + columns :] = np.swapaxes(spurious * root[:, None, :], 1, 2)
    broken = ~np.isfinite(design).all(axis=(1, 2))
    design[broken] = 0.0  # the SVD would refuse the whole batch; these points come back as NaN
    U, singular, Vt = np.linalg.svd(design, full_matrices=False)
    U[broken] = np.nan
    keep = singular > 1e-14 * singular[:, :1]
    coordinates = np.where(keep, (np.swapaxes(U, 1, 2) @ response[:, :, None])[:, :, 0], 0.0)
    c = (U[:, :nodes] @ coordinates[:, :, None])[:, :, 0] / np.where(root > 0, root, 1.0)
    scaled = coordinates / np.where(keep, singular, 1.0)
    return (np.swapaxes(Vt, 1, 2) @ scaled[:, :, None])[:, :, 0], c


def batch_channels(first: FirstOrder) -> tuple[Floats, Floats, Floats]:
    """Return the functions T of (t, psi, y) after a finite batch (B, 3k, N), a factor C, and C^T T.

    The prior P' = (I - P Vh1_tt)^-1 P = sign(R) C C^T makes (t, psi, y) = C x with the penalty |x|^2 in (6.8).
    """
    equations, response = first.equations, first.response
    assert equations.batch is not None
    tables, R, Vh1 = equations.tables, response.R, response.Vh1
    count, k = R.shape
    P = signal_covariance(equations.batch, equations.ladder, response.gm, R, Vh1)
    inside = np.zeros_like(P)
    inside[:, :k, :k] = Vh1
    prior = np.sign(R[:, :1, None]) * solve_each(np.eye(3 * k) - P @ inside, P)
    prior[~np.isfinite(prior).all(axis=(1, 2))] = 0.0
    eigenvalues, vectors = np.linalg.eigh(0.5 * (prior + np.swapaxes(prior, 1, 2)))
    C = vectors * np.sqrt(np.maximum(eigenvalues, 0.0))[:, None, :]
    T = np.zeros((count, 3 * k, tables.h.shape[1]))
    T[:, :k], T[:, 2 * k :] = tables.channel[:, :k], tables.channel[:, k:]
    return T, C, np.swapaxes(C, 1, 2) @ T


def _batch_means(first: FirstOrder, inverse_dim: Floats, psih: Floats) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Solve (6.8) for theta, t, psi (and y) after a finite batch; return c(kappa) and P^-1 (t, psi, y) as well."""
    tables, R, Vh1 = first.equations.tables, first.response.R, first.response.Vh1
    count, k = R.shape
    T, C, channels = batch_channels(first)
    scale = np.sqrt(R)[:, :, None]
    beside = np.zeros((count, 3 * k))
    beside[:, k : 2 * k] = psih
    source = np.concatenate([np.zeros((count, k)), (np.swapaxes(C, 1, 2) @ beside[:, :, None])[:, :, 0]], axis=1)
    penalty = np.concatenate([np.repeat(np.sqrt(inverse_dim)[:, None], k, axis=1), np.ones((count, 3 * k))], axis=1)
    functions = np.concatenate([tables.mu0 * scale, channels], axis=1)
    solution, c = least_squares(first.node_weights, tables.h, functions, penalty, source)
    theta = solution[:, :k] * scale[:, :, 0]
    coordinates = (C @ solution[:, k:, None])[:, :, 0]
    t, psi = coordinates[:, :k], coordinates[:, k : 2 * k]
    dual = (T @ (first.node_weights * (tables.h - c))[:, :, None])[:, :, 0] + beside
    dual[:, :k] += (Vh1 @ t[:, :, None])[:, :, 0]
    return theta, t, psi, c, dual


def _signal_push(
    first: FirstOrder, tangents: Tangents, theta: Floats, t: Floats, dual: Floats, inverse_dim: Floats
) -> Floats:
    """Return dE of section 6.3 in packed coordinates: dual^T dP dual + t^T dVh1 t + sum theta^2 dR/(d R^2).

    dP along each packed direction by a complex step, with the known motion of (gm, R).
    """
    equations, response = first.equations, first.response
    assert equations.batch is not None
    count, directions = tangents.dR.shape[:2]
    h = 1e-20
    points = np.repeat(np.arange(count), directions)

    def moved(value: Floats, change: Floats) -> Floats:
        shape = (count, directions, *value.shape[1:])
        return (value[:, None] + 1j * h * np.broadcast_to(change, shape)).reshape(count * directions, *value.shape[1:])

    P = signal_covariance(
        equations.batch.take(points),
        equations.ladder[points],
        moved(response.gm, tangents.dgm),
        moved(response.R, tangents.dR),
        moved(response.Vh1, tangents.dVh1),
    )
    dP = P.imag.reshape(count, directions, *P.shape[1:]) / h
    push = np.einsum("bi,baij,bj->ba", dual, dP, dual) + np.einsum("bi,aij,bj->ba", t, tangents.dVh1, t)
    push += np.einsum("bq,baq->ba", theta**2 * inverse_dim[:, None] / response.R**2, tangents.dR)
    return push / equations.multiplicity


def misclassified(tables: Tables, c: Floats, along: Floats, variance: Floats) -> Floats:
    """Return P(sign f != sign <w*, x>), equation (4.8)."""
    from scipy.special import ndtr

    gamma = np.broadcast_to(tables.gamma, len(c))[:, None]
    rho = np.sqrt(np.maximum(0.0, 1 - gamma**2))
    Q = np.maximum(variance, 1e-300)
    kappa = np.broadcast_to(tables.nodes, c.shape)
    x = c / np.sqrt(Q)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        correlation = np.clip(along / np.sqrt(Q), -1 + 1e-15, 1 - 1e-15)
        spread = opposite_signs(x, gamma * kappa / rho, correlation)
    aligned = ndtr(-np.sign(gamma * kappa) * x)
    error = np.where(rho > 0, spread, aligned)
    return np.sum(tables.weights * np.where(np.isfinite(error), error, 0.5), axis=1)


def opposite_signs(x: Floats, y: Floats, correlation: Floats) -> Floats:
    """Return P(sign X != sign Y) for unit normals of means x, y: Owen's formula, in which a zero counts as +0."""
    from scipy.special import owens_t

    x, y = x + 0.0, y + 0.0  # -0.0 becomes 0.0
    root = np.sqrt(1 - correlation**2)
    neither = (x == 0) & (y == 0)
    first = owens_t(x, (np.where(neither, 1.0, y / x) - correlation) / root)
    second = owens_t(y, (np.where(neither, 1.0, x / y) - correlation) / root)
    return 2 * (first + second) + ((x < 0) != (y < 0))
