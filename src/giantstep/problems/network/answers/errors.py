"""Errors and order parameters of the fit after every step."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from giantstep.core.base.errors import InputError
from giantstep.core.base.types import Array, Integers, Points, Strings
from giantstep.core.maths.gaussian.conditional import condition
from giantstep.core.readout import Errors, Features
from giantstep.core.readout.features import MANY_NODES
from giantstep.core.readout.fits import RARE_INPUT, ROUNDING, Asked, Fit
from giantstep.core.scenario.answer import Answer, corner
from giantstep.core.scenario.family import LOOSE
from giantstep.problems.network.describe import Description, describe, finite_size
from giantstep.problems.network.escape import neglected
from giantstep.problems.network.follow import Moment, reason_of
from giantstep.problems.network.problem import Share, take_points
from giantstep.problems.network.rows.protocol import RULE_ERROR
from giantstep.problems.network.scatter import scatter_warning
from giantstep.problems.network.scenario import Network
from giantstep.problems.network.tolerances import (
    KNOWN_WELL,
    LINE_RULE,
    LOOSE_RULE,
    RULES,
    SOLVED,
)

FLUCTUATIONS = (
    "fluctuations of a fit on samples that are few beside what is fitted, or nearly as"
    " many as neurons"
)
"""What a finite size leaves out of a ridge fit: finite_size_steps (3.8)."""


@dataclass(frozen=True)
class Group:
    """Points whose fits are solved together: where they are in the grid, their sets in
    the moment, what they see.
    """

    asked: Asked
    points: Integers  # of the grid
    set_of_point: Integers  # of the moment
    descriptions: list[Description]


def answer_errors(
    table: Table, share: Share, moment: Moment, time: int, settings: Mapping[str, Any]
) -> None:
    """Fill the errors of the points of a share at one time."""
    if time == 0:
        _fill_constants(table, share)
    for group in groups(
        table, share, moment, settings, scatter=bool(settings.get("stretch", True))
    ):
        table.answer.warnings += scatter_warning(
            np.concatenate([one.neglected for one in group.descriptions])
        )
        fit = table.network.readout.solve(group.asked)
        index = group.points
        solution = fit.solution
        values: dict[str, Array] = {
            **{
                "test_error": solution.test,
                "train_error": solution.train,
                "V2": fit.V2,
            },
            **{
                name: getattr(solution, name)
                for name in ("objective", "norm", "Q2", "theta", "identity")
            },
            **{
                "test_misclassified": solution.misclassified,
                "all_data_error": fit.all_data,
                "floor": fit.floor,
            },
            "learned": np.full(len(index), float(group.descriptions[0].of_target)),
            **_of_rows(moment, fit, group),
        }
        for name, array in values.items():
            table.put(name, index, time, by_block(array, table.network.blocks))
        table.put("null_error", index, None, fit.null)
        # what random features leave out is no escape: rows must have moved
        if moment.time:
            left_out = neglected(
                moment.problem, moment.layer, group.descriptions, group.asked, fit
            )
            # the largest of all times; one that is not known hides no other
            table.neglected[index] = np.fmax(table.neglected[index], left_out)
        if (
            # finite_size_steps (3.8) is about ridge fits
            isinstance(solution, Errors)
            and np.isfinite(table.points["dim"][index]).any()
        ):
            known = table.answer.neglected.setdefault(
                FLUCTUATIONS, np.zeros(len(table.points["dim"]))
            )
            # those after the last step stay
            known[index] = solution.neglected
        note_fit(table, group, moment, fit, time)


def groups(
    table: Table,
    share: Share,
    moment: Moment,
    settings: Mapping[str, Any],
    *,
    scatter: bool = False,
) -> Iterator[Group]:
    """Yield the points of a share at one time as fits are asked; features that need too
    many nodes are said.

    With `scatter` steep features are those of a finite dimension, as `describe` has
    them.
    """
    try:
        descriptions = _descriptions(moment, settings, scatter)
    except InputError as error:
        table.note(share.points_of(moment.sets)[0], reason_of(error))
        return
    # those of one shape, where nodes are few
    together: dict[object, list[tuple[Description, Description | None]]] = {}
    for number, (fine, coarse) in enumerate(descriptions):
        f = fine.features
        stack_key = fine.bulks[0].stack_key
        # functions at many nodes would not stay in cache beside those of others
        alone = f.weights.shape[1] > MANY_NODES or stack_key is None
        # arrays of one group are joined: every shape must agree, that on the coarse
        # rule, too
        nodes = None if coarse is None else coarse.features.weights.shape[1]
        key: Any
        if alone:
            key = number
        else:
            key = (
                f.mu1.shape[1:],
                f.T0.shape[1:],
                f.Jp.shape[1:],
                fine.learnt,
                nodes,
                stack_key,
            )
        together.setdefault(key, []).append((fine, coarse))
    for parts in together.values():
        # only steep features that scatter differ from those on all data
        if not scatter:
            plain = None
        else:
            plain = Features.join([fine.plain for fine, _ in parts])
        group = asked_about(table, share, moment, [fine for fine, _ in parts])
        size = group.asked.size
        asked = dataclasses.replace(
            group.asked,
            tolerance=settings.get("tolerance", SOLVED),
            size=(
                size
                if settings.get("stretch", True)
                else dataclasses.replace(size, stretch=None)
            ),
            coarse=(
                None
                if parts[0][1] is None
                else Features.join([c.features for _, c in parts if c is not None])
            ),
            plain=plain,
            # floors are defined for the square loss
            with_floors=bool(settings.get("floors", True))
            and not table.network.readout.classes,
        )
        yield dataclasses.replace(group, asked=asked)


def asked_about(
    table: Table, share: Share, moment: Moment, seen: list[Description]
) -> Group:
    """Return the points of parameter sets whose descriptions have one shape."""
    problem = moment.problem
    sets = np.concatenate([one.sets for one in seen])
    points, description_of_point = share.points_of(moment.sets[sets])
    set_of_point = sets[description_of_point]
    numbers = take_points(table.points, points)
    size = finite_size(problem, moment.layer, set_of_point, numbers["dim"])
    # fractions of whole neurons differ where widths do
    pi = None
    if np.ptp(problem.pi, axis=0).any():
        pi = problem.pi[set_of_point]
    features = Features.join([one.features for one in seen])
    bulks = tuple(bulk for one in seen for bulk in one.bulks)
    return Group(
        asked=Asked(features, bulks, description_of_point, numbers, SOLVED, size, pi),
        points=points,
        set_of_point=set_of_point,
        descriptions=seen,
    )


def _descriptions(
    moment: Moment, settings: Mapping[str, Any], scatter: bool
) -> list[tuple[Description, Description | None]]:
    """Return what is seen on one rule, and on a second one where the error of the first
    is not known (1e-12).
    """
    problem = moment.problem
    layer = moment.layer
    # one coarse rule will do for a first picture; its error is not measured
    if settings.get("tolerance", SOLVED) > LOOSE:
        return [
            (one, None) for one in describe(problem, layer, LOOSE_RULE, scatter=scatter)
        ]
    fine = list(describe(problem, layer, RULES[0], finer=LINE_RULE, scatter=scatter))
    # along one direction good averages of the target need no second rule, nor does a
    # law of rows that knows the error of one
    known = (
        problem.target.resolution.error <= KNOWN_WELL or RULE_ERROR in layer.rows.known
    )
    if known and all(one.learnt < 2 for one in fine):
        return [(one, None) for one in fine]
    pairs: list[tuple[Description, Description | None]] = []
    # the second rule gives the error of the first one
    for one, other in zip(
        fine, describe(problem, layer, RULES[1], finer=LINE_RULE, scatter=scatter)
    ):
        exact, rough = (
            np.sum(f.hh * f.weights, axis=1, keepdims=True)
            for f in (one.features, other.features)
        )
        # E y^2 is no feature's
        features = dataclasses.replace(
            other.features, hh=other.features.hh + exact - rough
        )
        pairs.append((one, dataclasses.replace(other, features=features)))
    return pairs


def note_fit(
    table: Table, group: Group, moment: Moment, fit: Fit, time: int | None
) -> None:
    """Keep why points were not solved at a time, and warn of what decides their
    limit.
    """
    index = group.points
    status = np.where(
        fit.status == "", moment.layer.rows.flagged[group.set_of_point], fit.status
    )
    # a small error is what is left of two large averages of the target, and has their
    # error
    rest = np.fmax(1.0, fit.null / np.fmax(fit.solution.test, ROUNDING * fit.null))
    residual = np.fmax(fit.residual, moment.problem.target.resolution.error * rest)
    table.note(index, status, residual, fit.iterations, time=time)
    if fit.rare.any():
        table.answer.warnings.append(
            f"Rare inputs with |<v,x>| > {RARE_INPUT} decide the limit at"
            f" {fit.rare.sum()} of {len(index)} points (tiny ridge, n < p): a finite"
            " network sees few of them, expect a gap at any reachable dimension."
        )


def _of_rows(moment: Moment, fit: Fit, group: Group) -> dict[str, Array]:
    """Return t, psi, Q1, V1: sums over the initial rows along kappa and across it,
    spiked_features section 4.
    """
    problem = moment.problem
    layer = moment.layer
    sets = group.set_of_point
    k = len(problem.zeta)
    count = len(sets)
    blank = {
        "t": np.full((count, k), np.nan),
        "psi": np.full((count, k), np.nan),
        "Q1": np.full((count, k, k), np.nan),
        "V1": np.full((count, k, k), np.nan),
    }
    known = layer.rows.sums_known
    # they are defined along one direction
    if problem.target.directions > 1 or not known.any():
        return blank
    sums = layer.rows.sums(problem, layer, group.descriptions, group.asked, sets, fit)
    if sums is None:
        return blank
    values = {"t": sums.t, "psi": sums.psi, "Q1": sums.Q1, "V1": sums.V1}
    # the axes of the other sums have turned
    if sums.only_V1:
        values = {"V1": sums.V1}
    for name, array in values.items():
        known_as = known[sets].reshape(-1, *(1,) * (array.ndim - 1))
        values[name] = np.where(known_as, array, np.nan)
    return {**blank, **values}


def by_block(values: Array, blocks: int) -> Array:
    """Sum values over the nodes or sub-blocks of each block (a Gaussian law has one),
    in all axes after the first.
    """
    for axis in range(1, values.ndim):
        if values.shape[axis] != blocks:
            shape = (*values.shape[:axis], blocks, -1, *values.shape[axis + 1 :])
            # the parts of a block are neighbours; the axis has one entry for each block
            # then
            values = values.reshape(shape).sum(axis=axis + 1)
    return values


def _fill_constants(table: Table, share: Share) -> None:
    """Fill what no step changes: the effective ranks, and the error of the best affine
    predictor.
    """
    index = share.points
    problem = share.problem
    # tr Sigma = d: with the mean 1 of the eigenvalues (tr Sigma)^2/d is d
    second, fourth = (
        problem.inputs.average(problem.inputs.eigenvalues**power) for power in (2, 4)
    )
    table.put("effective_rank", index, None, np.full(len(index), 1 / second))
    table.put("effective_rank_4", index, None, np.full(len(index), second**2 / fourth))
    if table.network.readout.classes:
        table.put("affine_error", index, None, np.full(len(index), np.nan))
        return
    frame = np.eye(problem.target.directions)
    try:
        # no direction is learnt: all of them are averaged out
        whole = condition(problem.target, frame[:, :0], frame, 1.0)
    # a target of so many directions has no first average either
    except InputError as error:
        table.note(index, reason_of(error))
        return
    # the part of the target that a constant and a linear function explain is taken out
    affine = float(whole.square[0] - whole.h[0] ** 2 - np.sum(whole.h1[0] ** 2))
    table.put("affine_error", index, None, affine + table.points["noise"][index])


# -- The answer of a limit under construction: columns over points and times -----------


class Table:
    """The answer under construction: every variable is NaN until it is filled; times
    count from the first one asked.
    """

    def __init__(self, network: Network, points: Points, times: int) -> None:
        self.network = network
        self.points = points
        self.times = times
        self.answer = Answer.blank(len(points["dim"]))
        # which terms of it are in, in words: a dictionary keeps their order
        self.finite_size: dict[str, None] = {}
        self.neglected = np.zeros(len(points["dim"]))
        """Part of the objective that the second order of the spread would take away,
        `escape.neglected` (B,).
        """
        # the largest `escape.spread_beside_rows`, where no error is asked for
        self.spread = 0.0
        # variables that have a time
        self._at_times: set[str] = set()
        # points that were not solved at a time
        self._unsolved: list[tuple[Integers, int]] = []

    def put(self, name: str, index: Integers, time: int | None, values: Any) -> None:
        """Fill one variable at some points, at one time (None: it has no time)."""
        values = np.asarray(values, dtype=float)
        own = values.shape[1:]
        if time is not None:
            self._at_times.add(name)
        array = self.answer.room_for(name, own if time is None else (self.times, *own))
        at_time = array if time is None else array[:, time]
        # answers differ in length: one that is shorter fills a corner and leaves NaN
        at_time[corner(index, own)] = values

    def clear(self, index: Integers) -> None:
        """Forget what was found at some points, to answer them by another theory."""
        for values in self.answer.values.values():
            values[index] = np.nan
        self.answer.status[index] = ""
        self.answer.residual[index] = 0.0
        self.neglected[index] = 0.0
        # another theory may solve them
        self._unsolved = [
            (np.setdiff1d(failed, index), time) for failed, time in self._unsolved
        ]

    def note(
        self,
        index: Integers,
        status: Strings | str,
        residual: Any = 0.0,
        iterations: Any = 0,
        *,
        time: int | None = None,
    ) -> None:
        """Keep the first reason, the largest residual and all iterations of some
        points, not solved at a time.
        """
        answer = self.answer
        if time is not None:
            failed = np.broadcast_to(
                np.asarray(status, dtype=object) != "", np.shape(index)
            )
            self._unsolved.append((index[failed], time))
        answer.status[index] = np.where(
            answer.status[index] == "", status, answer.status[index]
        )
        answer.residual[index] = np.fmax(answer.residual[index], residual)
        answer.iterations[index] += iterations

    def blank_unsolved(self) -> None:
        """Make NaN of all that a point has at a time at which it was not solved, but
        for what the layer alone says.
        """
        for name in self._at_times - {"learned"}:
            for index, time in self._unsolved:
                self.answer.values[name][index, time] = np.nan
