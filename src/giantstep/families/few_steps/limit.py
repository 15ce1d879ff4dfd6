"""The limit of a few giant steps: the map of the steps, the features it leaves, and the read-out after every step."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.interpolate import CubicSpline

from giantstep.errors import bad_field
from giantstep.families.few_steps.features import describe_bulk, describe_features, floors, with_quadratic_noise
from giantstep.families.few_steps.input_points import (
    FINITE_DIM,
    check_batches,
    check_finite_dim,
    input_law,
    input_spectrum,
    rank_warnings,
    refinements,
)
from giantstep.families.few_steps.scenario import FewSteps
from giantstep.families.few_steps.trajectory import (
    Classes,
    Network,
    follow,
    independent_spread,
    plant,
    scale_of,
    split_classes,
    split_directions,
)
from giantstep.family import Answer
from giantstep.padding import corner, largest_shape
from giantstep.readout import (
    Equations,
    Features,
    FirstOrder,
    InputBulk,
    Spectrum,
    find_outliers,
    ridge_errors,
    solve_first_order,
)
from giantstep.readout.answers import check_x, check_z, choose_x, describe_resolvent, describe_spectrum, grows_linearly
from giantstep.readout.condensed import condense
from giantstep.readout.first_order import variance_function
from giantstep.types import Floats, Integers, Points

COARSE = 0.7
"""Fineness of the second rule, by which the error of the first is measured."""
INACCURATE = 1e-3
IDENTITY = 1e-6
WELL_DESCRIBED = 100.0
"""Samples per dimension of a batch from which its isotropic description is good to 0.5%."""


def prepare(scenario: FewSteps, points: Points, what: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Choose what both engines must share: the times, and where a spectrum or a mean along kappa is wanted."""
    settings = {**settings, "time": np.arange(int(points["steps"].max()) + 1)}
    if what == "spectrum":
        settings["x"] = _abscissae(scenario, points) if settings.get("x") is None else check_x(settings["x"])
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
def _abscissae(scenario: FewSteps, points: Points) -> Floats:
    table = _Table(scenario, points, 0)
    spectra = [spectrum for group in _groups(scenario, points) for _, _, spectrum in _spectra(table, group)]
    return choose_x((spectrum, 1.0) for spectrum in spectra)


@np.errstate(all="ignore")  # a point that fails is flagged by its status
def limit(scenario: FewSteps, points: Points, what: str, settings: Mapping[str, Any]) -> Answer:
    """Answer `what` at every point; ``points["dim"]`` is inf for the bare limit."""
    check_batches(scenario, points)
    warnings = _batch_warnings(points, settings.get("theory")) + rank_warnings(scenario, points)
    table = _Table(scenario, points, len(settings["time"]))
    theory = str(settings.get("theory"))
    if theory in FINITE_DIM:
        check_finite_dim(scenario, points, what, theory)
    chosen = np.array(refinements(scenario, points, what) if theory == "auto" else [theory] * len(table.status))
    for name in dict.fromkeys(chosen.tolist()):
        rows = np.flatnonzero(chosen == name)
        for group in _groups(scenario, {key: values[rows] for key, values in points.items()}, name):
            group.index = rows[group.index]
            _ANSWERS[what](table, group, settings)
            warnings += group.unlearnt()
    answer = table.answer()
    answer.coords |= {name: settings[name] for name in ("time", "x", "z", "kappa") if settings.get(name) is not None}
    answer.warnings = list(dict.fromkeys(warnings))
    finite = np.isfinite(points["batch_per_dim"])
    batches = "isotropic" if finite.all() else "exact and isotropic" if finite.any() else "exact"
    refined = [name for name in dict.fromkeys(chosen.tolist()) if name in FINITE_DIM]
    plain = [] if len(refined) and np.isin(chosen, FINITE_DIM).all() else [batches]
    answer.attrs["theory"] = " and ".join([*plain, *refined])
    return answer


@dataclass
class _Group:
    """Points that share the steps: one trajectory answers them all."""

    scenario: FewSteps
    network: Network
    index: Integers
    path: list[Classes]
    reason: str

    def by_class(self, values: Floats) -> Floats:
        """Sum values (B, k') of sub-classes over those of each class (B, k)."""
        return values.reshape(len(values), len(self.scenario.second_layer.values), -1).sum(axis=2)

    def unlearnt(self) -> list[str]:
        """Say which directions of the target the last step has not found."""
        frame = self.path[-1].frame
        basis = split_directions(self.path[-1], self.network.target)
        left = np.linalg.norm(frame @ basis.rest, axis=1)
        names = [f"z{j + 1}" for j in np.flatnonzero(left > 1 - 1e-9)]
        if not names or self.scenario.has_shifts or len(self.path) == 1:
            return []
        return [
            f"After {len(self.path) - 1} steps {', '.join(names)} {'is' if len(names) == 1 else 'are'} not learnt: no "
            "step sees a linear part along it, given what is learnt before (see giantstep.exponents)."
        ]


def _groups(scenario: FewSteps, points: Points, theory: str = "exact") -> Iterator[_Group]:
    """Yield the points that share their steps; the noise of the labels moves the steps of a finite batch only."""
    finite = np.isfinite(points["batch_per_dim"])
    columns = [points["batch_per_dim"], points["steps"], np.where(finite, points["noise"], 0.0)]
    columns += [points["rate"]] if "rate" in points else []
    if scenario.inputs is not None:
        columns += [points["precondition"], *([points["dim"]] if "dim" in points else [])]
        columns += [values for name, values in points.items() if name.startswith("inputs.")]
    _, first, which = np.unique(np.stack(columns, axis=1), axis=0, return_index=True, return_inverse=True)
    zeta, pi = np.array(scenario.second_layer.values), np.array(scenario.second_layer.probabilities)
    for number, b in enumerate(first):
        network = Network(
            activation=scenario.activation,
            target=scenario.target,
            zeta=zeta,
            pi=pi,
            inputs=input_spectrum(scenario, points, int(b)),
            noise=float(columns[2][b]),
            batch_per_dim=float(points["batch_per_dim"][b]),
            correlation_loss=scenario.loss_of_steps == "correlation",
            gaussian_rows=scenario.rows == "gaussian",
            quadratic_dim=float(points["dim"][b]) if theory == "quadratic" else np.inf,
        )
        start = None
        if scenario.has_shifts:
            bulk = np.array(scenario.planted.bulk or np.ones(len(pi)))
            start = plant(network, np.asarray(scenario.planted.shifts), bulk)
        if theory == "split":
            network, start = split_classes(network, float(points["dim"][b]))
        path, reason = follow(network, scenario.rates(points, int(b)).tolist(), start)
        yield _Group(scenario, network, np.flatnonzero(which.reshape(-1) == number), path, reason)


@dataclass
class _Table:
    """The answer under construction: every variable is NaN until it is filled."""

    scenario: FewSteps
    points: Points
    times: int
    values: dict[str, Floats] = field(default_factory=dict)

    def __post_init__(self) -> None:
        count = len(self.points["ridge"])
        self.status = np.full(count, "", dtype=object)
        self.residual, self.iterations = np.zeros(count), np.zeros(count, dtype=np.int64)

    def put(self, name: str, index: Integers, time: int | None, values: Floats) -> None:
        """Fill one variable at some points, at one time (None: it has no time)."""
        values = np.asarray(values, dtype=float)
        lead = () if time is None else (self.times,)
        array = self.values.get(name)
        own = values.shape[1:] if array is None else largest_shape([values.shape[1:], array.shape[1 + len(lead) :]])
        if array is None or array.shape[1 + len(lead) :] != own:  # inputs at other points may have fewer atoms
            larger = np.full((len(self.status), *lead, *own), np.nan)
            if array is not None:
                larger[corner(slice(None), array.shape[1:])] = array
            array = self.values[name] = larger
        at_time = array if time is None else array[:, time]
        at_time[corner(index, values.shape[1:])] = values

    def note(self, index: Integers, status: Any, residual: Floats, iterations: Any) -> None:
        """Keep the first reason, the largest residual and all iterations of some points."""
        self.status[index] = np.where(self.status[index] == "", status, self.status[index])
        self.residual[index] = np.fmax(self.residual[index], residual)
        self.iterations[index] += iterations

    def answer(self) -> Answer:
        """Return what was filled."""
        return Answer(self.values, self.status, self.residual, self.iterations)


def _batch_warnings(points: Points, theory: Any) -> list[str]:
    finite = points["batch_per_dim"][np.isfinite(points["batch_per_dim"])]
    if not finite.size or theory == "isotropic":
        return []
    if theory == "exact":
        raise bad_field("theory", "exact", '"isotropic" where batch_per_dim is finite (no exact theory is known)')
    if finite.min() >= WELL_DESCRIBED:
        return []
    return [
        "The noise of a finite batch is described as isotropic, an approximation: 0.5% at 100 samples per dimension, "
        'up to 10% below 5 (theory="isotropic" chooses it in silence).'
    ]


def _read_outs(
    table: _Table, group: _Group, leading: bool = False
) -> Iterator[tuple[int, Features, Integers, Equations]]:
    """Yield, after every step, the features and the equations of the points that share them (and their label noise)."""
    points = table.points
    for time, classes in enumerate(group.path):
        features = describe_features(group.network, classes, leading)
        bulk = describe_bulk(group.network, classes, leading)
        for noise in np.unique(points["noise"][group.index]):
            index = group.index[points["noise"][group.index] == noise]
            labelled = dataclasses.replace(features, hh=features.hh - group.network.noise + noise)
            ratio = points["samples_per_dim"][index] / points["width_per_dim"][index]
            yield (
                time,
                labelled,
                index,
                Equations.of_ridge(labelled, ratio, points["width_per_dim"][index], points["ridge"][index], bulk),
            )


def _errors(table: _Table, group: _Group, settings: Mapping[str, Any]) -> None:
    tolerance = settings.get("tolerance", 1e-10)
    coarse = _coarse_features(group)
    for time, features, index, equations in _read_outs(table, group):
        equations = with_quadratic_noise(equations)
        rough = with_quadratic_noise(dataclasses.replace(equations, features=_relabel(coarse[time], features)))
        start = solve_first_order(rough)
        first = solve_first_order(equations, dataclasses.replace(start, V=variance_function(equations, start.response)))
        errors = ridge_errors(first, 1 / table.points["dim"][index])
        quadrature = _quadrature_error(start, errors.test, table.points["dim"][index])
        status = np.where(first.residual > tolerance, "the equations of the read-out were not solved", "")
        status = np.where(errors.identity > IDENTITY, "digits lost: the loss identity is violated", status)
        status = np.where(quadrature > INACCURATE, f"the quadrature is accurate only to {quadrature:.1e}", status)
        widths, which = np.unique(table.points["width_per_dim"][index], return_inverse=True)
        all_data, floor = floors(features, equations.bulk, widths)
        values = {
            "test_error": errors.test,
            "train_error": errors.train,
            "objective": errors.objective,
            "norm": errors.norm,
            "Q2": group.by_class(errors.Q2),
            "theta": group.by_class(errors.theta),
            "V2": group.by_class(first.response.R / (equations.width * equations.b)[:, None]),
            "identity": errors.identity,
            "all_data_error": all_data[which.reshape(-1)],
            "floor": np.full(len(index), floor),
            "learned": np.full(len(index), float(np.asarray(features.kappa).shape[1])),
        }
        for name, column in values.items():
            table.put(name, index, time, column)
        table.put("null_error", index, None, errors.null)
        ranks = input_law(table.scenario, table.points, int(index[0])).effective_ranks()
        for name, rank in zip(("effective_rank", "effective_rank_4"), ranks):
            table.put(name, index, None, np.full(len(index), rank))
        table.note(index, status, np.fmax(first.residual, quadrature), first.iterations)
    _note_end(table, group)


def _coarse_features(group: _Group) -> list[Features]:
    """Return the features after every step with a coarser rule for all averages."""
    network = dataclasses.replace(group.network, fineness=COARSE)
    return [describe_features(network, classes) for classes in group.path]


def _relabel(coarse: Features, features: Features) -> Features:
    """Return the coarse features with the label noise of the others."""
    noise = float(features.hh[0] @ features.weights[0] - coarse.hh[0] @ coarse.weights[0])
    return dataclasses.replace(coarse, hh=coarse.hh + noise)


def _quadrature_error(coarse: FirstOrder, test: Floats, dim: Floats) -> float:
    """Return how much the test error of one point, that of the smallest ridge, moves with the coarser rule."""
    point = np.array([int(np.argmin(coarse.equations.a * coarse.equations.b))])
    errors = ridge_errors(coarse.take(point), 1 / dim[point])
    return float(abs(errors.test[0] / test[point[0]] - 1))


def _steps(table: _Table, group: _Group, settings: Mapping[str, Any]) -> None:
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
    _note_end(table, group)


def _spectra(table: _Table, group: _Group) -> Iterator[tuple[int, int, Spectrum]]:
    """Yield (time, point, its spectrum) after every step."""
    bounded = grows_linearly(group.network.activation)
    for time, _, index, equations in _read_outs(table, group):
        if isinstance(equations.bulk, InputBulk):  # a spectrum needs integrals over the atoms at hundreds of z
            condensed = condense(equations.bulk, group.network.inputs.eigenvalues)
            equations = dataclasses.replace(equations, bulk=condensed)
        for row, point in enumerate(index):
            yield time, int(point), Spectrum(equations.take(np.array([row])), bounded or time == 0)


_COUNTED: dict[Any, Integers] = {}


@np.errstate(all="ignore")
def count_outliers(scenario: FewSteps, points: Points, dim: int) -> Integers:
    """Return how many eigenvalues lie above the bulk at every point and time (B, T + 1), for both engines.

    A finite spectrum does not say by itself which of its largest eigenvalues those are. The last answers are kept,
    because every trial of an experiment asks the same.
    """
    key = (scenario.digest(), dim, *((name, values.tobytes()) for name, values in points.items()))
    if key not in _COUNTED:
        if len(_COUNTED) >= 64:
            _COUNTED.clear()
        counts = np.zeros((len(points["ridge"]), int(points["steps"].max()) + 1), dtype=np.int64)
        points = {**points, "dim": np.full(len(counts), float(dim))}
        for group in _groups(scenario, points):
            for time, point, spectrum in _spectra(_Table(scenario, points, 0), group):
                counts[point, time] = len(find_outliers(spectrum, spectrum.upper_edge(), float(dim)))
        _COUNTED[key] = counts
    return _COUNTED[key]


def _spectrum(table: _Table, group: _Group, settings: Mapping[str, Any]) -> None:
    for time, point, spectrum in _spectra(table, group):
        row = describe_spectrum(spectrum, settings["x"], float(table.points["dim"][point]))
        index = np.array([point])
        for name, value in row.values.items():
            if name != "mean_eigenvalue":
                table.put(name, index, time, np.asarray(value)[None])
        table.note(index, row.status, np.array([row.residual]), row.iterations)
    _note_end(table, group)


def _resolvent(table: _Table, group: _Group, settings: Mapping[str, Any]) -> None:
    for time, point, spectrum in _spectra(table, group):
        row = describe_resolvent(spectrum, settings["z"])
        m, index = row.V2.sum(axis=1)[None], np.array([point])
        table.put("m_real", index, time, m.real)
        table.put("m_imag", index, time, m.imag)
        table.note(index, row.status, np.array([row.residual]), row.iterations)
    _note_end(table, group)


def _along(table: _Table, group: _Group, settings: Mapping[str, Any]) -> None:
    """Average error and output over the learnt directions beside the leading one, which is the first axis of kappa."""
    if np.isfinite(group.network.batch_per_dim):
        raise bad_field("batch_per_dim", group.network.batch_per_dim, 'inf where what="along"')
    if group.network.target.planes:
        raise bad_field("target", group.network.target.name, 'smooth where what="along"')
    positions = settings["kappa"]
    for time, features, index, equations in _read_outs(table, group, leading=True):
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
            table.put(name, index, time, CubicSpline(axis, means, axis=1)(positions))
        table.note(index, "", first.residual, first.iterations)
    _note_end(table, group)


def _note_end(table: _Table, group: _Group) -> None:
    if group.reason:
        table.note(group.index, group.reason, np.zeros(len(group.index)), 0)


_ANSWERS: dict[str, Callable[[_Table, _Group, Mapping[str, Any]], None]] = {
    "errors": _errors,
    "steps": _steps,
    "along": _along,
    "spectrum": _spectrum,
    "resolvent": _resolvent,
}
