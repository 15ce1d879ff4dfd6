"""The fit after a step as the law of its output, point by point: what the answers
beyond errors start from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from giantstep.core.base.types import Floats
from giantstep.core.maths.gaussian.target import Target
from giantstep.core.readout import Classifier
from giantstep.core.readout.class_pairs import (
    ClassParts,
    class_parts,
    spread_of_classes,
)
from giantstep.core.readout.fits import Fit
from giantstep.core.readout.output_law import Blocks, Fitted, LayerAt, OutputLaw
from giantstep.core.readout.pairs import Parts, ridge_parts, spread_of_means
from giantstep.problems.network.answers.errors import Group, Table, groups, note_fit
from giantstep.problems.network.beyond.fresh_inputs import (
    FreshInputs,
    inputs_of,
    resolved,
    scale_of_features,
)
from giantstep.problems.network.follow import Moment
from giantstep.problems.network.layer import Layer
from giantstep.problems.network.problem import Problem, Share
from giantstep.problems.network.shift import FreshLaw

RULES_KEPT = 6
"""Rules that fits of one layer share at a time; each may take some 100 MB."""
DIFFERENCE = 1e-5
"""Step of a central difference, in units of the coordinates, that gives a gradient to
1e-9.
"""


@dataclass(frozen=True, eq=False)
class FittedPoint:
    """One point of the grid after a step: its fit, and the laws of its output at test
    inputs.
    """

    problem: Problem
    layer: Layer
    row: int
    fit: Fit
    number: int
    place: int
    """Among the points of the grid; `number` is the one among those of the fit."""
    blocks: Blocks
    fitted: Fitted
    noise: float
    flip: float
    finite: bool
    """Whether the dimension is finite."""
    made: dict[tuple[object, ...], tuple[FreshInputs, LayerAt]] = field(
        default_factory=dict
    )
    """The last rules that were made, for this fit or for another of the group."""

    @property
    def own_law(self) -> FreshLaw:
        """The law of the inputs of the fit."""
        return FreshLaw.of_the_fit(self.problem.target.directions)

    @property
    def test_error(self) -> float:
        """Its error at inputs of that law."""
        return float(self.fit.solution.test[self.number])

    def at(
        self, law: FreshLaw, scale: tuple[float, ...], target: Target | None = None
    ) -> tuple[FreshInputs, OutputLaw]:
        """Return inputs of a law on a rule of this scale, and the law of the output
        there; with labels of a target.
        """
        target = self.problem.target if target is None else target
        # fits of one layer differ in their second layers only: they share a rule
        key = (self.row, law.key, scale, target)
        if key not in self.made:
            if len(self.made) >= RULES_KEPT:
                # the oldest one: dictionaries keep their order
                self.made.pop(next(iter(self.made)))
            inputs = inputs_of(target, self.layer.frame[self.row], law, scale)
            self.made[key] = inputs, LayerAt(self.blocks, inputs.z, law.bulk)
        inputs, layer = self.made[key]
        return inputs, OutputLaw(layer, self.fitted)

    def scale(self, law: FreshLaw) -> float:
        """Return the scale on which the features vary at inputs of a law."""
        return scale_of_features(
            self.layer, self.row, self.layer.frame[self.row], law, self.blocks.s
        )

    def plain(self, law: FreshLaw) -> tuple[FreshInputs, OutputLaw]:
        """Return a rule that resolves the features."""
        return self.at(law, (self.scale(law),))

    def signs(
        self, law: FreshLaw, target: Target | None = None
    ) -> tuple[FreshInputs, OutputLaw]:
        """Return a rule that resolves the sign of the output, too."""
        return resolved(lambda scale: self.at(law, scale, target), self.scale(law))

    def residuals(
        self, law: FreshLaw, noise: float, least: Mapping[int, float]
    ) -> tuple[FreshInputs, OutputLaw]:
        """Return a rule that resolves the sign of y - f, too, down to a scale."""
        return resolved(
            lambda scale: self.at(law, scale),
            self.scale(law),
            self._slope_of_label,
            noise,
            least,
        )

    def positive(self, inputs: FreshInputs) -> Floats:
        """Return P(y = 1|z) of classes (N,)."""
        # P(y = 1) = (1 + E y)/2 for y = +-1, and flips leave 1 - 2 flip of the mean
        return 0.5 * (1 + (1 - 2 * self.flip) * inputs.label)

    def _slope_of_label(self, inputs: FreshInputs) -> Floats:
        """Return dg/dz (N, R) of the label of the fit."""
        frame = self.layer.frame[self.row]
        # the target is a function of the coordinates along it
        z = inputs.z @ frame.T
        gradient = np.zeros((len(inputs.z), len(frame)))
        for axis, step in enumerate(DIFFERENCE * np.eye(len(frame))):
            ahead, behind = (
                np.asarray(self.problem.target(z + sign * step)) for sign in (1, -1)
            )
            gradient[:, axis] = (ahead - behind) / (2 * DIFFERENCE)
        # a difference of 0.02 over so short a way is a jump of the label, not its slope
        jumps = np.abs(gradient) > 1e-2 / DIFFERENCE
        # back in the coordinates of the rows
        return np.where(jumps, 0.0, gradient) @ frame


@dataclass(frozen=True, eq=False)
class Fits:
    """The fits of points that were solved together after a step."""

    moment: Moment
    group: Group
    fit: Fit

    def points(self) -> Iterator[FittedPoint]:
        """Yield every solved point."""
        problem = self.moment.problem
        layer = self.moment.layer
        asked = self.group.asked
        s = layer.scale(problem)
        # over independent standard normals, as the channels of the fit are
        JU, Js, _ = layer.rows.independent(problem)
        spread = self._spread()
        # one for all fits of the group, so that they share their rules
        made = dict[tuple[object, ...], tuple[FreshInputs, LayerAt]]()
        for number, (point, row) in enumerate(
            zip(self.group.points.tolist(), self.group.set_of_point.tolist())
        ):
            # it was not solved, which has been noted: its values stay NaN
            if self.fit.status[number]:
                continue
            blocks = Blocks(
                problem.activation,
                layer.means[row],
                s[row],
                # the only atom: inputs with a covariance are refused
                layer.rows.B[row, :, 0],
                JU[row],
                Js[row],
            )
            noise, flip = (
                float(asked.points[name][number]) for name in ("noise", "flip")
            )
            solution = self.fit.solution
            # channel after channel, each with all blocks
            x = solution.x[number].reshape(-1, len(s[row]))
            # in the limit there are none: `Fitted` then counts no spread
            own = [part[number] for part in spread]
            fitted = Fitted(
                solution.theta[number],
                x,
                solution.Q1[number],
                solution.Q2[number],
                *own,
            )
            finite = bool(np.isfinite(asked.points["dim"][number]))
            yield FittedPoint(
                problem,
                layer,
                row,
                self.fit,
                number,
                point,
                blocks,
                fitted,
                noise,
                flip,
                finite,
                made,
            )

    @cached_property
    def parts(self) -> Parts | ClassParts:
        """What two networks alike have in common."""
        asked = self.group.asked
        solution = self.fit.solution
        # a ridge fit has a first-order solution, a fit of classes has none
        if self.fit.first is not None:
            return ridge_parts(self.fit.first, asked.points["noise"], asked.size)
        assert isinstance(solution, Classifier) and self.fit.equations is not None
        # the r of beyond_the_error (2.14): all coordinates that any row or the target
        # depends on
        coordinates = self.moment.layer.means.shape[2]
        kind = self.moment.problem.network.readout.kind
        return class_parts(
            self.fit.equations,
            solution,
            kind,
            asked.points["flip"],
            asked.size,
            coordinates,
        )

    def _spread(self) -> tuple[Floats, ...]:
        """Return how the fitted means vary from sample to sample, and what the bulk has
        of it; none: not counted.
        """
        size = self.group.asked.size
        solution = self.fit.solution
        # beyond_the_error (2.12) and (2.14) of a ridge fit; classes have them with
        # other weights
        if self.fit.first is not None:
            return spread_of_means(self.fit.first, size) or ()
        assert isinstance(solution, Classifier) and self.fit.equations is not None
        return (
            spread_of_classes(
                self.fit.equations, solution, size, self.moment.layer.means.shape[2]
            )
            or ()
        )


def solved_groups(
    table: Table,
    share: Share,
    moment: Moment,
    settings: Mapping[str, Any],
    time: int | None = None,
) -> Iterator[Fits]:
    """Yield the fits of a share at one time; what could not be solved is noted."""
    # floors are no answer here
    for group in groups(table, share, moment, {**settings, "floors": False}):
        fit = table.network.readout.solve(group.asked)
        note_fit(table, group, moment, fit, time)
        yield Fits(moment, group, fit)
