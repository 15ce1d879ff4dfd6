"""The limit of a few giant steps: the map of the steps, the features it leaves, and the read-out after every step."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import scipy

from giantstep.checks import every_time
from giantstep.errors import bad_field
from giantstep.families.few_steps.answer_table import AnswerTable
from giantstep.families.few_steps.errors import fill_errors
from giantstep.families.few_steps.groups import Group, read_outs, split_points
from giantstep.families.few_steps.input_points import (
    FINITE_DIM,
    check_batches,
    check_finite_dim,
    rank_warnings,
    refinements,
)
from giantstep.families.few_steps.scenario import FewSteps
from giantstep.families.few_steps.trajectory import (
    independent_spread,
    scale_of,
    split_directions,
)
from giantstep.family import LOOSE, Answer
from giantstep.readout import (
    InputBulk,
    Spectrum,
    find_outliers,
    ridge_errors,
    solve_first_order,
)
from giantstep.readout.answers import check_x, check_z, choose_x, describe_resolvent, describe_spectrum, grows_linearly
from giantstep.readout.condensed import condense
from giantstep.readout.finite_size import FINITE_MEANS
from giantstep.solve.finite import require_finite
from giantstep.types import Floats, Integers, Points

COARSE = 0.7
"""Fineness of the second rule, by which the error of the first is measured."""
INACCURATE = 1e-3
IDENTITY = 1e-6
WELL_DESCRIBED = 100.0
"""Samples per dimension of a batch from which its isotropic description is good to 0.5%."""
ISOTROPIC_ERROR = (
    "test errors of networks were found from 10% below to 16% above it at few samples per dimension (training errors "
    "up to twice as far), 8% above at 10, 5% at 20, within 0.5% at 100"
)


def prepare(scenario: FewSteps, points: Points, what: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Choose what both engines must share: the times, and where a spectrum or a mean along kappa is wanted.

    The times begin with ``settings["first"]``, for who asks after some steps only.
    """
    times = every_time(points["steps"].max())[int(settings.get("first", 0)) :]
    settings = {**{name: value for name, value in settings.items() if name != "first"}, "time": times}
    if what == "spectrum":
        settings["x"] = _abscissae(scenario, points, settings) if settings.get("x") is None else check_x(settings["x"])
    if what == "resolvent":
        settings["z"] = check_z(settings.get("z"))
    if what == "along":
        settings["kappa"] = _positions(settings.get("kappa"))
    return settings


def _positions(kappa: Any) -> Floats:
    positions = np.arange(-12, 13) / 4 if kappa is None else np.asarray(kappa, dtype=float)
    if positions.ndim != 1 or len(positions) < 2 or np.any(np.diff(positions) <= 0) or np.max(np.abs(positions)) > 6:
        raise bad_field("kappa", kappa, "an increasing list of at least two numbers between -6 and 6")
    return positions


@np.errstate(all="ignore")
def _abscissae(scenario: FewSteps, points: Points, settings: Mapping[str, Any]) -> Floats:
    table = AnswerTable(scenario, points, 0)
    spectra = [
        spectrum
        for group in split_points(scenario, points, np.arange(len(points["ridge"])), first=int(settings["time"][0]))
        for _, _, spectrum in _spectra(table, group)
    ]
    return choose_x((spectrum, 1.0) for spectrum in spectra)


@np.errstate(all="ignore")  # a point that fails is flagged by its status
def limit(scenario: FewSteps, points: Points, what: str, settings: Mapping[str, Any]) -> Answer:
    """Answer `what` at every point and every ``settings["time"]``; ``points["dim"]`` is inf for the bare limit."""
    check_batches(scenario, points)
    warnings = _batch_warnings(points, settings.get("theory")) + rank_warnings(scenario, points)
    table = AnswerTable(scenario, points, len(settings["time"]))
    theory = str(settings.get("theory"))
    if theory in FINITE_DIM:
        check_finite_dim(scenario, points, what, theory)
    chosen = np.array(refinements(scenario, points, what) if theory == "auto" else [theory] * len(table.status))
    for name in dict.fromkeys(chosen.tolist()):
        rows = np.flatnonzero(chosen == name)
        is_loose = settings.get("tolerance", 0.0) > LOOSE
        groups = split_points(scenario, points, rows, name, int(settings["time"][0]), keep=is_loose)
        for group in _answer(table, groups, what, settings):
            if group.reason:
                table.note(group.index, group.reason, np.zeros(len(group.index)), 0)
            warnings += group.unlearnt()
    answer = table.answer()
    answer.coords |= {name: settings[name] for name in ("time", "x", "z", "kappa") if settings.get(name) is not None}
    answer.warnings = list(dict.fromkeys(warnings))
    finite = np.isfinite(points["batch_per_dim"])
    batches = "isotropic" if finite.all() else "exact and isotropic" if finite.any() else "exact"
    refined = [name for name in dict.fromkeys(chosen.tolist()) if name in FINITE_DIM]
    plain = [] if len(refined) and np.isin(chosen, FINITE_DIM).all() else [batches]
    answer.attrs["theory"] = " and ".join([*plain, *refined])
    if np.isfinite(points["dim"]).any():
        answer.attrs["finite_size"] = FINITE_MEANS
    if finite.any() and np.any(points["steps"][finite] > 0):
        answer.approximations["the noise of a finite batch is described as isotropic"] = ISOTROPIC_ERROR
    return answer


def _answer(table: AnswerTable, groups: Iterator[Group], what: str, settings: Mapping[str, Any]) -> Iterator[Group]:
    """Answer the groups; yield each one when it is done."""
    if what == "errors":
        yield from fill_errors(table, groups, settings.get("tolerance", 1e-10))
        return
    for group in groups:
        _ANSWERS[what](table, group, settings)
        yield group


def _batch_warnings(points: Points, theory: Any) -> list[str]:
    finite = points["batch_per_dim"][np.isfinite(points["batch_per_dim"])]
    if not finite.size or theory == "isotropic":
        return []
    if theory == "exact":
        raise bad_field("theory", "exact", '"isotropic" where batch_per_dim is finite (no exact theory is known)')
    if finite.min() >= WELL_DESCRIBED:
        return []
    return [
        f"The noise of a finite batch is described as isotropic, an approximation: {ISOTROPIC_ERROR} "
        '(theory="isotropic" chooses it in silence).'
    ]


def _steps(table: AnswerTable, group: Group, settings: Mapping[str, Any]) -> None:
    for time, classes in enumerate(group.path):
        s, U = scale_of(group.network, classes), classes.U @ classes.frame.T
        JU, Js = independent_spread(group.network, classes)
        JU = np.einsum("ac,qcx->qax", classes.frame, JU)
        norm = np.sum(classes.U**2, axis=1) + s**2
        learnt = split_directions(classes, group.network.target).learnt
        rows: dict[str, Any] = {
            "U": U,
            "s": s,
            "cosine": U / np.sqrt(norm)[:, None],
            "row_norm": norm,
            "spread": np.einsum("qac,qbc->qab", JU, JU),
            "spread_s": np.sum(Js**2, axis=1),
            "learned": float(learnt.shape[1]),
            "gamma": np.linalg.norm(classes.frame @ learnt, axis=1),
            "B": classes.B,
        }
        for name, value in rows.items():
            table.put(name, group.index, time, np.broadcast_to(value, (len(group.index), *np.shape(value))))
    atoms = group.network.inputs.eigenvalues
    table.put("eigenvalue", group.index, None, np.broadcast_to(atoms, (len(group.index), len(atoms))))


def _spectra(table: AnswerTable, group: Group) -> Iterator[tuple[int, int, Spectrum]]:
    """Yield (time, point, its spectrum) after every step."""
    bounded = grows_linearly(group.network.activation)
    for time, _, index, equations in read_outs(table.points, group):
        if isinstance(equations.bulk, InputBulk):  # a spectrum needs integrals over the atoms at hundreds of z
            condensed = condense(equations.bulk, group.network.inputs.eigenvalues)
            equations = dataclasses.replace(equations, bulk=condensed)
        for row, point in enumerate(index):
            yield time, int(point), Spectrum(equations.take(np.array([row])), bounded or group.first + time == 0)


_COUNTED: dict[Any, Integers] = {}


@np.errstate(all="ignore")
def count_outliers(scenario: FewSteps, points: Points, dim: int, first: int = 0) -> Integers:
    """Return how many eigenvalues lie above the bulk at every point and time from `first` on, for both engines.

    A finite spectrum does not say by itself which of its largest eigenvalues those are. The last answers are kept,
    because every trial of an experiment asks the same.
    """
    key = (scenario.digest(), dim, first, *((name, values.tobytes()) for name, values in points.items()))
    if key not in _COUNTED:
        if len(_COUNTED) >= 64:
            _COUNTED.clear()
        counts = np.zeros((len(points["ridge"]), int(points["steps"].max()) + 1 - first), dtype=np.int64)
        points = {**points, "dim": np.full(len(counts), float(dim))}
        for group in split_points(scenario, points, np.arange(len(points["ridge"])), first=first):
            for time, point, spectrum in _spectra(AnswerTable(scenario, points, 0), group):
                counts[point, time] = len(find_outliers(spectrum, spectrum.upper_edge(), float(dim)))
        _COUNTED[key] = counts
    return _COUNTED[key]


def _spectrum(table: AnswerTable, group: Group, settings: Mapping[str, Any]) -> None:
    for time, point, spectrum in _spectra(table, group):
        row = describe_spectrum(spectrum, settings["x"], float(table.points["dim"][point]))
        index = np.array([point])
        for name, value in row.values.items():
            if name != "mean_eigenvalue":
                table.put(name, index, time, np.asarray(value)[None])
        table.note(index, row.status, np.array([row.residual]), row.iterations)


def _resolvent(table: AnswerTable, group: Group, settings: Mapping[str, Any]) -> None:
    for time, point, spectrum in _spectra(table, group):
        row = describe_resolvent(spectrum, settings["z"])
        m, index = row.V2.sum(axis=1)[None], np.array([point])
        table.put("m_real", index, time, m.real)
        table.put("m_imag", index, time, m.imag)
        table.note(index, row.status, np.array([row.residual]), row.iterations)


def _along(table: AnswerTable, group: Group, settings: Mapping[str, Any]) -> None:
    """Average error and output over the learnt directions beside the leading one, which is the first axis of kappa."""
    if np.isfinite(group.network.batch_per_dim):
        raise bad_field("batch_per_dim", group.network.batch_per_dim, 'inf where what="along"')
    if group.network.target.planes:
        raise bad_field("target", group.network.target.name, 'smooth where what="along"')
    positions = settings["kappa"]
    for time, features, index, equations in read_outs(table.points, group, leading=True):
        kappa = np.asarray(features.kappa)[0]
        if not len(kappa):  # nothing is learnt yet
            table.put("error_along", index, time, np.full((len(index), len(positions)), np.nan))
            table.put("mean_along", index, time, np.full((len(index), len(positions)), np.nan))
            continue
        first = solve_first_order(equations)
        errors = ridge_errors(first, 1 / table.points["dim"][index], at_nodes=True)
        axis, which = np.unique(kappa[0], return_inverse=True)
        mass = np.bincount(which, features.weights[0])
        for name, values in zip(("error_along", "mean_along"), np.moveaxis(errors.along, 1, 0)):
            means = np.stack([np.bincount(which, features.weights[0] * row) / mass for row in values])
            require_finite(name, means)
            table.put(name, index, time, scipy.interpolate.CubicSpline(axis, means, axis=1)(positions))
        table.note(index, "", first.residual, first.iterations)


_ANSWERS: dict[str, Callable[[AnswerTable, Group, Mapping[str, Any]], None]] = {
    "steps": _steps,
    "along": _along,
    "spectrum": _spectrum,
    "resolvent": _resolvent,
}
