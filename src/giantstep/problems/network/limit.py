"""The limit of a network: the map of its steps, the features they leave, and the
read-out after every one of them.

Two theories of a finite dimension are for inputs of low effective rank, where the limit
warns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from giantstep.core.base.errors import Code, InputError, bad_field, field_error
from giantstep.core.base.types import Floats, Integers, Points, Strings
from giantstep.core.maths.gaussian.resolution import rough_sentence
from giantstep.core.maths.gaussian.subspaces import split_directions
from giantstep.core.readout import find_outliers
from giantstep.core.readout.answers import check_x, check_z, choose_x
from giantstep.core.readout.feature_spikes import check_degrees
from giantstep.core.readout.finite_size import whole_sizes
from giantstep.core.readout.fits import QUADRATURE
from giantstep.core.readout.left_open import line_of_outliers
from giantstep.core.scenario.answer import Answer
from giantstep.core.scenario.checks import check_list, every_time
from giantstep.core.scenario.own_classes import refuse_limit
from giantstep.problems.inputs.assumptions import LEAST_RANKS, warnings_of
from giantstep.problems.inputs.parts import InputRows
from giantstep.problems.network.answers.errors import Table
from giantstep.problems.network.answers.spectrum import key_of, spectra, unit_of
from giantstep.problems.network.describe import means_warning
from giantstep.problems.network.escape import (
    REACHABLE,
    SAID,
    WIDE,
    escaping,
    needed_dim,
    outside_split,
    spread_beside_rows,
)
from giantstep.problems.network.follow import Moment, follow
from giantstep.problems.network.layer import least_spike
from giantstep.problems.network.plugins import checks as checks_of_folders
from giantstep.problems.network.plugins import folder_of, module_of_answer
from giantstep.problems.network.problem import (
    Share,
    finite_batches,
    input_law,
    inputs_at,
    share_points,
    take_points,
)
from giantstep.problems.network.scenario import THEORIES, Network
from giantstep.problems.network.shift import refuse_shift
from giantstep.problems.network.splits import learnt_of_target

GAUSSIAN_LAYER = (
    'With second_layer="gaussian" the limit is approached only logarithmically in the'
    " dimension; give dim= for a prediction at a finite size."
)
NOTHING = 1e-6
"""Part of a direction of the target inside what is learnt that is rounding."""
BOUND = 9.0
"""Largest |kappa| that rules reach."""
FINITE_DIM = ("split", "quadratic")
"""Theories of inputs of low effective rank, structured_inputs (8.2) and (8.1)."""


@np.errstate(all="ignore")  # a point that fails is flagged by its status
def limit(
    network: Network, points: Points, what: str, settings: Mapping[str, Any]
) -> Answer:
    """Answer `what` at every point and every ``settings["time"]``; ``points["dim"]`` is
    inf for the bare limit.
    """
    answer = _answer(network, points, what, settings)
    error = network.target.resolution.error
    # no answer is better than the rule by which the target is averaged
    answer.residual = np.fmax(answer.residual, error)
    if error > QUADRATURE:
        # a point that failed for another reason keeps that reason
        unsaid = answer.status == ""
        answer.status = np.where(
            unsaid, rough_sentence(network.target, error), answer.status
        )
    return answer


def _answer(
    network: Network, points: Points, what: str, settings: Mapping[str, Any]
) -> Answer:
    bare = np.isinf(points["dim"])
    if bare.any() and not bare.all():  # closed forms answer one of both
        parts = [np.flatnonzero(bare), np.flatnonzero(~bare)]
        return Answer.joined(
            [
                (rows, _answer(network, take_points(points, rows), what, settings))
                for rows in parts
            ]
        )
    points = whole_sizes(points)
    theory = settings.get("theory")
    refuse_missing(network, points, what, theory)
    if len(network.steps) == 1:
        # a closed form is that of a single step: no other follows it
        closed = network.steps[0].closed_form(network.places[0], what, points)
    else:
        closed = None
    if closed is not None:
        answer = _after_the_step(network, what, closed, points, settings)
        if (
            what != "weights"
        ):  # their theory is exact, and sees a target without a linear part, too
            answer.warnings += _warnings(network, points, theory)
        return answer
    table = Table(network, points, len(settings["time"]))
    fill = getattr(module_of_answer(what), f"answer_{what}")
    chosen = chosen_theories(network, points, what, theory)
    for share, moment, time in _moments(table, chosen, settings["time"]):
        fill(table, share, moment, time, settings)
        # errors are judged by the second order itself: `neglected`
        if what != "errors":
            table.spread = max(
                table.spread, spread_beside_rows(moment.problem, moment.layer)
            )
    if theory in (None, "auto"):
        # what the first order leaves out is known once it has answered: points where it
        # matters are answered anew
        again = np.flatnonzero(escaping(network, points, table.neglected))
        table.clear(again)
        if len(again) == len(chosen):
            # they were about a theory that answers no point any more
            table.answer.warnings.clear()
            table.finite_size.clear()
        chosen[again] = "split"
        # a theory of "" leaves a point its first answer
        only = np.where(np.isin(np.arange(len(chosen)), again), chosen, "")
        for share, moment, time in _moments(table, only, settings["time"]):
            fill(table, share, moment, time, settings)
    table.blank_unsolved()
    answer = table.answer
    answer.warnings += _escape_warnings(network, points, table)
    # times and shares repeat what they warn of
    answer.warnings = list(
        dict.fromkeys([*answer.warnings, *_warnings(network, points, theory)])
    )
    # an exact theory that had to approximate the noise of a batch was the isotropic one
    named = (chosen == "exact") & finite_batches(points) & bool(answer.approximations)
    names = np.where(named, "isotropic", chosen)
    answer.attrs["theory"] = " and ".join(name for name in THEORIES if name in names)
    if table.finite_size:
        answer.attrs["finite_size"] = "; ".join(table.finite_size)
    return answer


def _moments(
    table: Table, chosen: Strings, times: Integers
) -> Iterator[tuple[Share, Moment, int]]:
    """Yield the problems of all points at every time asked for, counted from the first
    one; facts go to the table.

    A point without a theory ("") is left as it is.
    """
    # a dict keeps the order of the points, which a set would not
    for theory in dict.fromkeys(chosen[chosen != ""].tolist()):
        for share in share_points(
            table.network, table.points, np.flatnonzero(chosen == theory), theory
        ):
            reasons = dict[int, str]()
            for moment in follow(share.problem, theory, reasons):
                if moment.time in times:
                    yield share, moment, int(np.searchsorted(times, moment.time))
            for number, reason in reasons.items():
                table.note(share.points[share.set_of_point == number], reason)
            # the last ones that were reached
            problem, layer = (
                moment.problem,
                moment.layer,
            )
            _note_jumps(table, share, moment)
            table.answer.approximations |= dict(layer.rows.accuracy)
            table.answer.warnings += _unlearnt(moment)
            if np.isfinite(problem.neurons).any():
                # a dict in place of a set: sentences stay in order
                table.finite_size[layer.rows.terms(problem)] = None
                table.answer.warnings += means_warning(problem, layer)


def _note_jumps(table: Table, share: Share, moment: Moment) -> None:
    """Say where the weakest spike comes from a step that hardly moves the rows: the
    limit jumps where it is none.

    Rows of d coordinates meet a direction by 1/sqrt(d) without any step, so that a
    spike u counts from d = 1/u^2 on.
    """
    index, owner = share.points_of(moment.sets)
    # at a finite dimension the change is a smooth one: spiked_features section 4.4
    if not np.isinf(table.points["dim"][index]).any():
        return
    network = moment.problem.network
    points = table.points
    names = [
        place.field(network.steps[place.number].jumps_at)
        for place in network.places[: moment.time]
    ]
    # a list of sizes, block by block, is no number of a point
    names = [name for name in names if name in points]
    if not names:
        return
    dims = least_spike(moment.problem, moment.layer)[owner] ** -2.0
    dims = np.where(np.isinf(points["dim"][index]), dims, 0.0)
    # the weakest spike is that of the step that moves the rows least
    sizes = np.abs([points[name][index] for name in names])
    # a step of size 0 makes no spike that could be weak
    weakest = np.argmin(np.where(sizes > 0, sizes, np.inf), axis=0)
    for number, name in enumerate(names):
        known = table.answer.jumps.setdefault(name, np.zeros(len(points["dim"])))
        known[index] = np.where(weakest == number, dims, 0.0)


def refuse_missing(
    network: Network, points: Points, what: str, theory: str | None
) -> None:
    """Refuse a network for which a theory is missing, in one sentence that says which
    and what to do instead.
    """
    refuse_limit(network)
    for place in network.places:
        lacking = network.steps[place.number].missing(place, points, theory)
        if lacking:
            raise missing_theory(f"steps.{place.number}", lacking)
    if network.fit_sample == "same" and not network.steps[-1].shares_sample:
        raise missing_theory(
            "fit_sample", "a theory of a fit on the own sample of a maximal step"
        )
    if network.fit_sample == "same" and what != "errors":
        raise missing_theory(
            "fit_sample",
            f'a theory of what="{what}" of a fit on the own sample of a step',
        )
    if network.fit_sample == "same" and theory not in (None, "exact"):
        raise bad_field("theory", theory, '"exact" where fit_sample="same"')
    # the published map is spiked_features section 5.1
    single = (
        len(network.steps) == 1
        and network.target.directions == 1
        and network.inputs is None
    )
    if theory == "published" and not single:
        raise bad_field(
            "theory",
            theory,
            '"exact" unless one step is made on one direction of isotropic inputs',
        )
    weak = [step for step in network.steps if step.shares_sample]
    if what in ("weights", "spikes") and not (weak and len(network.steps) == 1):
        raise missing_theory(
            "steps",
            f'a theory of what="{what}" other than after one SmallStep or GrowingStep',
        )
    folder = folder_of(what)
    if folder is not None:
        lacking_there = folder.lacking(network, points, what)
        if lacking_there is not None:
            raise missing_theory(*lacking_there)
    if network.readout.classes and what == "along":
        raise missing_theory(
            "readout.kind", "the error of a classifier along the learnt direction"
        )
    if what == "along" and network.target.planes and network.target.directions > 1:
        raise bad_field(
            "target",
            network.target.name,
            'smooth where what="along" and it has several directions',
        )


def missing_theory(name: str, lacking: str) -> InputError:
    """Return the refusal of the limit where a theory is missing: the experiment answers
    all the same.
    """
    return field_error(
        name,
        f"Field `{{field}}` has no limit here: what is missing is {lacking}."
        " `gs.simulate` trains the real network.",
        Code.NO_THEORY,
    )


def _after_the_step(
    network: Network,
    what: str,
    closed: Any,
    points: Points,
    settings: Mapping[str, Any],
) -> Answer:
    """Return an answer of closed forms over the times asked for; before the step it is
    that of random features.
    """
    answer = closed(network, points, settings)
    times = settings["time"].tolist()
    before = dict[str, Any]()
    nothing = np.zeros(len(answer.status))
    if 0 in times and what == "errors":
        # the theory asked for is one of the step, which is left out here
        untrained = {**settings, "time": np.zeros(1, dtype=np.int64), "theory": None}
        found = _answer(
            network.replace(steps=(), fit_sample="fresh"), points, what, untrained
        ).values
        before = {
            name: values[:, 0] for name, values in found.items() if values.ndim > 1
        }
    elif 0 in times:  # the spikes of a step of size 0
        still = {**points, "steps.0.rate": nothing, "steps.0.initial_output": nothing}
        before = closed(network, still, settings).values
    for name, values in answer.values.items():
        # those are errors of the target alone, which have no time
        if name not in ("null_error", "affine_error"):
            path = [before.get(name, np.full_like(values, np.nan)), values]
            answer.values[name] = np.stack([path[time] for time in times], axis=1)
    if what == "errors":
        # weak steps are refused where inputs have a covariance: both ranks are those of
        # isotropic inputs, relative to d
        answer.values |= {
            "effective_rank": nothing + 1,
            "effective_rank_4": nothing + 1,
        }
    if np.isfinite(points["dim"]).any():
        answer.attrs["finite_size"] = (
            "whole numbers of samples and neurons, and a formula at a finite dimension"
        )
    return answer


def _warnings(network: Network, points: Points, theory: str | None) -> list[str]:
    remarks = [
        text
        for place in network.places
        for text in network.steps[place.number].remarks(place, points, theory)
    ]
    strong = any(step.strong for step in network.steps)
    if network.second_layer == "gaussian" and strong and np.isinf(points["dim"]).any():
        remarks.append(GAUSSIAN_LAYER)
    return remarks + rank_warnings(network, points)


def _escape_warnings(network: Network, points: Points, table: Table) -> list[str]:
    """Say where rows escape by their own overlap with the target, and the theory that
    is used does not follow it.
    """
    said = list[str]()
    # finite_size_steps (14.6)
    far = needed_dim(points, table.neglected)
    if far > REACHABLE:
        said.append(
            "The limit leaves out the overlap of 1/sqrt(d) that a row has with the"
            " target by chance, which the steps multiply here: it needs d above some"
            f" {far:.0e}. Give dim= for a reachable one."
        )
    # at a bare limit the numbers are parts times d, of which the first sentence is
    left = table.neglected[np.isfinite(points["dim"]) & (table.neglected >= SAID)]
    if left.size:
        reason = outside_split(network, points) or "it was asked for by name"
        said.append(
            f"At {left.size} of {len(points['dim'])} points the steps multiply the"
            " overlap of 1/sqrt(d) that a row has with the target by chance. The"
            f" theory has its first order only, because {reason}; the second would take"
            f" up to {left.max():.1%} off the objective. gs.simulate has all of it"
            " (finite_size_steps section 14)."
        )
    if table.spread > WIDE:
        said.append(
            "The overlaps of the rows of a block with the target spread over"
            f" {table.spread:.2g} of their length, which is followed to first order"
            ' here; what="errors" follows more (finite_size_steps section 14).'
        )
    return said


def _unlearnt(moment: Moment) -> list[str]:
    """Say which directions of the target the steps have not found at any point."""
    problem = moment.problem
    layer = moment.layer
    follows = [
        step.learns and step.strong for step in problem.network.steps[: moment.time]
    ]
    if not any(follows):  # weak steps say it themselves
        return []
    rates = [
        problem.of_step(number, "rate")
        for number, follows_it in enumerate(follows)
        if follows_it
    ]
    # at a rate of 0 nothing is meant to be learnt
    moved = np.flatnonzero(np.any(rates, axis=0))
    unseen = np.full(problem.target.directions, len(moved) > 0)
    for number in moved:
        frame = layer.frame[number]
        basis = split_directions(layer.means[number], frame, problem.target)
        unseen &= (
            np.linalg.norm(learnt_of_target(problem, layer, int(number), basis), axis=1)
            < NOTHING
        )
        if not unseen.any():
            return []
    if not unseen.any():
        return []
    steps = "1 step" if moment.time == 1 else f"{moment.time} steps"
    if len(unseen) == 1:
        return [
            f"After {steps} z is not learnt: no step sees a linear part along it (see"
            " giantstep.exponents)."
        ]
    names = [f"z{direction + 1}" for direction in np.flatnonzero(unseen)]
    return [
        f"After {steps} {', '.join(names)} {'is' if len(names) == 1 else 'are'} not"
        " learnt: no step sees a linear part along it, given what is learnt before"
        " (see giantstep.exponents)."
    ]


# -- what both engines share -----------------------------------------------------------


def prepare(
    network: Network, points: Points, what: str, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Choose what both engines must share: the times from settings["first"] on, and
    where a spectrum is wanted.
    """
    refuse_shift(network, what)
    times = every_time(len(network.steps))[int(settings.get("first", 0)) :]
    question = network.questions[what]
    kept = {name: value for name, value in settings.items() if name != "first"}
    settings = {**kept, "time": times, **question.labels}
    if what == "spectrum" and settings.get("x") is None:
        points = whole_sizes(points)
        try:
            found = {
                key_of(points, point, time, settings): spectrum
                for time, point, spectrum, _ in _all_spectra(network, points, settings)
            }
        # of an experiment, too, for which the limit would have chosen the places
        except InputError as error:
            if error.allowed or error.field is None:
                raise
            sentence = (
                f"{error.sentence} It needs `x` there, which the limit chooses"
                " elsewhere."
            )
            raise field_error(error.field, sentence) from None
        network.looked_at.clear()
        # cells reach beyond the largest upper edge of the grid
        network.looked_at.update(found)
        return {
            **settings,
            "x": choose_x(
                (spectrum, unit_of(spectrum, settings)) for spectrum in found.values()
            ),
        }
    several = (
        f"an increasing list of at least two numbers between -{BOUND:g} and {BOUND:g}"
    )
    kappa = partial(check_list, "kappa", several, _positions, np.arange(-12, 13) / 4)
    checks: dict[str, Callable[[Any], Any]] = {
        "x": check_x,
        "z": check_z,
        "degree": check_degrees,
        "kappa": kappa,
    }
    checks |= checks_of_folders()  # all of them fill in, too
    return settings | {
        name: checks[name](settings.get(name))
        for name in checks
        if name in question.settings
    }


def _positions(numbers: Floats) -> bool:
    return len(numbers) > 1 and bool(
        np.all(np.diff(numbers) > 0) and np.max(np.abs(numbers)) <= BOUND
    )


def _all_spectra(
    network: Network, points: Points, settings: Mapping[str, Any]
) -> Iterator[tuple[int, int, Any, Any]]:
    """Yield (time, point, spectrum, size) of the limit, times counted from the first
    one asked for.
    """
    theory = settings.get("theory")
    points = whole_sizes(points)
    refuse_missing(network, points, "spectrum", theory)
    table = Table(network, points, 0)
    chosen = chosen_theories(network, points, "spectrum", theory)
    for share, moment, time in _moments(table, chosen, settings["time"]):
        for point, spectrum, size, _ in spectra(table, share, moment):
            yield time, point, spectrum, size


@np.errstate(all="ignore")
def count_outliers(
    network: Network, points: Points, dim: int, times: Integers
) -> tuple[Integers, Floats]:
    """Return how many eigenvalues lie above the bulk at every point and time (B, T),
    and the line that parts them.

    A finite spectrum does not say by itself which of its largest eigenvalues those are;
    where the limit has no theory none is left out, and the line is NaN. The line does
    not depend on how many there are: above it they are counted.
    """
    content = (
        network.digest(),
        dim,
        times.tobytes(),
        *(values.tobytes() for values in points.values()),
    )
    known = _COUNTED.get(content)
    if known is not None:
        return known
    shape = len(points["noise"]), len(times)
    counts = np.zeros(shape, dtype=np.int64)
    lines = np.full(shape, np.nan)
    points = {**points, "dim": np.full(len(counts), float(dim))}
    try:
        for time, point, spectrum, size in _all_spectra(
            network, points, {"time": times}
        ):
            edge = spectrum.upper_edge()
            outliers = find_outliers(spectrum, edge, size)
            counts[point, time] = len(outliers)
            lines[point, time] = line_of_outliers(edge, outliers, spectrum.width * dim)
    except InputError:
        pass
    if len(_COUNTED) >= _MOST_COUNTED:
        _COUNTED.clear()
    _COUNTED[content] = counts, lines
    return counts, lines


_COUNTED: dict[tuple[Any, ...], tuple[Integers, Floats]] = {}
"""What `count_outliers` found: all trials of a point ask the same."""
_MOST_COUNTED = 64


# -- theories of a finite dimension ----------------------------------------------------


def chosen_theories(
    network: Network, points: Points, what: str, theory: str | None
) -> Strings:
    """Return the theory of every point, which `theory="auto"` leaves open.

    "exact" where both effective ranks are large, where the limit is asked for, or where
    neither refinement is known; else the one whose fluctuation in the features is
    larger at the start: c_1 sqrt(tau_2/d) of the leading channel, not linearised by
    structured_inputs (8.2), or c_2 sqrt(int lambda^2/(2 d)) of w0^T Sigma w0, split by
    (8.1).
    """
    chosen = np.full(
        len(points["dim"]),
        "exact" if theory in (None, "auto") else theory,
        # an array of texts would cut names that are longer than its first ones
        dtype=object,
    )
    if theory not in ("auto", *FINITE_DIM):
        return chosen
    _, c1, c2 = np.abs(network.activation.hermite(2))
    asked = np.isfinite(points["dim"]) & (
        network.inputs is not None and what == "errors"
    )
    says = {
        # the leading channel of structured_inputs (8.2) is that of one direction
        "split": asked & (network.target.directions == 1),
        "quadratic": asked & ~finite_batches(points) & (not network.readout.classes),
    }
    if network.isotropic:
        lacking = outside_split(network, points) or (
            "" if what == "errors" else f'what="{what}"'
        )
        if not lacking and np.isinf(points["dim"]).any():
            lacking = "dim is infinite"
        if theory == "split" and lacking:
            raise bad_field("theory", theory, f'"exact" here, because {lacking}')
        if theory == "split":
            return chosen
    for index in range(len(chosen)):
        known = [name for name, holds in says.items() if holds[index]]
        if theory in FINITE_DIM and theory not in known:
            allowed = (
                '"exact" where inputs are isotropic, without a finite dim, or where'
                ' what is not "errors"'
            )
            more = {
                "split": "several directions",
                "quadratic": "finite batches or classes",
            }
            raise bad_field(
                "theory", theory, f"{allowed}; or where there are {more[theory]}"
            )
        if (
            theory == "auto"
            and known
            and np.any(_effective_ranks(network, points, index) < LEAST_RANKS)
        ):
            law = input_law(network, points, index)
            sizes = {
                "split": c1 * np.sqrt(law.leading_variance()),
                "quadratic": c2 * np.sqrt(law.second_moment() / 2),
            }
            chosen[index] = max(known, key=lambda name: sizes[name])
    return chosen


def rank_warnings(network: Network, points: Points) -> list[str]:
    """Warn where the corrections to the limit, which are of order 1/r_eff and 1/r_4,
    are not small.
    """
    inputs = network.inputs
    if inputs is None:
        return []
    names = ["dim", *(name for name in points if name.startswith("inputs."))]
    # points with the same inputs have the same ranks
    first = np.unique(
        np.stack([points[name] for name in names], axis=1), axis=0, return_index=True
    )[1]
    ranks = np.array([_effective_ranks(network, points, int(index)) for index in first])
    if isinstance(inputs, InputRows):
        excess = inputs.norm_excess()
    else:
        excess = 0.0
    return warnings_of(ranks, excess)


def _effective_ranks(network: Network, points: Points, index: int) -> Floats:
    """Return r_eff and r_4 of one point, in the dimension that is asked about or that
    the inputs have.
    """
    inputs = inputs_at(network, points, index).inputs
    assert inputs is not None
    of_dim = inputs.rank_dim(float(points["dim"][index]))
    return of_dim * np.array(input_law(network, points, index).effective_ranks())
