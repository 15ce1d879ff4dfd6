"""Exponents of a target: how hard its directions are to find for gradient descent, from
its Hermite coefficients.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from giantstep.core.base.display import Block, Table
from giantstep.core.base.errors import InputError, bad_field
from giantstep.core.base.jsondata import json_data
from giantstep.core.base.types import Floats
from giantstep.core.maths.gaussian.functions import Function, as_function
from giantstep.core.maths.gaussian.grids import NodeGrid
from giantstep.core.maths.gaussian.hermite import root_factorials
from giantstep.core.maths.gaussian.subspaces import (
    complement,
    direction_text,
    tidy_signs,
)
from giantstep.core.maths.gaussian.target import Target, as_target
from giantstep.problems.learnability.prepared import (
    HIGHEST,
    PROBE,
    PreparedTarget,
    Sampled,
    coefficients,
)
from giantstep.problems.learnability.proportional import ProportionalAnswer, stages_text
from giantstep.problems.learnability.staircase import (
    TOLERANCE,
    Stage,
    Staircase,
    staircase,
)

HERMITE_ORDERS = 8
"""Highest order of the Hermite coefficients that are shown."""
HIGHEST_DEGREE = 12
"""Highest Hermite order of an activation that is looked at, that of the named
polynomials.
"""
_NAMES = 23
"""Width of the names in the text of an answer."""
_ZERO = 1e-9
"""Normalised Hermite coefficient of an activation that is rounding."""


def samples_needed(order: float) -> str:
    """Return the samples that a stage of an order takes: d, d log d, d^(k-1)."""
    if math.isinf(order):
        return "not found"
    return {1: "d", 2: "d log d"}.get(int(order), f"d^{int(order) - 1}")


@dataclass(frozen=True, repr=False)
class Exponents(ProportionalAnswer):
    """What `giantstep.exponents` finds about a target; orders are inf where none that
    was looked at is seen.
    """

    target: Target
    activation: Function | None
    # smallest k >= 1 with C_k = E[h He_k(z)] != 0; one pass needs d^max(1, k-1) samples
    # to start
    information: float
    # smallest k with E[He_k(z)|y] not identically 0, the least over all label
    # transforms
    generative: float
    leap_staircase: Staircase  # the stages with directions, degrees and strengths
    generative_staircase: Staircase
    # (r, k) orthonormal rows in the variables z1..zk, in the order the leap staircase
    # finds them
    directions: Floats
    # C_k for k = 0..8: signed for one direction, else the norms |C_k| of the tensors
    hermite: Floats
    activation_hermite: Floats | None  # c_k = E[s He_k] of the student's activation
    # for each direction "even", "odd" or "" under its reflection
    symmetry: tuple[str, ...]
    # for each direction whether no label transform sees it linearly
    hard: tuple[bool, ...]
    tolerance: float  # below which a normalised coefficient counts as zero

    @property
    def leap(self) -> float:
        """Largest order of the leap staircase."""
        return self.leap_staircase.exponent

    @property
    def generative_leap(self) -> float:
        """Largest order of the generative staircase."""
        return self.generative_staircase.exponent

    @property
    def leap_stages(self) -> list[tuple[int, int]]:
        """Stages of one pass over the data: (order, number of new directions)."""
        return self.leap_staircase.pairs

    @property
    def generative_stages(self) -> list[tuple[int, int]]:
        """Stages with repetition: (order, number of new directions)."""
        return self.generative_staircase.pairs

    @property
    def products(self) -> Floats | None:
        """c_k C_k for k = 0..8 with the activation, or None."""
        if self.activation_hermite is None:
            return None
        return self.activation_hermite * self.hermite + 0.0

    @property
    def one_pass(self) -> str:
        """Samples of one-pass SGD as a power of d, if the student supplies the
        coefficients.
        """
        return samples_needed(self.leap)

    @property
    def repetition(self) -> str:
        """Samples with repetition of data, likewise."""
        return samples_needed(self.generative_leap)

    def caveats(self) -> list[str]:
        """Return what the activation cannot see, one sentence for each stage."""
        if (
            self.activation is None
            or self.activation_hermite is None
            or self.products is None
        ):
            return []
        return [
            sentence
            for stage in self.leap_staircase.stages
            for sentence in _blind(
                stage, self.activation.name, self.activation_hermite, self.products
            )
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as strict JSON data (inf as "inf")."""
        names = (
            "information",
            "generative",
            "leap",
            "generative_leap",
            "directions",
            "symmetry",
            "hard",
            "hermite",
            "activation_hermite",
            "products",
            "one_pass",
            "repetition",
            "tolerance",
        )
        stairs = {
            "leap_stages": self.leap_staircase,
            "generative_stages": self.generative_staircase,
        }
        return json_data(
            {
                "target": self.target.expression or self.target.name,
                "activation": None if self.activation is None else self.activation.name,
                **{name: getattr(self, name) for name in names},
                **{
                    name: [{**vars(s), "count": s.count} for s in each.stages]
                    for name, each in stairs.items()
                },
                "caveats": self.caveats(),
            }
        )

    def blocks(self) -> list[Block]:
        """Return the names with their values as a table, and the sentences below it."""
        named = [line for line in self._lines() if line[1]]
        return [
            Table(("about", "value"), named, is_list=True),
            *(name for name, said in self._lines() if not said),
        ]

    def __str__(self) -> str:
        return "\n".join(
            f"{name:<{_NAMES}}{said}" if said else name for name, said in self._lines()
        )

    def _lines(self) -> list[tuple[str, str]]:
        """Return what is said: a name and its value, or a sentence without a value."""
        r, k = self.directions.shape
        used = "" if r == k else f" in {k} variables"
        lines = [
            (
                "target",
                f"{self.target.name}   ({r} direction{'s' if r > 1 else ''}{used})",
            ),
            ("information exponent", f"{self.information:g}"),
            ("  one pass, stages", _stages_text(self.leap_staircase)),
            ("  one pass, samples", self.one_pass),
            ("generative exponent", f"{self.generative:g}"),
            ("  repetition, stages", _stages_text(self.generative_staircase)),
            (
                "  repetition, samples",
                self.repetition + (" (hard)" if self.generative_leap > 2 else ""),
            ),
        ]
        if self.generative_leap <= 2:
            lines.append(("  message passing", stages_text(self.target)))
        flags = [
            f"{direction_text(row)} {' and '.join(flag)}"
            for row, even, hard in zip(self.directions, self.symmetry, self.hard)
            if (
                flag := [
                    *([even] if even else []),
                    *(["hidden from every linear statistic"] if hard else []),
                ]
            )
        ]
        lines.append(("symmetry", "; ".join(flags) or "none"))
        name = "C_k" if r == 1 else "|C_k|"
        lines.append(
            (f"{name:<6} k = 0..{len(self.hermite) - 1}", _numbers(self.hermite))
        )
        if (
            self.activation is not None
            and self.activation_hermite is not None
            and self.products is not None
        ):
            lines.append(
                (f"c_k of {self.activation.name}", _numbers(self.activation_hermite))
            )
            lines.append((f"c_k {name}", _numbers(self.products)))
            lines += [(f"note: {sentence}", "") for sentence in self.caveats()]
        return [
            *lines,
            (f"(normalised coefficients below {self.tolerance:.0e} count as zero)", ""),
        ]


def exponents(
    target: str | Callable[[Any], Any] | Function | Target, activation: Any = None
) -> Exponents:
    """Return the exponents and staircases of a target over z1..zk, k <= 6.

    Parameters
    ----------
    target : an expression in z or z1..zk, a name, a `giantstep.Function` or a
        `giantstep.Target`.
    activation : the student's activation, for the products c_k C_k.

    Examples
    --------
    >>> found = exponents("z1 + h3(z2)")
    >>> found.information, found.leap_stages, found.generative_stages
    (1, [(1, 1), (3, 1)], [(1, 2)])
    """
    h = _named(as_target, "target", target)
    if activation is None:
        student = None
    else:
        student = _named(as_function, "activation", activation)
    view = PreparedTarget.of(h)
    basis = view.basis
    inner = view.inner
    leap, generative = (
        staircase(*view.samples(repeated=repeated)) for repeated in (False, True)
    )
    if not leap.stages and not generative.stages:
        raise no_coefficient(h, leap)
    none = np.zeros((0, len(basis)))
    directions = np.concatenate([none, *(stage.directions for stage in leap.stages)])
    directions = np.concatenate([directions, complement(directions, len(basis))])
    linear = np.concatenate(
        [none, *(stage.directions for stage in generative.stages if stage.order == 1)]
    )
    if student is None:
        c = None
    else:
        c = activation_hermite(student, HERMITE_ORDERS)
    return Exponents(
        target=h,
        activation=student,
        information=leap.first,
        generative=generative.first,
        leap_staircase=_rotate(leap, basis),
        generative_staircase=_rotate(generative, basis),
        directions=tidy_signs(directions @ basis),
        hermite=_hermite(inner, view.fine),
        activation_hermite=c,
        symmetry=tuple(_symmetry(inner, row) for row in directions),
        hard=tuple(bool(np.linalg.norm(linear @ row) < 1 - 1e-6) for row in directions),
        tolerance=TOLERANCE,
    )


def no_coefficient(target: Target, stairs: Staircase) -> InputError:
    """Return the refusal of a target in which no order looked at is seen."""
    return InputError(
        f"The target {target.name} has no Hermite coefficient that is not zero up to"
        f" order {stairs.highest}."
    )


def activation_hermite(activation: Function, order: int) -> Floats:
    """Return c_k = E[s He_k], k = 0..order, with 0 where it is zero to rounding."""
    normalised = activation.hermite(order)
    return np.where(np.abs(normalised) < _ZERO, 0.0, normalised) * root_factorials(
        order
    )


def seen_orders(activation: Function) -> set[int]:
    """Return the orders n >= 1 of an activation with c_n != 0."""
    return set(
        (
            1 + np.flatnonzero(activation_hermite(activation, HIGHEST_DEGREE)[1:])
        ).tolist()
    )


def _hermite(target: Target, grid: NodeGrid) -> Floats:
    """C_k, k = 0..8: signed for one direction, else norms of the tensors."""
    r = target.directions
    y = np.asarray(target(grid.points), dtype=float)
    sample = Sampled(grid.points, grid.weights, y[None, :])
    sizes = np.full(HERMITE_ORDERS + 1, np.nan)
    for k in range(min(HERMITE_ORDERS, HIGHEST[r]) + 1):
        tensor = coefficients(sample, np.zeros((0, r)), np.eye(r), k, 0)[0]
        sizes[k] = tensor[0, 0, 0] if r == 1 else np.linalg.norm(tensor)
    scale = math.sqrt(float(grid.weights @ (y * y)))
    sizes = np.where(np.abs(sizes) < TOLERANCE * scale, 0.0, sizes)
    return sizes * root_factorials(HERMITE_ORDERS)


def _symmetry(target: Target, row: Floats) -> str:
    probe = PROBE[:, : target.directions]
    mirrored = probe - 2 * np.outer(probe @ row, row)
    base, other = (
        np.asarray(target(points), dtype=float) for points in (probe, mirrored)
    )
    size = 1e-9 * (1 + np.max(np.abs(base)))
    if np.max(np.abs(base - other)) < size:
        return "even"
    return "odd" if np.max(np.abs(base + other)) < size else ""


def _rotate(staircase: Staircase, basis: Floats) -> Staircase:
    stages = tuple(
        replace(stage, directions=tidy_signs(stage.directions @ basis))
        for stage in staircase.stages
    )
    return replace(staircase, stages=stages)


def _blind(stage: Stage, name: str, c: Floats, products: Floats) -> list[str]:
    needed = [degree for degree in stage.degrees if degree < len(c)]
    if not needed or any(c[degree] != 0 for degree in needed):
        return []
    shown = " and ".join(f"c_{degree}" for degree in needed[:3])
    where = ", ".join(direction_text(row) for row in stage.directions)
    later = next(
        (
            order
            for order in range(max(needed) + 1, len(products))
            if abs(products[order]) > 0
        ),
        None,
    )
    if later:
        found = f"finds {where} through order {later} at best"
    else:
        found = f"never finds {where}"
    return [f"{name} has {shown} = 0 and one-pass SGD with it {found}"]


def _stages_text(staircase: Staircase) -> str:
    stages = [
        f"order {stage.order}: {', '.join(map(direction_text, stage.directions))}"
        for stage in staircase.stages
    ]
    if not staircase.complete:
        stages.append(f"nothing more up to order {staircase.highest}")
    return "; then ".join(stages)


def _numbers(values: Floats) -> str:
    return "  ".join(f"{value + 0.0:.5g}" for value in values if not np.isnan(value))


def _named(convert: Callable[[Any], Any], field: str, value: Any) -> Any:
    try:
        return convert(value)
    except InputError as error:
        raise error.inside(field) if error.field is None else error from None
    except TypeError:
        raise bad_field(field, value, "a name, an expression or a callable") from None
