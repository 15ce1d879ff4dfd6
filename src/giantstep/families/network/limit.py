"""The limit of a network: the map of its steps, the features they leave, and the read-out after every one of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import numpy as np

from giantstep.checks import every_time
from giantstep.errors import InputError, bad_field, field_error
from giantstep.families.network.answers.errors import Table
from giantstep.families.network.asked import checks, chosen_theories, rank_warnings
from giantstep.families.network.beyond import BEYOND, lacking_beyond
from giantstep.families.network.describe import means_warning, terms_of
from giantstep.families.network.problem import Share, finite_batches, share_points, take_points
from giantstep.families.network.scenario import THEORIES, Network
from giantstep.families.network.shift import refuse_shift
from giantstep.families.network.trajectory import Moment, follow
from giantstep.family import Answer
from giantstep.gaussian.subspaces import split_directions
from giantstep.readout.finite_size import whole_sizes
from giantstep.types import Integers, Points, Strings

GAUSSIAN_LAYER = (
    'With second_layer="gaussian" the limit is approached only logarithmically in the dimension; '
    "give dim= for a prediction at a finite size."
)
FILLED_BY = {
    **dict.fromkeys(("steps", "along", "spectrum", "resolvent"), "others"),
    **dict.fromkeys(("shift", "sensitivity", "calibration"), "tested"),
}
"""Question -> module of `answers` whose function `answer_<question>` fills it, where it has another name."""


@np.errstate(all="ignore")  # a point that fails is flagged by its status
def limit(network: Network, points: Points, what: str, settings: Mapping[str, Any]) -> Answer:
    """Answer `what` at every point and every ``settings["time"]``; ``points["dim"]`` is inf for the bare limit."""
    bare = np.isinf(points["dim"])
    if bare.any() and not bare.all():  # closed forms answer one of both
        parts = [np.flatnonzero(bare), np.flatnonzero(~bare)]
        return Answer.joined([(rows, limit(network, take_points(points, rows), what, settings)) for rows in parts])
    points, theory = whole_sizes(points), settings.get("theory")
    refuse_missing(network, points, what, theory)
    closed = network.steps[0].closed_form(network.places[0], what, points) if len(network.steps) == 1 else None
    if closed is not None:
        answer = _after_the_step(network, what, closed, points, settings)
        if what != "weights":  # their theory is exact, and sees a target without a linear part, too
            answer.warnings += _warnings(network, points, theory)
        return answer
    module = import_module(f"giantstep.families.network.answers.{FILLED_BY.get(what, what)}")  # no other is loaded
    table = Table(network, points, len(settings["time"]))
    chosen = chosen_theories(network, points, what, theory)
    for share, moment, time in _moments(table, chosen, settings["time"]):
        getattr(module, f"answer_{what}")(table, share, moment, time, settings)
    answer = table.answer
    answer.warnings = list(dict.fromkeys([*answer.warnings, *_warnings(network, points, theory)]))
    named = (chosen == "exact") & finite_batches(points) & bool(answer.approximations)
    names = np.where(named, "isotropic", chosen)
    answer.attrs["theory"] = " and ".join(name for name in THEORIES if name in names)
    if table.finite_size:
        answer.attrs["finite_size"] = "; ".join(table.finite_size)
    return answer


def _moments(table: Table, chosen: Strings, times: Integers) -> Iterator[tuple[Share, Moment, int]]:
    """Yield the problems of all points at every time asked for, counted from the first one; facts go to the table."""
    for theory in dict.fromkeys(chosen.tolist()):
        for share in share_points(table.network, table.points, np.flatnonzero(chosen == theory), theory):
            reasons = dict[int, str]()
            for moment in follow(share.problem, theory, reasons):
                if moment.time in times:
                    yield share, moment, int(np.searchsorted(times, moment.time))
            for number, reason in reasons.items():
                table.note(share.index[share.owner == number], reason)
            problem, layer = moment.problem, moment.layer  # the last ones that were reached
            table.answer.approximations |= dict(layer.accuracy)
            table.answer.warnings += _unlearnt(moment)
            if np.isfinite(problem.neurons).any():
                table.finite_size[terms_of(problem, layer)] = None
                table.answer.warnings += means_warning(problem, layer)


def refuse_missing(network: Network, points: Points, what: str, theory: str | None) -> None:
    """Refuse a network for which a theory is missing, in one sentence that says which and what to do instead."""
    for place in network.places:
        lacking = network.steps[place.number].missing(place, points, theory)
        if lacking:
            raise missing_theory(f"steps.{place.number}", lacking)
    if network.fit_sample == "same" and not network.steps[-1].shares_sample:
        raise missing_theory("fit_sample", "a theory of a fit on the own sample of a maximal step")
    if network.fit_sample == "same" and what != "errors":
        raise missing_theory("fit_sample", f'a theory of what="{what}" of a fit on the own sample of a step')
    if network.fit_sample == "same" and theory not in (None, "exact"):
        raise bad_field("theory", theory, '"exact" where fit_sample="same"')
    single = len(network.steps) == 1 and network.target.directions == 1 and network.inputs is None
    if theory == "published" and not single:
        raise bad_field("theory", theory, '"exact" unless one step is made on one direction of isotropic inputs')
    weak = [step for step in network.steps if step.shares_sample]
    if what in ("weights", "spikes") and not (weak and len(network.steps) == 1):
        raise missing_theory("steps", f'a theory of what="{what}" other than after one SmallStep or GrowingStep')
    beyond_it = lacking_beyond(network, points, what) if what in BEYOND else None
    if beyond_it is not None:
        raise missing_theory(*beyond_it)
    if network.readout.classes and what == "along":
        raise missing_theory("readout.kind", "the error of a classifier along the learnt direction")
    if what == "along" and network.target.planes and network.target.directions > 1:
        raise bad_field("target", network.target.name, 'smooth where what="along" and it has several directions')


def missing_theory(name: str, lacking: str) -> InputError:
    """Return the refusal of the limit where a theory is missing: the experiment answers all the same."""
    return field_error(
        name,
        f"Field `{{field}}` has no limit here: what is missing is {lacking}. `gs.simulate` trains the real network.",
    )


def _after_the_step(network: Network, what: str, closed: Any, points: Points, settings: Mapping[str, Any]) -> Answer:
    """Return an answer of closed forms over the times asked for; before the step it is that of random features."""
    answer, times, before = closed(network, points, settings), settings["time"].tolist(), dict[str, Any]()
    nothing = np.zeros(len(answer.status))
    if 0 in times and what == "errors":
        untrained = {**settings, "time": np.zeros(1, dtype=np.int64), "theory": None}
        found = limit(network.replace(steps=(), fit_sample="fresh"), points, what, untrained).values
        before = {name: values[:, 0] for name, values in found.items() if values.ndim > 1}
    elif 0 in times:  # the spikes of a step of size 0
        still = {**points, "steps.0.rate": nothing, "steps.0.initial_output": nothing}
        before = closed(network, still, settings).values
    for name, values in answer.values.items():
        if name not in ("null_error", "affine_error"):
            path = [before.get(name, np.full_like(values, np.nan)), values]
            answer.values[name] = np.stack([path[time] for time in times], axis=1)
    if what == "errors":
        answer.values |= {"effective_rank": nothing + 1, "effective_rank_4": nothing + 1}
    if np.isfinite(points["dim"]).any():
        answer.attrs["finite_size"] = "whole numbers of samples and neurons, and a formula at a finite dimension"
    return answer


def _warnings(network: Network, points: Points, theory: str | None) -> list[str]:
    remarks = [text for place in network.places for text in network.steps[place.number].remarks(place, points, theory)]
    strong = any(step.strong for step in network.steps)
    if network.second_layer == "gaussian" and strong and np.isinf(points["dim"]).any():
        remarks.append(GAUSSIAN_LAYER)
    return remarks + rank_warnings(network, points)


def _unlearnt(moment: Moment) -> list[str]:
    """Say which directions of the target the last step has not found."""
    problem, layer = moment.problem, moment.layer
    if not moment.time or not any(step.learns for step in problem.network.steps) or problem.target.directions == 1:
        return []
    frame = layer.frame[0]
    left = np.linalg.norm(frame @ split_directions(layer.U[0], frame, problem.target).rest, axis=1)
    names = [f"z{j + 1}" for j in np.flatnonzero(left > 1 - 1e-9)]
    if not names:
        return []
    return [
        f"After {moment.time} steps {', '.join(names)} {'is' if len(names) == 1 else 'are'} not learnt: no "
        "step sees a linear part along it, given what is learnt before (see giantstep.exponents)."
    ]


# -- what both engines share -----------------------------------------------------------------------------------------


def prepare(network: Network, points: Points, what: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Choose what both engines must share: the times, and where a spectrum or a mean along kappa is wanted.

    The times begin with ``settings["first"]``, for who asks after some steps only.
    """
    refuse_shift(network, what)
    times = every_time(len(network.steps))[int(settings.get("first", 0)) :]
    question = network.questions[what]
    settings = {
        **{name: value for name, value in settings.items() if name != "first"},
        "time": times,
        **question.labels,
    }
    if what == "spectrum" and settings.get("x") is None:
        from giantstep.families.network.answers.others import unit_of
        from giantstep.readout.answers import choose_x

        found = _all_spectra(network, points, settings)  # cells that reach beyond the largest upper edge of the grid
        return {**settings, "x": choose_x((spectrum, unit_of(spectrum, settings)) for _, _, spectrum, _ in found)}
    known = {name: check for name, check in checks().items() if name in question.settings}
    return {**settings, **{name: check(settings.get(name)) for name, check in known.items()}}


def _all_spectra(network: Network, points: Points, settings: Mapping[str, Any]) -> Iterator[tuple[int, int, Any, Any]]:
    """Yield (time, point, spectrum, size) of the limit, times counted from the first one asked for."""
    from giantstep.families.network.answers.others import spectra

    theory, points = settings.get("theory"), whole_sizes(points)
    refuse_missing(network, points, "spectrum", theory)
    table, chosen = Table(network, points, 0), chosen_theories(network, points, "spectrum", theory)
    for share, moment, time in _moments(table, chosen, settings["time"]):
        for point, spectrum, size, _ in spectra(table, share, moment):
            yield time, point, spectrum, size


@np.errstate(all="ignore")
def count_outliers(network: Network, points: Points, dim: int, times: Integers) -> Integers:
    """Return how many eigenvalues lie above the bulk at every point and time (B, T), as the limit says.

    A finite spectrum does not say by itself which of its largest eigenvalues those are; where the limit has no theory
    none is left out.
    """
    from giantstep.readout import find_outliers

    counts = np.zeros((len(points["noise"]), len(times)), dtype=np.int64)
    points = {**points, "dim": np.full(len(counts), float(dim))}
    try:
        for time, point, spectrum, size in _all_spectra(network, points, {"time": times}):
            counts[point, time] = len(find_outliers(spectrum, spectrum.upper_edge(), size))
    except InputError:
        pass
    return counts
