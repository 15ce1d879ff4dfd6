"""The errors of the read-out after every step: read-outs whose features have one shape are solved together.

Rates, label noises and times differ in their features only. Where these have few nodes, one set for each point goes
into the same batch; many nodes (two learnt directions and more) are solved set by set, but begun together, on a sketch
of the features with few nodes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from giantstep.errors import InputError
from giantstep.families.few_steps.answer_table import AnswerTable
from giantstep.families.few_steps.features import describe_bulk, describe_features, floors, with_quadratic_noise
from giantstep.families.few_steps.groups import Group
from giantstep.families.few_steps.input_points import input_law
from giantstep.families.few_steps.trajectory import reason_of, split_directions
from giantstep.family import LOOSE
from giantstep.readout import (
    Bulk,
    Equations,
    Features,
    FirstOrder,
    InputBulk,
    Response,
    ridge_errors,
    solve_first_order,
)
from giantstep.readout.features import MANY_NODES
from giantstep.readout.first_order import variance_function
from giantstep.types import Floats, Integers, Points

RULES = (1.0, 0.7)
"""Fineness of the rule, and of a second one by which its error is measured."""
LOOSE_RULES = (0.45, 0.45)
"""Where the tolerance is loose, one coarser rule, whose error is not measured."""
SKETCH = 0.35
"""Fineness of the rule on which many nodes are begun."""
INACCURATE = 1e-3
IDENTITY = 1e-6
TOGETHER = 256
"""Points whose groups are answered together."""


def fill_errors(table: AnswerTable, groups: Iterable[Group], tolerance: float) -> Iterator[Group]:
    """Fill the errors after every step; yield the groups as they are done.

    Features that need too many nodes end their group with a reason; what came before stays.
    """
    is_loose = tolerance > LOOSE
    rules = LOOSE_RULES if is_loose else RULES
    for together in _slabs(groups):
        few: dict[Hashable, list[_ReadOut]] = {}
        many = []
        for group in together:
            _fill_ranks(table, group)
            with _ending(group):
                for time, classes in enumerate(group.path):
                    if not is_loose and split_directions(classes, group.network.target).learnt.shape[1] > 1:
                        many.append((group, time, _describe(group, time, SKETCH)))
                        continue
                    for read_out in _read_outs(table.points, group, time, rules):
                        few.setdefault(read_out.shape, []).append(read_out)
        for read_outs in few.values():
            _fill(table, read_outs, tolerance, None)
        for (group, time, _), response in zip(many, _sketch(table.points, many)):
            with _ending(group):
                for read_out in _read_outs(table.points, group, time, rules):
                    start = response.take(np.searchsorted(group.index, read_out.index))
                    _fill(table, [read_out], tolerance, start)
        yield from together


@contextmanager
def _ending(group: Group) -> Iterator[None]:
    """Keep as the reason of a group what its features are refused for."""
    try:
        yield
    except InputError as error:
        group.reason = group.reason or reason_of(error)


def _slabs(groups: Iterable[Group]) -> Iterator[list[Group]]:
    slab: list[Group] = []
    for group in groups:
        slab.append(group)
        if sum(len(member.index) for member in slab) >= TOGETHER:
            yield slab
            slab = []
    if slab:
        yield slab


def _fill_ranks(table: AnswerTable, group: Group) -> None:
    ranks = input_law(table.scenario, table.points, int(group.index[0])).effective_ranks()
    for name, rank in zip(("effective_rank", "effective_rank_4"), ranks):
        table.put(name, group.index, None, np.full(len(group.index), rank))


@dataclass
class _ReadOut:
    """The points of a group with one label noise after one of its steps: features on two rules, and the bulk."""

    group: Group
    time: int
    noise: float
    fineness: float
    index: Integers
    features: Features
    coarse: Features
    bulk: Bulk

    @property
    def shape(self) -> Hashable:
        """What read-outs have in common that are solved together."""
        sizes = tuple((each.mu1.shape, each.T0.shape, each.Jp.shape) for each in (self.features, self.coarse))
        if self.features.weights.shape[1] > MANY_NODES:
            return id(self)
        return sizes, len(np.asarray(self.features.kappa)[0]), _law_of(self.bulk)


def _law_of(bulk: Bulk) -> Hashable:
    """Return what bulks share that can be stacked."""
    if not isinstance(bulk, InputBulk):
        return ""
    return id(bulk) if bulk.spread.quadratic else bulk.masses.tobytes()


def _describe(group: Group, time: int, fineness: float) -> Features:
    """Return the features of a group after one step; few nodes are rounded up in number."""

    def make() -> Features:
        features = describe_features(dataclasses.replace(group.network, fineness=fineness), group.path[time])
        return features.padded(_rounded(features.weights.shape[1]))

    return group.once(("features", group.first + time, fineness), make)


def _read_outs(points: Points, group: Group, time: int, rules: tuple[float, float]) -> Iterator[_ReadOut]:
    """Yield the read-outs of a group after one step, by label noise."""
    network = group.network
    features = _describe(group, time, rules[0])
    coarse = features if rules[0] == rules[1] else _describe(group, time, rules[1])
    bulk = describe_bulk(network, group.path[time])
    moved = np.sum(features.hh * features.weights, axis=1) - np.sum(coarse.hh * coarse.weights, axis=1)
    for noise in np.unique(points["noise"][group.index]):
        index = group.index[points["noise"][group.index] == noise]
        added = noise - network.noise
        yield _ReadOut(
            group,
            time,
            float(noise),
            rules[0],
            index,
            dataclasses.replace(features, hh=features.hh + added),
            dataclasses.replace(coarse, hh=coarse.hh + moved + added),
            bulk,
        )


def _rounded(nodes: int) -> int:
    """Return one of few numbers of nodes, so that rules that differ a little can be stacked."""
    if not 1 < nodes <= MANY_NODES:
        return nodes
    step = 2 ** max(int(np.log2(nodes)) - 2, 0)
    return min(-(-nodes // step) * step, MANY_NODES)


def _equations(points: Points, index: Integers, features: Features, bulk: Bulk) -> Equations:
    width = points["width_per_dim"][index]
    ratio = points["samples_per_dim"][index] / width
    return Equations.of_ridge(features, ratio, width, points["ridge"][index], bulk)


def _stack_bulks(bulks: Sequence[Bulk], owner: Integers) -> Bulk:
    laws = [bulk for bulk in bulks if isinstance(bulk, InputBulk)]
    return InputBulk.stack(laws, owner) if laws else bulks[0]


def _owner(indices: Sequence[Integers]) -> Integers:
    return np.repeat(np.arange(len(indices)), [len(index) for index in indices])


def _sketch(points: Points, many: Sequence[tuple[Group, int, Features]]) -> list[Response]:
    """Return rough responses of all points of these groups, after these times, by features with few nodes."""
    bulks = [describe_bulk(group.network, group.path[time]) for group, time, _ in many]
    shapes: dict[Hashable, list[int]] = {}
    for number, ((_, _, features), bulk) in enumerate(zip(many, bulks)):
        large = features.weights.shape[1] > MANY_NODES
        key = number if large else (features.mu1.shape, features.T0.shape, features.Jp.shape, _law_of(bulk))
        shapes.setdefault(key, []).append(number)
    responses: dict[int, Response] = {}
    for numbers in shapes.values():
        indices = [many[number][0].index for number in numbers]
        owner = _owner(indices)
        features = Features.stack([many[number][2] for number in numbers], owner)
        bulk = _stack_bulks([bulks[number] for number in numbers], owner)
        equations = with_quadratic_noise(_equations(points, np.concatenate(indices), features, bulk))
        solved = solve_first_order(equations, goal=1e-4)
        for position, number in enumerate(numbers):
            responses[number] = solved.response.take(owner == position)
    return [responses[number] for number in range(len(many))]


def _fill(table: AnswerTable, read_outs: list[_ReadOut], tolerance: float, start: Response | None) -> None:
    """Solve read-outs of one shape, first on the coarse rule, and fill their errors."""
    index = np.concatenate([read_out.index for read_out in read_outs])
    owner, dim = _owner([read_out.index for read_out in read_outs]), table.points["dim"][index]
    bulk = _stack_bulks([read_out.bulk for read_out in read_outs], owner)
    features, coarse = (
        Features.stack([getattr(read_out, name) for read_out in read_outs], owner) for name in ("features", "coarse")
    )
    equations = _equations(table.points, index, features, bulk)
    rough = with_quadratic_noise(dataclasses.replace(equations, features=coarse))
    equations = with_quadratic_noise(equations)
    is_loose = tolerance > LOOSE
    begun = None if start is None else _begun(rough, start)
    near = first = solve_first_order(rough, begun, goal=1e-9) if is_loose else solve_first_order(rough, begun)
    if not is_loose:
        first = solve_first_order(equations, _begun(equations, near.response))
    errors = ridge_errors(first, 1 / dim)
    quadrature = np.zeros(len(index)) if is_loose else _quadrature_errors(near, errors.test, dim, owner)
    reasons = np.array([f"the quadrature is accurate only to {error:.1e}" for error in quadrature])
    status = np.where(first.residual > tolerance, "the equations of the read-out were not solved", "")
    status = np.where(errors.identity > IDENTITY, "digits lost: the loss identity is violated", status)
    status = np.where(quadrature > INACCURATE, reasons, status)
    all_data, floor = _floors(read_outs, equations, owner)
    by_class = read_outs[0].group.by_class
    values = {
        "test_error": errors.test,
        "train_error": errors.train,
        "objective": errors.objective,
        "norm": errors.norm,
        "Q2": by_class(errors.Q2),
        "theta": by_class(errors.theta),
        "V2": by_class(first.response.R / (equations.width * equations.b)[:, None]),
        "identity": errors.identity,
        "all_data_error": all_data,
        "floor": floor,
        "learned": np.full(len(index), float(np.asarray(features.kappa).shape[1])),
    }
    times = np.array([read_out.time for read_out in read_outs])[owner]
    for time in np.unique(times):
        rows = times == time
        for name, column in values.items():
            table.put(name, index[rows], int(time), column[rows])
        table.put("null_error", index[rows], None, errors.null[rows])
        residual = np.fmax(first.residual, quadrature)[rows]
        table.note(index[rows], status[rows], residual, first.iterations[rows])


def _floors(read_outs: list[_ReadOut], equations: Equations, owner: Integers) -> tuple[Floats, Floats]:
    """Return the errors on all data; those of one read-out are kept with its steps, because no ridge enters."""
    if len(read_outs) > 1:
        return floors(equations, owner)
    (own,) = read_outs
    name = "floors", own.group.first + own.time, own.fineness, own.noise, equations.width.tobytes()
    return own.group.once(name, lambda: floors(equations, owner))


def _begun(equations: Equations, response: Response) -> FirstOrder:
    """Return what an iteration starts from that knows the response on another rule."""
    count = len(equations.ratio)
    return FirstOrder(
        equations, variance_function(equations, response), response, np.zeros(count), np.zeros(count, dtype=np.int64)
    )


def _quadrature_errors(coarse: FirstOrder, test: Floats, dim: Floats, owner: Integers) -> Floats:
    """Return how much the test error moves with the coarser rule, for every set at its point of the smallest ridge."""
    ridge = coarse.equations.a * coarse.equations.b
    point = np.array([rows[np.argmin(ridge[rows])] for rows in map(np.flatnonzero, np.eye(owner[-1] + 1)[:, owner])])
    errors = ridge_errors(coarse.take(point), 1 / dim[point])
    return np.asarray(np.abs(errors.test / test[point] - 1)[owner])
