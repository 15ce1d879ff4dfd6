"""Fresh inputs at which a fitted network is held against the target: a rule over all
coordinates that matter.

beyond_the_error section 4: the coordinates along the target have any Gaussian law, the
others a standard deviation of their own, and the label may have turned. The law of the
fit is the plain one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from giantstep.core.base.types import Floats
from giantstep.core.maths.gaussian.conditional import WIDEST_SCALE, coarsened, condition
from giantstep.core.maths.gaussian.planes import Plane
from giantstep.core.maths.gaussian.target import Target
from giantstep.core.readout.output_law import OutputLaw
from giantstep.problems.network.layer import Layer
from giantstep.problems.network.shift import FreshLaw
from giantstep.problems.network.tolerances import LINE_RULE

NEAR = 6.0
"""Standard deviations around a change of sign within which probabilities of signs
vary.
"""
STEPS_PER_LENGTH = {1: 2.0, 2: 2.0, 3: 1.2}
"""Scale that makes the step of the rules of `condition` 0.9 of a length, by the number
of coordinates: section 6.
"""
SHORTEST = 5e-6
"""Length that no rule resolves: outputs without any variance have none."""
SEEN = 1e-4
"""Density of inputs, relative to its largest, below which no rule need resolve
anything: 1e-6 of a probability.
"""
RARE = 1e-10
"""Weight of an input, relative to the largest, below which rules that are made finer
for a sign leave it out.
"""
FOR_QUANTILES = {2: 0.15, 3: 0.3}
FOR_MEANS = {2: 0.36, 3: 0.36}
"""Scale of rules that is not made smaller, by the number of coordinates: for chances of |y - f| <= w and for means of
|y - f|, of which it leaves 1e-6 unresolved.
"""  # noqa: E501


@dataclass(frozen=True, eq=False)
class FreshInputs:
    """N inputs of a rule: coordinates z (N, R), weights, E[g|z] and E[g^2|z] (N,)."""

    law: FreshLaw
    z: Floats
    weights: Floats
    label: Floats
    square: Floats
    root: Floats = field(repr=False)
    """How z moves with the coordinates of the rule (R, R)."""
    reach: Floats = field(repr=False)
    """Squared distance of the inputs from the middle of their law (N,)."""


class _Moved:
    """A target at z + mean, as far as a rule asks."""

    def __init__(self, target: Target, mean: Floats) -> None:
        self.target = target
        self.mean = mean
        self.degree = target.degree
        self.planes = self._moved(target.planes)
        self.resolution = target.resolution._replace(
            breaks=self._moved(target.resolution.breaks)
        )

    def _moved(self, planes: Iterable[Plane]) -> tuple[Plane, ...]:
        return tuple(
            # <normal, z + mean> + offset = 0: the plane in coordinates around the mean
            Plane(normal, offset + float(np.array(normal) @ self.mean))
            for normal, offset in planes
        )

    def __call__(self, z: Floats) -> Floats:
        return np.asarray(self.target(z + self.mean))


def inputs_of(
    target: Target, frame: Floats, law: FreshLaw, scale: tuple[float, ...]
) -> FreshInputs:
    """Return inputs of this law, on a rule for what varies on a scale, in units of the
    standard deviations.

    There is one scale for each axis of the rule, or one for all; rules of the first
    kind are made for signs. `frame` (r, R) are the target's directions among the
    coordinates.
    """
    r, R = frame.shape
    # the last right singular vectors complete the frame to all coordinates
    across = np.linalg.svd(frame)[2][r:].T
    # standard normals of the rule: first those along the target, then those across
    root = np.concatenate([frame.T @ law.root, law.bulk * across], axis=1)
    turned = np.eye(r)
    rest = np.zeros((r, 1 if law.angle else 0))
    # the direction that no network has seen is averaged out; it is one across the
    # target, with the deviation of these
    if law.angle:
        turned[0, 0], rest[0, 0] = np.cos(law.angle), law.bulk * np.sin(law.angle)
    # the label does not see what lies across the target
    learnt = turned @ np.concatenate([law.root, np.zeros((r, R - r))], axis=1)
    # nodes are spread around the mean of the law, where the target is moved to
    given = condition(
        _Moved(target, turned @ law.mean),  # type: ignore[arg-type]
        learnt,
        rest,
        scale,
        # along one direction as fine as for the errors
        LINE_RULE if R == 1 else 1.0,
    )
    # several scales: a rule that was made finer for a sign
    often = given.weights > (RARE * given.weights.max() if len(scale) > 1 else 0.0)
    nodes = given.nodes[often]
    z = nodes @ root.T + law.mean @ frame
    # in standard deviations, whatever the law is
    reach = np.sum(nodes**2, axis=1)
    return FreshInputs(
        law, z, given.weights[often], given.h[often], given.square[often], root, reach
    )


def scale_of_features(
    layer: Layer, row: int, frame: Floats, law: FreshLaw, s: Floats
) -> float:
    """Return the scale on which the functions of the blocks vary, in units of the
    standard deviations of the inputs.
    """
    along = frame.T @ law.root
    spread = np.concatenate(
        [along, law.bulk * np.linalg.svd(frame)[2][len(frame) :].T], axis=1
    )
    # a block is a function of U.z smeared over s tau, (4.1)
    steepness = float(
        np.max(np.linalg.norm(layer.means[row] @ spread, axis=1) / (law.bulk * s))
    )
    # wider scales change no rule; a layer that has not moved has no steepness to divide
    # by
    return min(1 / max(steepness, 1e-3), WIDEST_SCALE)


def resolved(
    make: Callable[[tuple[float, ...]], tuple[FreshInputs, OutputLaw]],
    scale: float,
    target: Callable[[FreshInputs], Floats] | None = None,
    noise: float = 0.0,
    least: Mapping[int, float] | None = None,
) -> tuple[FreshInputs, OutputLaw]:
    """Return inputs that resolve where the output changes its sign, or that of y - f
    with a `target`: section 6.

    Probabilities of signs vary over sqrt(Q)/|dm/dz|, which may be far below the scale
    of the features, along some axes of the rule more than along others. Scales shrink
    by octaves, so that fits of one layer share their rules, but not below `least`: what
    is left unresolved there is rare, and a kink of a continuous function.
    """
    inputs, law = make((scale,))
    R = inputs.z.shape[1]
    # points of more coordinates are sampled: they have no step that could be shortened
    wanted = STEPS_PER_LENGTH.get(R, np.inf) * sign_lengths(
        inputs, law, target, noise, scale
    )
    if np.all(wanted >= scale):
        return inputs, law
    # along one direction half octaves are coarse enough for fits to share a rule
    if R == 1:
        return make((float(coarsened(wanted[0])),))
    # never wider than the features need
    octaves = np.minimum(np.floor(np.log2(wanted / scale)), 0.0)
    # and `least` makes no rule coarser than they need
    finer = np.maximum(scale * 2.0**octaves, min((least or {}).get(R, 0.0), scale))
    return make(tuple(finer.tolist()))


def sign_lengths(
    inputs: FreshInputs,
    law: OutputLaw,
    target: Callable[[FreshInputs], Floats] | None,
    noise: float,
    scale: float,
) -> Floats:
    """Return the least distance over which the chance of a sign varies along each axis
    of the rule (R,).

    It is in units of the standard deviations. A change of sign between two nodes
    counts, too: neighbours on a rule are no further apart than its scale.
    """
    mean = law.mean
    gradient = law.gradient
    if target is not None:
        # the sign of y - f instead: of g - m, around which y - f has the noise, too
        mean = inputs.label - mean
        gradient = target(inputs) - gradient
    deviation = np.sqrt(np.maximum(law.variance + noise, 0.0))
    # slopes per standard deviation along the axes of the rule
    along = np.abs(gradient @ inputs.root)
    steep = np.linalg.norm(along, axis=1)
    near = (
        (np.abs(mean) < NEAR * deviation + scale * steep)
        & (np.exp(-0.5 * inputs.reach) > SEEN)
        & (steep > 0)
    )
    # an axis along which nothing changes sets no length; without any such input there
    # is no limit at all
    lengths = np.min(
        deviation[near, None] / np.maximum(along[near], 1e-300), axis=0, initial=np.inf
    )
    return np.maximum(lengths, SHORTEST)
