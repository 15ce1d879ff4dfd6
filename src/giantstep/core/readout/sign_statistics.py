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
        # E[sigma He_k]: `hermite` has the normalised polynomials, of length 1
        coefficients = activation.hermite(3) * np.sqrt([1.0, 1.0, 2.0, 6.0])
        c0, c1, c2, c3 = (_without_rounding(c) for c in coefficients)

        def mean(function: Any) -> float:
            return float(expectation(function, kinks=activation.kinks)[0])

        def sp(z: Floats) -> Floats:
            return activation.derivative(z) - c1 - c2 * z

        v = mean(lambda z: sp(z) ** 2)
        a2 = mean(lambda z: z**2 * sp(z) ** 2)
        return cls(
            c0=c0,
            c1=c1,
            c2=c2,
            c3=c3,
            v=v,
            k3=mean(lambda z: sp(z) ** 3),
            k4=mean(lambda z: sp(z) ** 4),
            a1=mean(lambda z: z * sp(z) ** 2),
            a2=a2,
            a3=mean(lambda z: z * sp(z) ** 3),
            e3=mean(lambda z: z**3 * sp(z)),
            b2=a2 - v,
        )


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
        # signs amplify rounding: what should vanish would decide them
        M1 = _without_rounding(M1)
        g1 = _without_rounding(g1)
        B = s.c2 * M1
        # (2.2): Var sigma' = v + c2^2
        tau = float(np.sqrt(B**2 + M2 * (s.v + s.c2**2) * per_sample))
        overlap = s.c3**2 * (g1**2 + M2 * per_sample)
        if overlap == 0 or B != 0:
            # section 6: it matters where B = 0, and the own part may be small
            chi = 0.0
        elif tau > 0:
            chi = overlap / tau**2
        else:
            chi = np.inf
        return cls(
            slope=s.c1,
            shared=s.c1 * g1,
            shared_noise=M2 * s.c1**2 * per_sample,
            own=tau,
            by_weight=B,
            chi=chi,
        )


def _without_rounding(value: float) -> float:
    """Return the value, 0 where it is rounding."""
    if abs(value) < ZERO:
        return 0.0
    return float(value)


def sign_gradients(
    activation: Function, target: Function, offset: float, alpha0: Floats, noise: Floats
) -> list[SignGradient]:
    """Return what the gradient's entries are made of at every point; `offset` is m0."""
    slopes = Slopes.of(activation)
    g0, g1 = target.hermite(1)
    square = float(target.second_moment(np.zeros(1), np.ones(1))[0])
    # E rho^2 of the residual rho = y - m0
    power = square - 2 * g0 * offset + offset**2 + noise
    return [
        SignGradient.of(slopes, M1=g0 - offset, M2=M2, g1=g1, per_sample=1 / a)
        for M2, a in zip(power, alpha0)
    ]


def cells_of(gradient: SignGradient, law: Sequence[Component]) -> tuple[Floats, ...]:
    """Return mass, a, mean and variance of the target's coordinate in every cell:
    sign_step section 2, Blocks.
    """
    A1 = gradient.shared
    tau = gradient.own
    parts = []
    for weight, mu, variance in law:
        spread = np.sqrt(A1**2 * variance + gradient.shared_noise)
        if spread == 0:
            # all coordinates of this component share one a
            parts.append(np.array([[weight], [A1 * mu], [mu], [variance]]))
            continue
        t, w = _rule(A1 * mu / spread, tau / spread)
        # the target's coordinate is Gaussian given a
        tilt = A1 * variance / spread
        unseen = max(0.0, variance - tilt**2)
        if unseen < ZERO * max(variance, ZERO):
            unseen = 0.0
        a = A1 * mu + spread * t
        parts.append(np.stack([weight * w, a, mu + tilt * t, np.full_like(t, unseen)]))
    mass, a, mean, unseen = np.concatenate(parts, axis=1)
    return mass, a, mean, unseen


def _rule(shift: float, sharpness: float) -> tuple[Floats, Floats]:
    """Return nodes and weights of N(0, 1) that resolve a function of (shift +
    t)/sharpness.
    """
    if sharpness >= SHARP:
        return even_rule(min(STEP, 0.8 * sharpness), REACH)
    # the mean of the sign is not flat around a = 0: panels there of the width of tau
    centre = float(np.clip(-shift, -PANEL_REACH, PANEL_REACH))
    # beyond them the signs are certain, and their mean is flat
    near = sharpness * np.array([1.0, 3.0, 7.0, 15.0])
    away = np.concatenate([[0.0], near, near[-1] + np.arange(1.0, 2 * PANEL_REACH + 1)])
    edges = np.concatenate([centre - away, centre + away, [-PANEL_REACH, PANEL_REACH]])
    edges = np.unique(edges[np.abs(edges) <= PANEL_REACH])
    t, w = gauss_legendre_panels(edges, PANEL_NODES)
    w = w * normal_density(t)
    # the tails beyond the last panel are missing
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
    # points that differ in sizes alone share the rule of the residual
    pairs = np.stack([np.broadcast_to(offset, noise.shape), noise], axis=1)
    distinct, rule_of_point = np.unique(pairs, axis=0, return_inverse=True)
    rules = [_residual_rule(target, *pair) for pair in distinct.tolist()]
    parts = []
    spikes = []
    for number, rule in enumerate(rule_of_point.reshape(-1)):
        part, spike = _of_set(
            slopes=slopes,
            rule=rules[rule],
            law=laws[number],
            e=e[number],
            per_sample=1 / alpha0[number],
        )
        parts.append(part)
        spikes.append(spike)
    stacks = {}
    for name in parts[0]:
        stacks[name] = _stacked([part[name] for part in parts])
    names_of_cells = [field.name for field in dataclasses.fields(Cells)]
    cells = Cells(**{name: stacks.pop(name) for name in names_of_cells})
    return SignBulk(cells, **stacks), np.stack(spikes)


def _stacked(values: Sequence[Any]) -> Floats:
    """Stack the numbers of several sets; cells and nodes, the last axis, are filled up
    with some of no mass.
    """
    arrays = [np.asarray(value, dtype=np.float64) for value in values]
    if arrays[0].ndim == 0:
        return np.stack(arrays)
    longest = max(array.shape[-1] for array in arrays)
    filled = []
    for array in arrays:
        added = [(0, 0)] * (array.ndim - 1) + [(0, longest - array.shape[-1])]
        filled.append(np.pad(array, added))
    return np.stack(filled)


def _residual_rule(
    target: Target, offset: float, noise: float
) -> tuple[Floats, Floats, Floats]:
    """Return nodes of the residual rho = g(s) + sqrt(noise) eps - offset, weights of 1,
    s, s^2, and E rho^j, j = 0..4.

    Every node belongs to some s, of which the law of the labels keeps the moments.
    """
    # nothing is learnt yet: the whole target is rest, of unit scale
    law = label_law(
        target,
        learnt=np.zeros((1, 0)),
        rest=np.eye(1),
        scale=1.0,
        fineness=1.0,
        noise=noise,
        flip=0.0,
    )
    nodes = law.label - offset
    weights = np.stack([law.weights, law.linear[0], law.quadratic[0, 0]])
    moments = np.array([law.weights @ nodes**j for j in range(5)])
    return nodes, weights, moments


def _of_set(
    slopes: Slopes,
    rule: tuple[Floats, Floats, Floats],
    law: Sequence[Component],
    e: Floats,
    per_sample: float,
) -> tuple[dict[str, Any], Floats]:
    """Return the fields of `SignBulk` and of its `Cells` for one parameter set, and its
    spikes u_q.
    """
    nodes, weights, moments = rule
    _, M1, M2, *_ = moments
    g1 = float(weights[1] @ nodes)
    gradient = SignGradient.of(slopes, M1, M2, g1, per_sample)
    # without an own part all signs of a cell agree: a tiny one stands for it
    tau = max(gradient.own, FLOOR * abs(gradient.shared))
    gradient = gradient._replace(own=tau)
    B = gradient.by_weight
    cells, bend = _cells(gradient, law)
    batch = _batch(slopes, rule, B, per_sample)
    mass = cells["mass"]
    m = cells["mean"]
    E_l = float(mass @ cells["slope"])
    length = np.sqrt(mass @ m**2)
    common_in_length = np.broadcast_to([E_l, bend], (len(e), 2))
    parts = {
        **cells,
        **batch,
        "strength": e,
        "gamma": float(mass @ (cells["target"] * m)) / length,
        # y = 2 e om - 2 <U, b>, (5.7)
        "mean_in_length": -2 * e,
        "noise_in_length": 2 * e,
        "common_in_length": 2 * e[:, None] * common_in_length,
        # (2.4) without the learnt direction
        "row_norm": 1 + 2 * e * B * E_l + e**2 * float(mass @ (1 - m**2)),
    }
    return parts, e * length


def _cells(
    gradient: SignGradient, law: Sequence[Component]
) -> tuple[dict[str, Floats], float]:
    """Return the fields of `Cells` for one parameter set, (2.3) and (5.6)-(5.7), and
    how om moves with dC22, E[B (al^2 - 1) f/(2 tau^3)].
    """
    mass, a, target, unseen = cells_of(gradient, law)
    tau = gradient.own
    B = gradient.by_weight
    al = a / tau
    # of sign(al + z), z ~ N(0, 1): mean, slope and the variance that is left
    m, f, r2, _ = sign(al, np.ones_like(al))
    l = f / tau
    ratio = B / tau
    # E He_k(x) S for k = 1, 2, 3
    l1 = ratio * f
    l2 = -(ratio**2) * al * f
    l3 = ratio**3 * (al**2 - 1) * f
    h2 = -al * f
    cells = {
        "mass": mass,
        "target": target,
        "unseen": unseen,
        # the step refuses c1 = 0, where the rows share no gradient
        "pull": a / gradient.slope,
        "mean": m,
        "slope": l,
        "rest": r2,
        "by_scale": -l * al / (2 * tau),
        "second": l2,
        # (5.7)
        "own": 2 * (B / tau**2) * h2,
        # what sampling on the sphere leaves of xS beside <m, w0> and <h2, xi>
        "noise": 1 - l1**2 - m**2 - ratio**2 * (2 * m * h2 + h2**2),
        "noise_rest": -l1 * (2 * m + h2),
        "radial": l3 + 2 * l1,
    }
    bend = float(mass @ (B * (al**2 - 1) * f)) / (2 * tau**3)
    return cells, bend


def _batch(
    slopes: Slopes, rule: tuple[Floats, Floats, Floats], B: float, per_sample: float
) -> dict[str, Any]:
    """Return the averages over the batch that `SignBulk` has, (5.4)-(5.5)."""
    nodes, weights, (_, M1, M2, M3, M4) = rule
    M1 = _without_rounding(M1)
    c2 = slopes.c2
    c3 = slopes.c3
    # the letters of (5.4)
    k1 = M1 + nodes * per_sample
    dA = 2 * c2 * nodes * per_sample
    dB2 = 2 * c2**2 * M1 * nodes * per_sample + c2**2 * nodes**2 * per_sample**2
    # fl: covariance with the initial row; fy: with the row's own part xi
    fl12 = c3 * nodes
    fl22 = 2 * c3 * c2 * k1 * nodes + slopes.a1 * nodes**2 * per_sample
    fy12 = nodes * (c3 * dA / 2 + slopes.a1 * nodes * per_sample)
    fy22 = nodes * (
        c3 * dB2
        + 2 * slopes.a1 * c2 * nodes * k1 * per_sample
        + slopes.k3 * nodes**2 * per_sample**2
    )
    fl = np.stack([fl12, fl22])
    common = _common_variance(
        s=slopes,
        M=(M1, M2, M3, M4),
        rho=nodes,
        w=weights[0],
        along=fl @ weights[1],
        x=per_sample,
    )
    # (5.5): total minus sampling on the sphere, which is counted for each coordinate
    s2 = M2 * (slopes.v + c2**2) * per_sample
    off_diagonal = 2 * B * s2
    common -= np.array([[s2, off_diagonal], [off_diagonal, 2 * s2 * (2 * B**2 + s2)]])
    return {
        "per_sample": per_sample,
        "bend": c2,
        "excess": slopes.v,
        "nodes": nodes,
        "weights": weights,
        "power": M2,
        "linear": float(weights[1] @ nodes),
        "common": common,
        "carried": fl,
        "received": np.stack([fy12, fy22]),
    }


def _common_variance(
    s: Slopes, M: tuple[float, ...], rho: Floats, w: Floats, along: Floats, x: float
) -> Floats:
    """Return d Cov(C12, C22), finite_batch_general (17.4) read by powers of e; x =
    1/alpha0, along = E_b[s fl].
    """
    M1, M2, M3, M4 = M
    # free cumulants of the batch's matrix A beyond the first
    f2 = M2 * x
    f3 = M3 * x**2
    f4 = M4 * x**3
    c2 = s.c2
    k1 = M1 + rho * x
    dA = 2 * c2 * rho * x
    dB2 = 2 * c2**2 * M1 * rho * x + c2**2 * rho**2 * x**2

    def mean(values: Floats) -> float:
        return float(w @ values)

    # coefficients of e^2, e^3, e^4 in the variance of the squared length: in each of
    # them first what c2 A does to a row (K4 - K2^2), then the square of E[s fl], and
    # what sp adds by its moments with the row
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
    # alone at e^4: the fourth moments of sp over one sample
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
    # |w0 + e xi|^2 = 1 + 2 e C12 + e^2 C22: powers of e count a C12 with a factor 2
    return np.array([[second / 4, third / 4], [third / 4, fourth]])
