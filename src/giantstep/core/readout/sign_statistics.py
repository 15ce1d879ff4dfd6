"""What a sign step does to the coordinates: their cells and the averages over the
batch, sign_step sections 2 and 5.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from giantstep.core.base.types import Floats
from giantstep.core.maths.gaussian import (
    Function,
    expectation,
    gauss_legendre_panels,
    normal_density,
)
from giantstep.core.maths.gaussian.grids import even_rule
from giantstep.core.maths.gaussian.label_law import label_law
from giantstep.core.maths.gaussian.moments import sign
from giantstep.core.maths.gaussian.target import Target
from giantstep.core.readout.sign_bulk import Cells, SignBulk

REACH = 8.2
STEP = 0.3
"""The trapezoidal rule over the shared part of the gradient, in standard deviations:
how far, and how fine at most.
"""
SHARP = 0.02
"""Own part over shared part of the gradient below which the mean of a sign jumps, and
panels stand for the rule.
"""
PANEL_REACH = 9.0
PANEL_NODES = 10
FLOOR = 1e-10
"""The least own part of the gradient over its shared part: errors of its order,
sign_step section 3.
"""
ZERO = 1e-12
"""Coefficients below this are rounding."""


class Component(NamedTuple):
    """A part of the law of a target's coordinates, in units of their root mean square:
    a Gaussian or, if 0, an atom.
    """

    weight: float
    mean: float
    variance: float


class Slopes(NamedTuple):
    """Moments of an activation and of sp = sigma' - c1 - c2 z: finite_batch_general
    17.2.
    """

    c0: float
    c1: float
    c2: float
    c3: float
    v: float
    k3: float
    k4: float
    a1: float
    a2: float
    a3: float
    e3: float
    b2: float

    @classmethod
    def of(cls, activation: Function) -> Slopes:
        """Integrate, with breaks at the kinks."""
        c0, c1, c2, c3 = (
            0.0 if abs(c) < ZERO else float(c)
            for c in activation.hermite(3) * np.sqrt([1.0, 1.0, 2.0, 6.0])
        )

        def mean(function: Any) -> float:
            return float(expectation(function, kinks=activation.kinks)[0])

        def sp(z: Floats) -> Floats:
            return activation.derivative(z) - c1 - c2 * z

        v, k3, k4 = (mean(lambda z, j=j: sp(z) ** j) for j in (2, 3, 4))
        a1, a2 = (mean(lambda z, j=j: z**j * sp(z) ** 2) for j in (1, 2))
        a3 = mean(lambda z: z * sp(z) ** 3)
        e3 = mean(lambda z: z**3 * sp(z))
        return cls(c0, c1, c2, c3, v, k3, k4, a1, a2, a3, e3, a2 - v)


class SignGradient(NamedTuple):
    """The entries of the gradient of one parameter set: sign_step (2.1)-(2.2)."""

    slope: float
    """c1 = E sigma'."""
    shared: float
    """A1 = c1 g1, the part that all neurons share, in units of the target's
    coordinate.
    """
    shared_noise: float
    """M2 c1^2/alpha0, the variance of what the batch adds to it."""
    own: float
    """tau, the root mean square of a neuron's own part."""
    by_weight: float
    """B = c2 M1, the covariance of the own part with the neuron's own weight."""
    chi: float
    """d chi of (6.2): the squared overlap of a row with the gradient over tau^2, 0
    where it does nothing.
    """

    @classmethod
    def of(
        cls, s: Slopes, M1: float, M2: float, g1: float, per_sample: float
    ) -> SignGradient:
        """Return the parts of the gradient; coefficients that are rounding are zero."""
        M1, g1 = (0.0 if abs(value) < ZERO else float(value) for value in (M1, g1))
        tau = float(np.sqrt((s.c2 * M1) ** 2 + M2 * (s.v + s.c2**2) * per_sample))
        overlap = s.c3**2 * (g1**2 + M2 * per_sample)
        if overlap == 0 or s.c2 * M1 != 0:
            chi = 0.0
        elif tau > 0:
            chi = overlap / tau**2
        else:
            chi = np.inf
        return cls(s.c1, s.c1 * g1, M2 * s.c1**2 * per_sample, tau, s.c2 * M1, chi)


def sign_gradients(
    activation: Function, target: Function, offset: float, alpha0: Floats, noise: Floats
) -> list[SignGradient]:
    """Return what the gradient's entries are made of at every point; `offset` is m0."""
    slopes = Slopes.of(activation)
    g0, g1 = target.hermite(1)
    square = float(target.second_moment(np.zeros(1), np.ones(1))[0])
    M2 = square - 2 * g0 * offset + offset**2 + noise
    return [
        SignGradient.of(slopes, g0 - offset, m2, g1, 1 / a) for m2, a in zip(M2, alpha0)
    ]


def cells_of(gradient: SignGradient, law: Sequence[Component]) -> tuple[Floats, ...]:
    """Return mass, a, mean and variance of the target's coordinate in every cell:
    sign_step section 2, Blocks.
    """
    parts = []
    for weight, mu, variance in law:
        A1 = gradient.shared
        tau = gradient.own
        spread = np.sqrt(A1**2 * variance + gradient.shared_noise)
        if spread == 0:
            parts.append(np.array([[weight], [A1 * mu], [mu], [variance]]))
            continue
        t, w = _rule(A1 * mu / spread, tau / spread)
        tilt = A1 * variance / spread
        left = max(0.0, variance - tilt**2)
        left = 0.0 if left < ZERO * max(variance, ZERO) else left
        parts.append(
            np.stack(
                [weight * w, A1 * mu + spread * t, mu + tilt * t, np.full_like(t, left)]
            )
        )
    mass, a, mean, unseen = np.concatenate(parts, axis=1)
    return mass, a, mean, unseen


def _rule(shift: float, sharpness: float) -> tuple[Floats, Floats]:
    """Return nodes and weights of N(0, 1) that resolve a function of (shift +
    t)/sharpness.
    """
    if sharpness >= SHARP:
        return even_rule(min(STEP, 0.8 * sharpness), REACH)
    centre = float(np.clip(-shift, -PANEL_REACH, PANEL_REACH))
    # beyond them the signs are certain, and their mean is flat
    near = sharpness * np.array([1.0, 3.0, 7.0, 15.0])
    away = np.concatenate([[0.0], near, near[-1] + np.arange(1.0, 2 * PANEL_REACH + 1)])
    edges = np.concatenate([centre - away, centre + away, [-PANEL_REACH, PANEL_REACH]])
    edges = np.unique(edges[np.abs(edges) <= PANEL_REACH])
    t, w = gauss_legendre_panels(edges, PANEL_NODES)
    w = w * normal_density(t)
    return t, w / w.sum()


def sign_statistics(
    activation: Function,
    target: Target,
    laws: Sequence[Sequence[Component]],
    offset: Floats,
    e: Floats,
    alpha0: Floats,
    noise: Floats,
) -> tuple[SignBulk, Floats]:
    """Return the bulk of every point and the spikes u_q (B, k): e = rate sign(zeta_q)
    (B, k), offset m0 (B,).
    """
    slopes = Slopes.of(activation)
    pairs = np.stack([np.broadcast_to(offset, noise.shape), noise], axis=1)
    distinct, which = np.unique(pairs, axis=0, return_inverse=True)
    rules = [_residual_rule(target, *pair) for pair in distinct.tolist()]
    bulks = []
    spikes = []
    for number, rule in enumerate(which.reshape(-1)):
        bulk, spike = _of_set(
            slopes, rules[rule], laws[number], e[number], 1 / alpha0[number]
        )
        bulks.append(bulk)
        spikes.append(spike)
    parts = {name: _stacked([bulk[name] for bulk in bulks]) for name in bulks[0]}
    cells = Cells(
        **{part.name: parts.pop(part.name) for part in dataclasses.fields(Cells)}
    )
    return SignBulk(cells, **parts), np.stack(spikes)


def _stacked(values: Sequence[Any]) -> Floats:
    """Stack the numbers of several sets; cells and nodes, the last axis, are filled up
    with some of no mass.
    """
    arrays = [np.asarray(value, dtype=np.float64) for value in values]
    if arrays[0].ndim:
        most = max(array.shape[-1] for array in arrays)
    else:
        most = 0
    return np.stack(
        [
            (
                np.pad(a, [(0, 0)] * (a.ndim - 1) + [(0, most - a.shape[-1])])
                if a.ndim
                else a
            )
            for a in arrays
        ]
    )


def _residual_rule(
    target: Target, offset: float, noise: float
) -> tuple[Floats, Floats, Floats]:
    """Return nodes of the residual rho = g(s) + sqrt(noise) eps - offset, weights of 1,
    s, s^2, and E rho^j, j = 0..4.

    Every node belongs to some s, of which the law of the labels keeps the moments.
    """
    law = label_law(target, np.zeros((1, 0)), np.eye(1), 1.0, 1.0, noise, 0.0)
    nodes = law.label - offset
    weights = np.stack([law.weights, law.linear[0], law.quadratic[0, 0]])
    return nodes, weights, np.array([law.weights @ nodes**j for j in range(5)])


def _of_set(
    slopes: Slopes,
    rule: tuple[Floats, Floats, Floats],
    law: Sequence[Component],
    e: Floats,
    per_sample: float,
) -> tuple[dict[str, Any], Floats]:
    nodes, weights, (_, M1, M2, M3, M4) = rule
    c1 = slopes.c1
    c2 = slopes.c2
    c3 = slopes.c3
    g1 = float(weights[1] @ nodes)
    gradient = SignGradient.of(slopes, M1, M2, g1, per_sample)
    B = gradient.by_weight
    M1 = 0.0 if abs(M1) < ZERO else float(M1)
    noise_own = M2 * (slopes.v + c2**2) * per_sample
    tau = max(gradient.own, FLOOR * abs(gradient.shared))
    mass, a, mean, unseen = cells_of(gradient._replace(own=tau), law)

    # (2.3)-(2.4)
    al = a / tau
    m, f, r2, _ = sign(al, np.ones_like(al))
    l = f / tau
    ratio = B / tau
    l1 = ratio * f
    l2 = -(ratio**2) * al * f
    l3 = ratio**3 * (al**2 - 1) * f
    h2 = -al * f
    E_l = float(mass @ l)
    bend = float(mass @ (B * (al**2 - 1) * f)) / (2 * tau**3)
    length = np.sqrt(mass @ m**2)
    kap = -l * al / (2 * tau)

    # (5.4)-(5.5)
    w0 = weights[0]
    w1 = weights[1]
    k1 = M1 + nodes * per_sample
    dA = 2 * c2 * nodes * per_sample
    dB2 = 2 * c2**2 * M1 * nodes * per_sample + c2**2 * nodes**2 * per_sample**2
    fl = np.stack(
        [c3 * nodes, 2 * c3 * c2 * k1 * nodes + slopes.a1 * nodes**2 * per_sample]
    )
    fy12 = nodes * (c3 * dA / 2 + slopes.a1 * nodes * per_sample)
    fy22 = nodes * (
        c3 * dB2
        + 2 * slopes.a1 * c2 * nodes * k1 * per_sample
        + slopes.k3 * nodes**2 * per_sample**2
    )
    common = _common_variance(slopes, (M1, M2, M3, M4), nodes, w0, fl @ w1, per_sample)
    common -= np.array(
        [
            [noise_own, 2 * B * noise_own],
            [2 * B * noise_own, 2 * noise_own * (2 * B**2 + noise_own)],
        ]
    )

    k = len(e)
    parts = {
        "mass": mass,
        "target": mean,
        "unseen": unseen,
        "pull": a / c1,
        "mean": m,
        "slope": l,
        "rest": r2,
        "by_scale": kap,
        "second": l2,
        "own": 2 * (B / tau**2) * h2,
        "noise": 1 - l1**2 - m**2 - ratio**2 * (2 * m * h2 + h2**2),
        "noise_rest": -l1 * (2 * m + h2),
        "radial": l3 + 2 * l1,
        "per_sample": per_sample,
        "strength": e,
        "bend": c2,
        "excess": slopes.v,
        "nodes": nodes,
        "weights": weights,
        "power": M2,
        "linear": g1,
        "gamma": float(mass @ (mean * m)) / length,
        "common": common,
        "carried": fl,
        "received": np.stack([fy12, fy22]),
        "mean_in_length": -2 * e,
        "noise_in_length": 2 * e,
        "common_in_length": 2 * e[:, None] * np.broadcast_to([E_l, bend], (k, 2)),
        "row_norm": 1 + 2 * e * B * E_l + e**2 * float(mass @ (1 - m**2)),
    }
    return parts, e * length


def _common_variance(
    s: Slopes, M: tuple[float, ...], rho: Floats, w: Floats, along: Floats, x: float
) -> Floats:
    """Return d Cov(C12, C22), finite_batch_general (17.4) read by powers of e; x =
    1/alpha0, along = E_b[s fl].
    """
    M1, M2, M3, M4 = M
    f2 = M2 * x
    f3 = M3 * x**2
    f4 = M4 * x**3
    c2 = s.c2
    k1 = M1 + rho * x
    dA = 2 * c2 * rho * x
    dB2 = 2 * c2**2 * M1 * rho * x + c2**2 * rho**2 * x**2

    def mean(values: Floats) -> float:
        return float(w @ values)

    second = (
        8 * c2**2 * f2 + 4 * along[0] ** 2 + 4 * s.a2 * f2 + 4 * s.e3 * mean(rho * dA)
    )
    third = (
        8 * c2**3 * (f3 + 2 * M1 * f2)
        + 4 * along[0] * along[1]
        + 8 * s.a2 * c2 * mean(rho**2 * k1) * x
        + 4 * s.a3 * f3
        + 4 * s.e3 * (mean(rho * dB2) + c2 * mean(rho * k1 * dA))
        + 2 * s.b2 * x * mean(rho**2 * dA)
    )
    fourth = (
        2 * c2**4 * (f4 + 4 * f3 * M1 + f2**2 + 4 * f2 * M1**2)
        + along[1] ** 2
        + 4 * x * (s.a2 * c2**2 * mean(rho**2 * k1**2) + s.v * c2**2 * M2 * f2)
        + 4 * s.a3 * c2 * mean(rho**3 * k1) * x**2
        + 2 * f2**2 * s.v**2
        + f4 * (s.k4 - s.v**2)
        + 4 * s.e3 * c2 * mean(rho * k1 * dB2)
        + 2 * s.b2 * x * mean(rho**2 * dB2)
    )
    return np.array([[second / 4, third / 4], [third / 4, fourth]])
