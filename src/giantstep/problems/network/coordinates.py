"""The law of the target's coordinates, which a step that treats every coordinate on its
own can see.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import Discriminator, Tag

from giantstep.core.base.types import DeviceArray, Points
from giantstep.core.readout.sign_statistics import Component
from giantstep.core.scenario.fields import Number, field
from giantstep.core.scenario.model import Part
from giantstep.problems.network.fields import name_or_law, only

if TYPE_CHECKING:
    from giantstep.core.lab import Draws
    from giantstep.core.readout.sign_statistics import Component

Sizes = Literal["gaussian", "equal"]


class Coordinates(Part):
    """Coordinates of the target: a fraction `nonzero` of them is not zero, with
    Gaussian or equal sizes.

    Steps along the gradient do not see it, since they turn with the inputs; a
    `SignStep` does.

    >>> import giantstep as gs
    >>> s = gs.Network(
    ...     target="sin(z)",
    ...     activation="tanh",
    ...     second_layer=gs.Vocabulary([1]),
    ...     width_per_dim=1.0,
    ...     samples_per_dim=1.5,
    ...     steps=[gs.SignStep(1.2, batch_per_dim=2.0)],
    ...     coordinates=Coordinates(nonzero=0.1),
    ...     noise=0.02,
    ... )
    >>> gs.predict(s).test_error.values.round(4)
    array([0.2942, 0.3641])
    """

    if TYPE_CHECKING:

        def __init__(self, nonzero: float = ..., sizes: Sizes = ...) -> None: ...

    nonzero: Number = field(
        "f", "fraction of the coordinates that is not zero", default=1.0, gt=0, le=1
    )
    sizes: Sizes = field(
        "sqrt(d) w*_i",
        "law of those that are not zero: Gaussian, or of equal size",
        default="gaussian",
    )


_ALLOWED = (
    '"gaussian", "equal" or gs.Coordinates(nonzero=0.1, sizes="gaussian"), in a file {'
    " nonzero = 0.1 }"
)
AnyCoordinates = Annotated[
    Annotated[Coordinates, Tag("law")] | Annotated[Sizes, Tag("name")],
    Discriminator(name_or_law),
    only(Coordinates, get_args(Sizes), _ALLOWED),
]


def _law(
    coordinates: Coordinates | str, points: Points, index: int
) -> tuple[str, float]:
    """Return the law of the sizes, and which fraction is not zero at a point."""
    if isinstance(coordinates, str):
        return coordinates, 1.0
    return coordinates.sizes, float(points["coordinates.nonzero"][index])


def components(
    coordinates: Coordinates | str, points: Points, index: int
) -> tuple[Component, ...]:
    """Return the law at one point, in units of the root mean square: sign_step
    section 2.
    """
    sizes, nonzero = _law(coordinates, points, index)
    # the mean square of all coordinates is 1, that of the nonzero ones 1/nonzero
    if sizes == "gaussian":
        component = Component(nonzero, 0.0, 1 / nonzero)
    else:
        component = Component(nonzero, nonzero**-0.5, 0.0)
    if nonzero == 1:
        # no coordinate is zero: the law has one part
        return (component,)
    return component, Component(1 - nonzero, 0.0, 0.0)


def draw_directions(
    coordinates: Coordinates | str, points: Points, shape: tuple[int, int], draws: Draws
) -> DeviceArray:
    """Return orthonormal target directions (r, d) at random: a fixed number of entries
    of each is not zero.
    """
    r, d = shape
    xp = draws.xp
    sizes, nonzero = _law(coordinates, points, 0)
    # drawn whatever the law is: laws are compared with the same random numbers
    values = draws.normal("coordinates", (r, d))
    if sizes == "equal":
        values = xp.where(values < 0, -1.0, 1.0)
    # a fixed number, not a random one: trials would scatter by it
    count = min(d, max(1, round(nonzero * d)))
    if count < d:
        places = draws.uniform("coordinates_kept", r * d).reshape(r, d)
        order = xp.argsort(places, axis=1)
        for a in range(r):
            values[a, order[a, count:]] = 0.0
    # Gram and Schmidt: overlaps of random directions are of order 1/sqrt(d)
    directions: list[DeviceArray] = []
    for row in values:
        for earlier in directions:
            row = row - (row @ earlier) * earlier
        directions.append(row / xp.linalg.norm(row))
    return xp.stack(directions)


def reflections(
    axes: DeviceArray, directions: DeviceArray, xp: Any
) -> list[DeviceArray]:
    """Return unit vectors u whose reflections 1 - 2 u u^T, one after the other, turn
    orthonormal axes to directions.
    """
    units: list[DeviceArray] = []
    for axis, direction in zip(axes, directions):
        # where the earlier reflections have taken the axis
        image = reflected(axis[None], units)[0]
        gap = image - direction
        length = float(xp.linalg.norm(gap))
        # both are orthogonal to the earlier directions, which therefore stay in place
        if length > 1e-12:
            units.append(gap / length)
    return units


def reflected(rows: DeviceArray, units: Sequence[DeviceArray]) -> DeviceArray:
    """Return rows (m, d) after the reflections, one after the other."""
    for u in units:
        # (1 - 2 u u^T) w without the matrix
        rows = rows - 2 * (rows @ u)[:, None] * u
    return rows
