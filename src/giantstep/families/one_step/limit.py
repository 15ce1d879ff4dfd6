"""The limit of the one-step family: all points of a grid in one batch."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from giantstep.errors import bad_field
from giantstep.families.one_step import spectrum as spectra
from giantstep.families.one_step.feature_spikes import prepare as prepare_spikes
from giantstep.families.one_step.feature_spikes import spikes
from giantstep.families.one_step.model import (
    BOUND,
    KERNEL_NODES_PER_PANEL,
    NODES_PER_PANEL,
    SpikedModel,
)
from giantstep.families.one_step.same_sample import same_sample_limit
from giantstep.families.one_step.scenario import GrowingStep, MaximalStep, OneStep, PlantedSpike, SmallStep
from giantstep.families.one_step.staircase import closed_form_errors
from giantstep.families.one_step.steps import (
    FEEDBACK,
    Models,
    at_finite_size,
    bulk_row_scale,
    choose_theory,
    feedback,
    grouped_tables,
    second_layer_law,
    spike_power,
    step_size,
)
from giantstep.families.one_step.weights_spike import weights
from giantstep.family import Answer
from giantstep.readout import (
    GOOD_ENOUGH,
    PACKED_BLOCKS,
    Classifier,
    Equations,
    Errors,
    Features,
    FirstOrder,
    classify,
    ridge_errors,
    solve_first_order,
)
from giantstep.types import Array, Booleans, Floats, Integers, Points, Strings

IDENTITY_TOLERANCE = 1e-6
RARE_INPUT = 3.5
ROUNDING = 1e-9
_CLOSED_FORMS = {"weights": weights, "spikes": spikes}
_FED_BACK = ("test_error", "train_error", "objective", "test_misclassified", "norm")
SHORT_SPIKE = "with initial_output = 1 so small a step leaves a spike shorter than its aligned part; leave dim out"
SEPARATED = "the means of the features separate the classes, so that the fit grows without bound; give dim"
NO_BULK = "the step cancels the initial weights of a block (bulk scale s = 0)"


@np.errstate(all="ignore")  # a point that fails is flagged by its status
def limit(scenario: OneStep, points: Points, what: str, settings: Mapping[str, Any]) -> Answer:
    """Answer `what` at every point; ``points["dim"]`` is inf for the bare limit."""
    if scenario.fit_sample == "same":
        return same_sample_limit(scenario, at_finite_size(points), what, settings)
    if what in _CLOSED_FORMS:
        return _CLOSED_FORMS[what](scenario, at_finite_size(points), settings)
    models, warnings = choose_theory(scenario, points, settings.get("theory"))
    points = at_finite_size(points)
    if isinstance(scenario.step, SmallStep | GrowingStep) and abs(scenario.target.hermite(1)[1]) < 1e-10:
        warnings.append(
            "The target has no linear part (E z g(z) = 0): a small or growing step does not see its direction, and "
            "nothing is learnt beyond random features."
        )
    spiked = isinstance(scenario.step, PlantedSpike | MaximalStep)
    if scenario.second_layer == "gaussian" and spiked and np.any(np.isinf(points["dim"])):
        warnings.append(
            'With second_layer="gaussian" the limit is approached only logarithmically in the dimension; '
            "give dim= for a prediction at a finite size."
        )
    answers = {
        "errors": _limit_errors,
        "along": _along,
        "spectrum": spectra.spectrum_answer,
        "resolvent": spectra.resolvent_answer,
    }
    answer = answers[what](scenario, points, models, settings)
    if what == "errors" and isinstance(scenario.step, MaximalStep):
        _add_feedback(answer, scenario, points, models, settings)
    answer.warnings = warnings + answer.warnings
    if np.isfinite(points["dim"]).any():
        answer.attrs["finite_size"] = "the means of the features are of finite strength, with a ridge of 1/(d R)"
    answer.attrs["theory"] = " and ".join(dict.fromkeys(theory for theory, _ in models))
    return answer


def _add_feedback(
    answer: Answer, scenario: OneStep, points: Points, models: Models, settings: Mapping[str, Any]
) -> None:
    """Add, to first order, what the fluctuating initial output does to the step at a finite dimension.

    The equations hold for a longer spike only; where the feedback shortens it the change is reflected.
    """
    length = feedback(scenario, points)
    exact = [index[length[index] != 0] for theory, index in models if theory == "exact"]
    index = np.concatenate([*exact, np.empty(0, dtype=np.int64)])
    if not index.size:
        return
    longer = {**{name: values[index] for name, values in points.items()}, FEEDBACK: np.abs(length[index])}
    moved = _errors(scenario, longer, [("exact", np.arange(len(index)))], settings)
    sign = np.sign(length[index])
    for name in _FED_BACK:
        base = answer.values[name][index]
        changed = base + sign * (moved.values[name] - base)
        answer.values[name][index] = np.where(changed > 0, changed, base)
    answer.status[index] = np.where(answer.status[index] == "", moved.status, answer.status[index])


@np.errstate(all="ignore")
def prepare(scenario: OneStep, points: Points, what: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Choose what both engines must share: the ``x`` of a spectrum, the ``degree`` of spikes, the places ``kappa``."""
    if what in _CLOSED_FORMS:
        return prepare_spikes(scenario, what, settings)
    if what == "along":
        return {**settings, "kappa": places_along(settings.get("kappa"))}
    return spectra.prepare(scenario, points, what, settings)


def risk_equations(features: Features, model: SpikedModel, points: Points) -> Equations:
    """Return the first-order equations of the ridge problem."""
    width = np.asarray(points["width_per_dim"], dtype=float)
    return Equations.of_ridge(features, points["samples_per_dim"] / width, width, points["ridge"], model.bulk)


def signal_of(found: Errors | Classifier) -> dict[str, Floats]:
    """Return theta, t, psi and Q1 with psi psi^T, as spiked_features has them: the channels are t, psi, ..."""
    k = found.theta.shape[1]
    psi = found.tau[:, 0]
    return {"theta": found.theta, "t": found.x[:, :k], "psi": psi, "Q1": found.Q1 + psi[:, :, None] * psi[:, None, :]}


def _limit_errors(scenario: OneStep, points: Points, models: Models, settings: Mapping[str, Any]) -> Answer:
    """Answer small and growing steps without a dimension by their closed forms, everything else by the engine."""
    bare = np.isinf(points["dim"])
    if not isinstance(scenario.step, SmallStep | GrowingStep) or not bare.any():
        return _errors(scenario, points, models, settings)
    whole = closed_form_errors(scenario, {name: values[bare] for name, values in points.items()})
    if bare.all():
        return whole
    inside = {name: values[~bare] for name, values in points.items()}
    part = _errors(scenario, inside, [(models[0][0], np.arange(int(np.sum(~bare))))], settings)
    gather = _Gatherer(len(bare))
    for index, answer in ((np.flatnonzero(bare), whole), (np.flatnonzero(~bare), part)):
        gather.put_answer(index, answer)
    merged = gather.answer()
    merged.warnings = part.warnings
    return merged


def _errors(scenario: OneStep, points: Points, models: Models, settings: Mapping[str, Any]) -> Answer:
    if scenario.loss != "square":
        return _classification(scenario, points, models, settings)
    count = len(points["ridge"])
    tolerance = settings.get("tolerance", 1e-10)
    gather = _Gatherer(count)
    rare = np.zeros(count, dtype=bool)
    few = len(second_layer_law(scenario)[1]) <= PACKED_BLOCKS
    order = NODES_PER_PANEL if few else KERNEL_NODES_PER_PANEL
    for index, model, tables in grouped_tables(scenario, points, models, order):
        here = {name: values[index] for name, values in points.items()}
        if not settings.get("stretch", True):
            tables = dataclasses.replace(tables, stretch=None)
        equations = risk_equations(tables, model, here)
        # packed coordinates lose digits where blocks are nearly dependent (a linear activation); the nodes do not
        forms = (True, False) if len(model.pi) <= PACKED_BLOCKS else (False,)
        for packed in (True,) if model.bulk.packed_only else forms:
            first = solve_first_order(equations, packed=packed)
            found = ridge_errors(first, 1 / here["dim"], packed=packed)
            status = _status(model, here, first, found, tolerance)
            found.test = np.maximum(found.test, here["noise"])  # a perfect fit, up to rounding
            values = _values(scenario, equations, first, found, bulk_row_scale(model, here))
            if isinstance(scenario.step, SmallStep | GrowingStep):
                _forget_rows(values, here)
            gather.put(index, values, status, first)
            rare[index] = _rare_inputs_matter(model, equations, found, 1 / here["dim"]) & (status == "")
            again = np.flatnonzero((status != "") & (status != NO_BULK))
            if not again.size:
                break
            index, model, equations = index[again], model.take(again), equations.take(again)
            here = {name: values[again] for name, values in here.items()}
    if isinstance(scenario.step, SmallStep | GrowingStep):
        eta = step_size(scenario, points)
        aligned = (eta * scenario.target.hermite(1)[1]) ** 2
        gather.status[spike_power(scenario, points, eta) < aligned * (1 - 1e-12)] = SHORT_SPIKE
    answer = gather.answer()
    if rare.any():
        answer.warnings.append(
            f"Rare inputs with |<v,x>| > {RARE_INPUT} decide the limit at {rare.sum()} of {count} points "
            "(tiny ridge, n < p): a finite network sees few of them, expect a gap at any reachable dimension."
        )
    return answer


def _classification(scenario: OneStep, points: Points, models: Models, settings: Mapping[str, Any]) -> Answer:
    """Answer the errors of a classifier (logistic or hinge loss)."""
    tolerance = max(settings.get("tolerance", 1e-10), GOOD_ENOUGH)
    gather = _Gatherer(len(points["ridge"]))
    for index, model, tables in grouped_tables(scenario, points, models, KERNEL_NODES_PER_PANEL):
        here = {name: values[index] for name, values in points.items()}
        ones = np.ones(len(index))
        ratio = here["samples_per_dim"] / here["width_per_dim"]
        equations = Equations(tables, ratio, here["width_per_dim"], here["ridge"], ones)
        found = classify(equations, scenario.loss, here["flip"], 1 / here["dim"])
        scale = bulk_row_scale(model, here)
        square = scale[:, :, None] * scale[:, None, :]
        signal = signal_of(found)
        values = {
            "test_error": found.test,
            "train_error": found.train,
            "objective": found.objective,
            "test_misclassified": found.misclassified,
            "norm": found.norm,
            "theta": signal["theta"],
            "t": signal["t"] * scale,
            "psi": signal["psi"] * scale,
            "Q1": signal["Q1"] * square,
            "Q2": found.Q2,
            "V1": found.V1 * square,
            "V2": found.V2,
            "identity": found.identity,
            "null_error": 0.5 * ones,
            "affine_error": np.full(len(index), np.nan),
        }
        gather.put(index, values, _classifier_status(model, here, found, tolerance), found)
    return gather.answer()


def _classifier_status(model: SpikedModel, points: Points, found: Classifier, tolerance: float) -> Strings:
    reasons = np.full(len(found.test), "", dtype=object)
    for place in range(len(found.test)):
        if np.min(np.abs(model.s[place])) < 1e-9:
            reasons[place] = NO_BULK
        elif found.residual[place] > tolerance and abs(model.gamma[place]) == 1 and points["flip"][place] == 0:
            reasons[place] = SEPARATED
        elif not np.isfinite(found.test[place]):
            reasons[place] = "the solution is not finite"
        elif found.residual[place] > tolerance:
            reasons[place] = (
                f"residual {found.residual[place]:.1e} above the tolerance after {found.iterations[place]} sweeps"
            )
        elif found.identity[place] > IDENTITY_TOLERANCE:
            reasons[place] = f"digits lost: the stationarity of the fit is violated by {found.identity[place]:.1e}"
    return reasons


def _forget_rows(values: dict[str, Floats], points: Points) -> None:
    """Drop what refers to single rows where the spike is correlated with them: the equality is one in law only."""
    correlated = points["step.initial_output"] == 1
    for name in ("t", "psi", "Q1", "V1"):
        values[name] = np.where(correlated.reshape((-1,) + (1,) * (values[name].ndim - 1)), np.nan, values[name])


def _along(scenario: OneStep, points: Points, models: Models, settings: Mapping[str, Any]) -> Answer:
    """Answer ``what="along"``: RES(kappa) and c(kappa) of (4.3)."""
    if scenario.loss != "square":
        raise bad_field("what", "along", f'"errors" where loss="{scenario.loss}"')
    if isinstance(scenario.step, SmallStep | GrowingStep) and np.any(np.isinf(points["dim"])):
        raise bad_field("dim", None, 'given for what="along" of a small or growing step')
    kappa, tolerance = settings["kappa"], settings.get("tolerance", 1e-10)
    gather = _Gatherer(len(points["ridge"]))
    for index, model, tables in grouped_tables(scenario, points, models):
        here = {name: values[index] for name, values in points.items()}
        first = solve_first_order(risk_equations(tables, model, here))
        found = ridge_errors(first, 1 / here["dim"], at_nodes=True)
        assert tables.kappa is not None
        error, mean = np.moveaxis(_interpolate(tables.kappa[:, 0], found.along, kappa), 1, 0)
        values = {"error_along": error, "mean_along": mean}
        gather.put(index, values, _status(model, here, first, found, tolerance), first)
    answer = gather.answer()
    answer.coords["kappa"] = kappa
    return answer


def places_along(kappa: Any) -> Floats:
    """Return the checked places along kappa; between -3 and 3 if left open."""
    if kappa is None:
        return np.arange(-12, 13) / 4
    places = np.asarray(kappa, dtype=float)
    if places.ndim != 1 or len(places) < 2 or np.any(np.diff(places) <= 0) or np.max(np.abs(places)) > BOUND:
        raise bad_field("kappa", kappa, f"an increasing list of at least two numbers between -{BOUND:g} and {BOUND:g}")
    return places


def _interpolate(nodes: Floats, values: Floats, kappa: Floats) -> Floats:
    """Interpolate (B, 2, N) values from the nodes of each point to `kappa` by cubic splines; NaN stays NaN."""
    from scipy.interpolate import CubicSpline

    out = np.full((*values.shape[:2], len(kappa)), np.nan)
    for point in np.flatnonzero(np.isfinite(values).all(axis=(1, 2))):
        distinct, first = np.unique(nodes[0 if len(nodes) == 1 else point], return_index=True)
        out[point] = CubicSpline(distinct, values[point][:, first], axis=1)(kappa)
    return out


def _values(
    scenario: OneStep, equations: Equations, first: FirstOrder, found: Errors, scale: Floats
) -> dict[str, Floats]:
    response, width = first.response, equations.width
    with np.errstate(divide="ignore", invalid="ignore"):
        V1 = response.S / (width * equations.b)[:, None, None]
        V2 = response.R / (width * equations.b)[:, None]
    g0, g1 = scenario.target.hermite(1)
    signal = signal_of(found)
    blocks = {"theta": signal["theta"], "t": signal["t"] * scale, "psi": signal["psi"] * scale}
    blocks |= {"Q2": found.Q2, "V2": V2}
    square = scale[:, :, None] * scale[:, None, :]
    pairs = {"Q1": signal["Q1"] * square, "V1": V1 * square}
    if scenario.second_layer == "gaussian":  # the nodes of the law are no classes of neurons: report the sum
        blocks = {name: values.sum(axis=1, keepdims=True) for name, values in blocks.items()}
        pairs = {name: values.sum(axis=(1, 2), keepdims=True) for name, values in pairs.items()}
    return {
        "test_error": found.test,
        "train_error": found.train,
        "objective": found.objective,
        "test_misclassified": found.misclassified,
        "norm": found.norm,
        **blocks,
        **pairs,
        "identity": found.identity,
        "null_error": found.null,
        "affine_error": found.null - g0**2 - g1**2,
    }


def _status(model: SpikedModel, points: Points, first: FirstOrder, found: Errors, tolerance: float) -> Strings:
    reasons = []
    vanishing = np.min(np.abs(model.s), axis=1) < 1e-9
    for place in range(len(found.test)):
        if vanishing[place]:
            reasons.append(NO_BULK)
        elif not np.isfinite(found.test[place]):
            reasons.append("the solution is not finite")
        elif first.residual[place] > tolerance:
            reasons.append(
                f"residual {first.residual[place]:.1e} above the tolerance after {first.iterations[place]} steps"
            )
        elif found.identity[place] > IDENTITY_TOLERANCE:
            reasons.append(f"digits lost: the loss identity is violated by {found.identity[place]:.1e}")
        elif found.test[place] < points["noise"][place] - ROUNDING * found.null[place]:
            reasons.append("digits lost: the test error is below the label noise")
        elif (
            np.min(found.Q2[place]) < -ROUNDING * np.max(found.Q2[place])
            and found.test[place] > ROUNDING * found.null[place]  # after a perfect fit there is only rounding in Q2
        ):
            reasons.append("digits lost: the norm of a block is negative")
        else:
            reasons.append("")
    return np.array(reasons, dtype=object)


def _rare_inputs_matter(model: SpikedModel, equations: Equations, found: Errors, inverse_dim: Floats) -> Booleans:
    """Tell where dropping the rare |kappa| > 3.5 changes the test error by more than 1% (section 12 of the notes)."""
    suspects = np.flatnonzero((equations.ratio < 1) & (equations.b < 1e-2) & np.any(model.u != 0, axis=1))
    matter = np.zeros(len(found.test), dtype=bool)
    if suspects.size:
        part = equations.take(suspects)
        features = part.features
        assert features.kappa is not None
        weights = np.where(np.abs(features.kappa[:, 0]) < RARE_INPUT, features.weights, 0.0)
        part = dataclasses.replace(part, features=dataclasses.replace(features, weights=weights))
        change = np.abs(ridge_errors(solve_first_order(part), inverse_dim[suspects]).test - found.test[suspects])
        matter[suspects] = change > 0.01 * found.test[suspects] + ROUNDING * found.null[suspects]
    return matter


class _Gatherer:
    """Collects the answers of groups of points into arrays over the whole batch."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.values: dict[str, Floats] = {}
        self.status = np.full(count, "", dtype=object)
        self.residual = np.full(count, np.nan)
        self.iterations = np.zeros(count, dtype=np.int64)

    def put_answer(self, index: Integers, answer: Answer) -> None:
        for name, array in answer.values.items():
            self.values.setdefault(name, np.full((self.count, *array.shape[1:]), np.nan))[index] = array
        self.status[index], self.residual[index] = answer.status, answer.residual
        self.iterations[index] = answer.iterations

    def put(
        self,
        index: Integers,
        values: dict[str, Floats],
        status: Array,
        first: FirstOrder | Classifier,
    ) -> None:
        for name, array in values.items():
            room = self.values.setdefault(name, np.full((self.count, *array.shape[1:]), np.nan))
            room[index] = array
        self.status[index] = status
        self.residual[index] = first.residual
        self.iterations[index] = first.iterations

    def answer(self) -> Answer:
        return Answer(self.values, self.status.astype(str), self.residual, self.iterations)
