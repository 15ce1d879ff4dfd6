"""Laws of the margins y omega (real labels: of the residuals y - omega) of fresh and of training samples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr

from giantstep.families.mixture_glm.hats import residual_law
from giantstep.families.mixture_glm.problem import Problem, State
from giantstep.families.mixture_glm.solving import solved
from giantstep.gaussian import normal_density
from giantstep.risk import Rows, quadrature, summed
from giantstep.risk.labels import BinaryLabels
from giantstep.types import Floats

if TYPE_CHECKING:
    from giantstep.families.mixture_glm.scenario import MixtureGLM


_PLACES = 161
_RARE = 1e-4


def margin_places(scenario: MixtureGLM, points: Mapping[str, Floats]) -> Floats:
    """Return evenly spaced margins that hold nearly all samples of all points."""
    problem = Problem.of(scenario, points)
    state = solved(problem).state
    mean, spread = state.h + state.b[:, None], np.sqrt(state.q)
    if problem.binary:
        ends = np.concatenate([mean, -mean])
        width = np.concatenate([spread, spread])
        low, high = np.nanmin(ends - 4 * width, initial=0.0), np.nanmax(ends + 4 * width, initial=2.0)
    else:
        y = problem.moments()
        centre = y.y0 - mean
        width = np.sqrt(np.maximum(y.y2 - 2 * y.y0 * mean - 2 * state.m * y.y1 + state.q + mean**2, 0.0))
        low, high = np.nanmin(centre - 4 * width, initial=0.0), np.nanmax(centre + 4 * width, initial=0.0)
    x = np.linspace(float(low), float(high), _PLACES)
    with np.errstate(all="ignore"):
        laws = margin_laws(scenario, problem, state, x)
    both = np.concatenate([laws["test_cdf"], laws["train_cdf"]])
    inside = np.any((both > _RARE) & (both < 1 - _RARE), axis=0)
    return np.linspace(x[inside][0], x[inside][-1], _PLACES) if inside.sum() > 1 else x


def margin_laws(scenario: MixtureGLM, problem: Problem, state: State, x: Floats) -> dict[str, Floats]:
    """Return distribution functions and densities at x, the mass on the margin and the fraction that pulls."""
    order = np.argsort(x)
    back = np.argsort(order)
    laws = _classes(scenario, problem, state, x[order]) if problem.binary else _real(scenario, problem, state, x[order])
    return {name: part[:, back] if part.ndim == 2 else part for name, part in laws.items()}


def _classes(scenario: MixtureGLM, problem: Problem, state: State, x: Floats) -> dict[str, Floats]:
    rows, law, loss = problem.rows(state), problem.label_law(), problem.loss_of_rows(2)
    V = np.repeat(problem.strength(state.V), 2)
    size = (problem.size, problem.clusters * 2)
    test_p, train_p = (np.repeat(p, 2) for p in (scenario.p_test, scenario.p))
    places = np.broadcast_to(x, (len(V), len(x)))
    wide = np.broadcast_to(V[:, None], places.shape)

    def mixed(values: Floats, p: Floats) -> Floats:
        return np.einsum("brx,r->bx", values.reshape(*size, -1), p)

    test_cdf, test_density = _law(rows, law, places)
    interpolated = problem.loss == "interpolate"
    if interpolated:
        train_cdf, train_density = (places >= 1).astype(float) * _chance(rows, law)[:, None], np.zeros(places.shape)
    else:
        each = loss.at(np.repeat(np.arange(len(V)), len(x)))
        origin, stretch = (part.reshape(places.shape) for part in each.origin(places.ravel(), wide.ravel()))
        train_cdf, density = _law(rows, law, origin)
        train_density = np.where(stretch > 0, density * stretch, 0.0)
    on, pulled = np.zeros((len(V), 1)), np.zeros((len(V), 1))
    atom = loss.atom(V)
    if atom is not None:
        both, _ = _law(rows, law, np.stack(atom, axis=1))
        on = both[:, 1:] - both[:, :1]
    elif interpolated:
        on = _chance(rows, law)[:, None]
    pulled, _ = _law(rows, law, loss.idle_above(V)[:, None])
    return {
        "test_cdf": mixed(test_cdf, test_p),
        "train_cdf": mixed(train_cdf, train_p),
        "test_density": mixed(test_density, test_p),
        "train_density": mixed(train_density, train_p),
        "on_margin": mixed(on, train_p)[:, 0],
        "support_vectors": mixed(pulled, train_p)[:, 0],
    }


def _chance(rows: Rows, law: BinaryLabels) -> Floats:
    """Return the probability of the label of each row."""
    whole, _ = _law(rows, law, np.full((len(rows.mean), 1), np.inf))
    return whole[:, 0]


def _law(rows: Rows, law: BinaryLabels, places: Floats) -> tuple[Floats, Floats]:
    """Return P(label, s <= place) and the density of s at places (rows, n), which increase along each row."""
    margins = quadrature(rows, law, places)
    count = places.shape[1]
    bins = np.empty(len(margins.s), dtype=np.intp)
    row = margins.nodes.row
    ends = np.searchsorted(row, np.arange(len(places) + 1))
    for number, (low, high) in enumerate(zip(ends[:-1], ends[1:])):
        bins[low:high] = np.searchsorted(places[number], margins.s[low:high], side="left")
    weights = margins.nodes.weights * margins.chance
    mass = summed(row * (count + 1) + bins, weights, len(places) * (count + 1))
    cdf = np.cumsum(mass.reshape(len(places), count + 1), axis=1)[:, :count]
    xi = (places - rows.mean[:, None]) / rows.scale[:, None]
    finite = np.where(np.isfinite(xi), xi, 0.0)
    chance, _ = law.positive(
        (rows.tau[:, None] + rows.slope[:, None] * finite).ravel(),
        np.repeat(rows.variance, count),
        np.repeat(rows.flip, count),
    )
    density = normal_density(xi) / rows.scale[:, None] * chance.reshape(xi.shape)
    return cdf, np.where(np.isfinite(xi), density, 0.0)


def _real(scenario: MixtureGLM, problem: Problem, state: State, x: Floats) -> dict[str, Floats]:
    V = problem.strength(state.V).ravel()
    one = np.ones(problem.size)
    places = np.broadcast_to(x, (len(V), len(x)))
    test_cdf, test_density = _residuals(problem, state, places)
    if problem.loss == "interpolate":
        train_cdf, train_density = (places >= 0).astype(float), np.zeros(places.shape)
    else:
        threshold = np.repeat(problem.huber, problem.clusters)[:, None] if problem.loss == "huber" else np.inf
        origin = places + V[:, None] * np.clip(places, -threshold, threshold)
        train_cdf, train_density = _residuals(problem, state, origin)
        train_density = train_density * np.where(np.abs(places) < threshold, 1 + V[:, None], 1.0)

    def mixed(values: Floats, p: Floats) -> Floats:
        return np.einsum("bcx,c->bx", values.reshape(problem.size, problem.clusters, -1), p)

    return {
        "test_cdf": mixed(test_cdf, scenario.p_test),
        "train_cdf": mixed(train_cdf, scenario.p),
        "test_density": mixed(test_density, scenario.p_test),
        "train_density": mixed(train_density, scenario.p),
        "on_margin": one if problem.loss == "interpolate" else 0 * one,
        "support_vectors": one,
    }


def _residuals(problem: Problem, state: State, places: Floats) -> tuple[Floats, Floats]:
    """Return distribution function and density of y - omega at places (rows, n), in each cluster."""
    mean, scale, _, weights, row = residual_law(problem, state)
    cdf, density = np.empty(places.shape), np.empty(places.shape)
    for j in range(places.shape[1]):
        z = (places[row, j] - mean) / scale
        cdf[:, j] = summed(row, weights * ndtr(z), len(places))
        density[:, j] = summed(row, weights * normal_density(z) / scale, len(places))
    return cdf, density
