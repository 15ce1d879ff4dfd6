"""Convex losses with their proximal maps, vectorised and accurate to rounding.

For labels 1 and -1 every loss here is a function of the margin u = y z (the square and
the Huber loss too, since (y - z)^2 = (1 - u)^2). With s = y omega the proximal map is
u = argmin loss(u) + (u - s)^2/(2V), the pull is g = (u - s)/V = -loss'(u) and its slope
dg/ds = -loss''/(1 + V loss''), see mixture_glm section 3. For real labels the square
and the Huber loss are functions of a residual, which is Gaussian given the teacher:
`clipping` has its moments.

With clip(x) in [-D, D] the rest x - clip(x) = sign(x) (|x| - D)_+ is the soft threshold
of x: mixture_glm section 2.2.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy

from giantstep.core.base.deadline import check_time
from giantstep.core.base.types import Floats, Indices

LAYERS = 4.0
"""Ratio of the edges that resolve the logarithmic boundary layers of the logistic
proximal map.
"""


class Pull(NamedTuple):
    """The proximal point u, the pull g = (u - s)/V and its slope dg/ds."""

    u: Floats  # where the margin goes
    g: Floats  # -loss'(u)
    slope: Floats  # how g changes with s, never positive


class Loss(ABC):
    """A convex loss of the margin u = y z, with V > 0 the strength of the proximal
    map.
    """

    @abstractmethod
    def pull(self, s: Floats, V: Floats) -> Pull:
        """Return the proximal point of s, the pull and its slope."""

    @abstractmethod
    def value(self, u: Floats) -> Floats:
        """Return loss(u)."""

    @abstractmethod
    def kinks(self, V: Floats) -> Floats:
        """Return the margins s (..., n) where the proximal map is not smooth at the
        scale of its panels.
        """

    @abstractmethod
    def origin(self, u: Floats, V: Floats) -> tuple[Floats, Floats]:
        """Return the s whose proximal point is u, and ds/du (NaN where only an atom, or
        nothing, maps there).
        """

    def atom(self, V: Floats) -> tuple[Floats, Floats] | None:
        """Return the interval of s which is mapped onto u = 1, where there is one; no
        sample above it pulls.
        """
        return None

    def turning_point(self, V: Floats) -> Floats:
        """Return the s at which u changes its sign: training samples below are
        misclassified.
        """
        return self.origin(np.zeros(np.shape(V)), V)[0]

    def resolving_step(self, scale: Floats) -> Floats:
        """Return the step in xi of the trapezoidal rule that is exact to rounding for
        s = mean + scale xi; 0: none.
        """
        return np.zeros(np.shape(scale))

    def at(self, row: Indices) -> Loss:
        """Return the loss for nodes of the given rows, where its parameters are one
        number per row.
        """
        return self


class LogisticLoss(Loss):
    """log(1 + e^-u)."""

    def pull(self, s: Floats, V: Floats) -> Pull:
        """Return u with u - s = V/(1 + e^u), by Halley's iteration, whose error is
        cubed at every step.

        A last step of at most 1e-8 moves the sigmoid along its tangent, exactly to
        rounding.
        """
        # the solution for 1/2 - u/4 in place of 1/(1 + e^u)
        u = (s + 0.5 * V) / (1 + 0.25 * V)
        # the pull 1/(1 + e^u) lies between 0 and 1
        u = np.clip(u, s, s + V)
        # f = u - s - V g, f' = 1 + V g (1 - g), f'' = -2 V g (1 - g) (1/2 - g); the
        # step is f f'/(f'^2 - f f''/2), formed in place: most of a fit is spent here
        for _ in range(40):
            check_time()
            g = scipy.special.expit(-u)
            bend = g * (1 - g)
            slope = V * bend
            curvature = (0.5 - g) * slope
            slope += 1
            step = u - s
            step -= V * g
            curvature *= step
            step *= slope
            slope *= slope
            slope += curvature
            step /= slope
            u -= step
            if np.all(np.abs(step) <= 1e-8 * (1 + np.abs(u))):
                break
        g += bend * step
        # 1 - g at the new u, where g itself may be 1 to rounding
        bend = g * scipy.special.expit(u)
        return Pull(u, g, -bend / (1 + V * bend))

    def value(self, u: Floats) -> Floats:
        """Return log(1 + e^-u)."""
        # no overflow where the margin is far below 0
        return np.logaddexp(0.0, -u)

    def kinks(self, V: Floats) -> Floats:
        """Return edges 0, +-4^j around s = 0 and, for large V, around s = -V."""
        largest = np.max(V[np.isfinite(V)], initial=0.0)
        # the layer ends at some V; edges beyond are infinite, which are left out
        layers = np.log(4 * (largest + 16)) / np.log(LAYERS)
        count = max(1, int(np.ceil(layers)))
        steps = LAYERS ** np.arange(count + 1)
        steps = np.where(steps <= 4 * LAYERS * (V[..., None] + 16), steps, np.inf)
        near = np.concatenate([np.zeros((*V.shape, 1)), steps, -steps], axis=-1)
        far = np.where(V[..., None] > 8, near - V[..., None], np.inf)
        return np.concatenate([near, far], axis=-1)

    def resolving_step(self, scale: Floats) -> Floats:
        """Return h with pi^2/(2 scale^2) - 2 pi^2/(h scale) = -33, at most 1/2: the
        rule is wrong by e^-33.

        The proximal map branches where 1 + V loss'' = 0, which is at Im s = +-pi for
        every V.
        """
        # below, the normal density alone says what the step must be
        wide = np.maximum(scale, 0.25)
        return np.minimum(0.5, 2 * np.pi**2 * wide / (33 * wide**2 + 0.5 * np.pi**2))

    def origin(self, u: Floats, V: Floats) -> tuple[Floats, Floats]:
        """Return u - V/(1 + e^u) and its derivative."""
        g = scipy.special.expit(-u)
        return u - V * g, 1 + V * g * scipy.special.expit(u)


class HingeLoss(Loss):
    """max(1 - u, 0)."""

    def pull(self, s: Floats, V: Floats) -> Pull:
        """Return s above 1, 1 between 1 - V and 1, s + V below."""
        s, V = np.broadcast_arrays(s, V)
        g = np.clip((1 - s) / V, 0.0, 1.0)
        # the atom: these samples sit on the margin
        middle = (s < 1) & (s > 1 - V)
        u = np.where(middle, 1.0, s + V * g)
        return Pull(u, g, np.where(middle, -1 / V, 0.0))

    def value(self, u: Floats) -> Floats:
        """Return max(1 - u, 0)."""
        return np.maximum(1 - u, 0.0)

    def kinks(self, V: Floats) -> Floats:
        """Return the ends of the atom."""
        return np.stack(self.atom(V), axis=-1)

    def origin(self, u: Floats, V: Floats) -> tuple[Floats, Floats]:
        """Return u - V below 1 and u above."""
        u, V = np.broadcast_arrays(u, V)
        return np.where(u < 1, u - V, u), np.ones(u.shape)

    def atom(self, V: Floats) -> tuple[Floats, Floats]:
        """Return (1 - V, 1)."""
        return 1 - V, np.ones(np.shape(V))


class MaxMarginLoss(HingeLoss):
    """0 for u >= 1, infinite below: hard margin. V is the limit of ridge * V; value is
    that of the hinge loss.
    """

    def pull(self, s: Floats, V: Floats) -> Pull:
        """Return max(s, 1)."""
        s, V = np.broadcast_arrays(s, V)
        g = np.maximum(1 - s, 0.0) / V
        return Pull(np.maximum(s, 1.0), g, np.where(s < 1, -1 / V, 0.0))

    def origin(self, u: Floats, V: Floats) -> tuple[Floats, Floats]:
        """Return u above 1; nothing maps below."""
        u, V = np.broadcast_arrays(u, V)
        return np.where(u < 1, -np.inf, u), np.where(u < 1, 0.0, 1.0)

    def atom(self, V: Floats) -> tuple[Floats, Floats]:
        """Return (-inf, 1)."""
        return np.full(np.shape(V), -np.inf), np.ones(np.shape(V))


@dataclass(frozen=True)
class HuberLoss(Loss):
    """Huber's loss of the residual 1 - u: quadratic (t^2/2) up to `threshold`, then
    linear.

    `threshold` may be an array that broadcasts against s; the square loss has an
    infinite one.
    """

    threshold: Floats | float

    def at(self, row: Indices) -> Loss:
        """Return the loss with the thresholds of the given rows."""
        if isinstance(self.threshold, np.ndarray):
            return HuberLoss(self.threshold[row])
        return self

    def pull(self, s: Floats, V: Floats) -> Pull:
        """Return the clipped linear pull."""
        s, V = np.broadcast_arrays(s, V)
        # that of the square loss, which Huber's does not let grow beyond its threshold
        linear = (1 - s) / (1 + V)
        g = np.clip(linear, -self.threshold, self.threshold)
        inside = np.abs(linear) < self.threshold
        return Pull(s + V * g, g, np.where(inside, -1 / (1 + V), 0.0))

    def value(self, u: Floats) -> Floats:
        """Return the loss of the residual 1 - u."""
        return huber(1 - u, self.threshold)

    def kinks(self, V: Floats) -> Floats:
        """Return the two places where the pull is clipped."""
        # the square loss has none
        if np.all(np.isinf(self.threshold)):
            return np.zeros((*np.shape(V), 0))
        # where the linear pull reaches the threshold
        reach = self.threshold * (1 + V)
        return np.stack([1 - reach, 1 + reach], axis=-1)

    def origin(self, u: Floats, V: Floats) -> tuple[Floats, Floats]:
        """Return u + V loss'(u) and its derivative."""
        residual = 1 - u
        inside = np.abs(residual) < self.threshold
        clipped = np.clip(residual, -self.threshold, self.threshold)
        return u - V * clipped, np.where(inside, 1 + V, 1.0)


def huber(residual: Floats, threshold: Floats | float) -> Floats:
    """Return t^2/2 for |t| up to the threshold, then the tangent."""
    if np.all(np.isinf(threshold)):
        return 0.5 * residual**2
    # t^2/2 inside and threshold (|t| - threshold/2) outside, in one form
    size = np.minimum(np.abs(residual), threshold)
    return size * (np.abs(residual) - 0.5 * size)


LOSSES: dict[str, Loss] = {"logistic": LogisticLoss(), "hinge": HingeLoss()}
"""Losses of classes by name."""
