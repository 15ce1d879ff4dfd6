"""Targets: functions of a few Gaussian variables z1..zk, and the planes on which they
are not smooth.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep.core.base.errors import InputError, bad_field
from giantstep.core.base.types import Floats
from giantstep.core.maths.gaussian.edges import find_edges
from giantstep.core.maths.gaussian.expression import (
    Expression,
    affine,
    degree,
    parse_expression,
    rough_arguments,
)
from giantstep.core.maths.gaussian.expression import roots as roots_of
from giantstep.core.maths.gaussian.functions import (
    NAMES,
    Function,
    Immutable,
    argument_count,
    digits_of,
    is_elementwise,
    not_a_function,
    try_callable,
)
from giantstep.core.maths.gaussian.planes import Plane, find_planes, plane_through
from giantstep.core.maths.gaussian.primitives import namespace_of
from giantstep.core.maths.gaussian.resolution import Divisions, Resolution, resolve
from giantstep.core.maths.gaussian.tree import Call, Node, Number, VariableNode, walk

if TYPE_CHECKING:
    from giantstep.core.maths.gaussian.conditional import ConditionalTarget
    from giantstep.core.maths.gaussian.label_law import LabelLaw

MOST_DIRECTIONS = 6
_FAR = 24.0
_REACH = 9.0
"""Edges of a callable beyond are of no weight."""
_FINGERPRINT_NODES = 1.5 * np.sin(
    np.arange(1.0, 1 + 301 * MOST_DIRECTIONS).reshape(301, MOST_DIRECTIONS) ** 1.3
)


class Target(Immutable):
    """A function of k Gaussian variables: h(z1, ..., zk), with k at most 6.

    Parameters
    ----------
    source : an expression in ``z`` or in ``z1..zk`` (k is the largest index that
        occurs), a name (``"relu"``), a `Function` of one variable, a callable, or a
        Target. A callable takes an array (..., k) and returns one of shape (...), or
        takes k arguments, or is a function of one variable such as ``np.tanh``.
    directions : k, for a callable of one array (1 if left out), or to say that an
        expression has more variables than it uses.
    kinks : where a callable is not smooth: a number c means every plane z_i = c, a pair
        (normal, offset) the plane <normal, z> + offset = 0. Expressions find theirs;
        those of a callable are looked for.
    name : for display.

    Examples
    --------
    >>> import numpy as np
    >>> h = Target("relu(z1) + sign(z1*z2)")
    >>> h.directions, [plane.normal for plane in h.planes]
    (2, [(0.0, 1.0), (1.0, 0.0)])
    >>> h(np.array([[1.0, -2.0], [3.0, 0.5]]))
    array([0., 4.])
    """

    directions: int
    _declared: tuple[Plane, ...]
    # what is worth keeping with the target, each filled by the module that makes it
    resolutions: dict[Divisions, Resolution]  # of a callable, by `resolve`
    averages_at_start: dict[float, ConditionalTarget]  # by fineness, by `condition`
    label_laws: dict[Any, LabelLaw]  # by the steps of finite batches

    def __init__(
        self,
        source: str | Callable[[Any], Any] | Function | Target,
        *,
        directions: int | None = None,
        kinks: Iterable[Any] | None = None,
        name: str | None = None,
    ) -> None:
        if directions is not None and (
            isinstance(directions, bool) or not isinstance(directions, int | np.integer)
        ):
            raise bad_field(
                "directions", directions, f"a whole number from 1 to {MOST_DIRECTIONS}"
            )
        expression, call, least, declared = _read(source, directions)
        count = least if directions is None else int(directions)
        if not 1 <= count <= MOST_DIRECTIONS:
            raise bad_field("directions", count, f"from 1 to {MOST_DIRECTIONS}")
        if count < least:
            raise bad_field(
                "directions",
                count,
                f"at least {least}, as many as the target has variables",
            )
        declared = (*declared, *_declared_planes(kinks, count))
        name = name or _name_of(source)
        vars(self).update(
            name=name,
            directions=count,
            _expression=expression,
            _call=call,
            _declared=declared,
            resolutions={},
            averages_at_start={},
            label_laws={},
        )
        if call is not None:
            self._try(directions_given=directions is not None)
        # a callable of several directions is searched for planes when they are needed
        if call is not None and count == 1 and not declared:
            edges = find_edges(lambda z: self(z[:, None]))
            near = [edge for edge in edges if abs(edge) < _REACH]
            vars(self)["_declared"] = tuple(_declared_planes(near, 1))

    def _try(self, directions_given: bool) -> None:
        """Call the function at some points, and refuse one that does not give a number
        for each.
        """
        more = "; for two directions write gs.Target(f, directions=2)"
        if directions_given:
            more = ""
        needed = (
            f"take an array of shape (n, {self.directions}) and return a real array of"
            " shape (n,)"
        )
        # two lengths: a function may fit one by chance
        for rows in (5, 8):
            try_callable(
                self,
                f"target {self.name}",
                needed,
                _FINGERPRINT_NODES[:rows, : self.directions],
                (rows,),
                more,
            )

    # --- identity ---

    def __reduce__(self) -> tuple[Any, ...]:
        source = self.expression or self._call
        return partial(
            Target, directions=self.directions, kinks=self._declared, name=self.name
        ), (source,)

    @cached_property
    def _fingerprint(self) -> str:
        if self._expression is not None:
            identity = (
                f"expression {self.directions} {self._expression.text} {self._declared}"
            )
        else:
            with np.errstate(all="ignore"):
                values = np.asarray(
                    self(_FINGERPRINT_NODES[:, : self.directions]), dtype=float
                )
            identity = (
                f"callable {self.directions} {digits_of(values)} {self._declared}"
            )
        return hashlib.sha256(identity.encode()).hexdigest()

    # --- what it is ---

    @cached_property
    def planes(self) -> tuple[Plane, ...]:
        """The planes on which it need not be smooth; more rough sets may exist where
        `all_planes` is False.
        """
        return tuple(
            sorted(
                {
                    *self._declared,
                    *self._found,
                    *(plane for plane in self._rough if plane is not None),
                }
            )
        )

    @cached_property
    def _found(self) -> tuple[Plane, ...]:
        """Planes of a callable of several directions that nobody declared."""
        if self._call is None or self.directions == 1:
            return ()
        found = find_planes(self, self.directions)
        return tuple(
            plane
            for plane in found
            if not any(plane.is_near(known) for known in self._declared)
        )

    @property
    def resolution(self) -> Resolution:
        """What product rules need, and the measured error that they leave in E h, E h^2
        and E[h He_k], k = 1, 2.

        >>> (
        ...     Target("tanh(z)").resolution.error < 1e-9,
        ...     len(Target("tanh(50*(z - 0.3))").resolution.breaks) > 5,
        ... )
        (True, True)
        """
        return resolve(self)

    def narrow_places(self, step: float) -> tuple[Plane, ...]:
        """Return where rules must break beside `planes` whose nodes lie `step` apart
        elsewhere.
        """
        return resolve(self, step).breaks

    @property
    def tree(self) -> Node | None:
        """The tree of an expression, or None."""
        return None if self._expression is None else self._expression.tree

    @cached_property
    def all_planes(self) -> bool:
        """Whether every set on which an expression is not smooth is one of `planes`
        (unknown for a callable).
        """
        return self._expression is not None and all(
            plane is not None for plane in self._rough
        )

    @cached_property
    def square_integrable(self) -> bool:
        """Whether it is finite at typical points, and its square grows more slowly than
        the normal density falls.

        >>> [
        ...     Target(g).square_integrable
        ...     for g in ("exp(z1)*z2", "exp(z1*z2)", "log(z1)")
        ... ]
        [True, False, False]
        """
        axes = np.eye(self.directions)
        far = np.concatenate([axes, -axes, _FINGERPRINT_NODES[:, : self.directions]])
        far = _FAR * far / np.linalg.norm(far, axis=1, keepdims=True)
        with np.errstate(all="ignore"):
            near = self(_FINGERPRINT_NODES[:, : self.directions])
            growth = 2 * np.log(np.abs(self(far)))
        return bool(np.isfinite(near).all() and not np.any(growth >= 0.5 * _FAR**2))

    @cached_property
    def degree(self) -> int | None:
        """Total degree of a polynomial, or None."""
        if self._expression is None:
            return None
        return degree(self._expression.tree)

    @cached_property
    def axis_degree(self) -> int | None:
        """Largest degree of a polynomial in any one of its variables, or None."""
        if self._expression is None or self.degree is None:
            return None
        return max(
            (
                degree(self._expression.tree, name) or 0
                for name in self._expression.variables
            ),
            default=0,
        )

    @cached_property
    def _rough(self) -> tuple[Plane | None, ...]:
        if self._expression is None:
            return ()
        nodes = (
            factor
            for node in rough_arguments(self._expression.tree)
            for factor in _factors(node)
        )
        return tuple(
            plane for node in nodes for plane in _planes_of(node, self.directions)
        )

    # --- values ---

    def __call__(self, z: Any) -> Any:
        """Return h(z) for an array z of shape (..., k), NumPy or CuPy."""
        if self._expression is None:
            assert self._call is not None
            return self._call(z)
        variables = {name: z[..., _axis(name)] for name in self._expression.variables}
        return self._expression.evaluate(variables or {"z": z[..., 0]}, namespace_of(z))

    def of_one_variable(self) -> Function:
        """Return the target of one direction as a function of it.

        >>> Target("relu(z1) - 1").of_one_variable().kinks
        (0.0,)
        """
        if self.directions != 1:
            raise InputError(
                f"The target {self.name} depends on {self.directions} directions, not"
                " on one."
            )
        return self._of_one_variable

    @cached_property
    def _of_one_variable(self) -> Function:
        kinks = [-plane.offset / plane.normal[0] for plane in self._declared]
        if self._expression is None:
            text = None
        else:
            text = re.sub(r"\bz1\b", "z", self._expression.text)
        return Function(text or partial(_at_column, self), kinks=kinks, name=self.name)

    def sign_direction(self) -> Floats | None:
        """Return the unit vector n where the target is sign(<n, z>), else None.

        >>> (
        ...     Target("sign(3*z1 - 4*z2)").sign_direction(),
        ...     Target("sign(z1*z2)").sign_direction(),
        ... )
        (array([ 0.6, -0.8]), None)
        """
        if len(self.planes) != 1 or self.planes[0].offset != 0:
            return None
        normal = np.array(self.planes[0].normal)
        points = _FINGERPRINT_NODES[:, : self.directions]
        side = np.sign(points @ normal)
        values = np.asarray(self(points), dtype=float)
        for n in (normal, -normal):
            if np.array_equal(values, np.sign(points @ n)) and side.any():
                return n / np.linalg.norm(n)
        return None

    def gradient(self, z: Any) -> Any:
        """Return the gradient (..., k) of an expression; where it jumps, that of the
        smooth part.
        """
        if self._expression is None:
            raise InputError(
                f"The target {self.name} is a callable and has no exact gradient."
            )
        xp = namespace_of(z)
        variables = {name: z[..., _axis(name)] for name in self._expression.variables}
        gradient = xp.zeros(z.shape)
        for name in self._expression.variables:
            gradient[..., _axis(name)] = self._expression.derivative(
                variables, name, xp
            )
        return gradient


def as_target(source: Any) -> Target:
    """Return ``source`` as a `Target`; a Target comes back as it is, a Function keeps
    the one that is made of it.
    """
    if isinstance(source, Function):
        if source._target is None:
            vars(source)["_target"] = Target(source)
        return source._target
    if isinstance(source, Target):
        return source
    return Target(source)


def _name_of(source: Any) -> str:
    """Return what a target is called that nobody has named."""
    if isinstance(source, Target | Function):
        return source.name
    if isinstance(source, str):
        return source.strip()
    return str(getattr(source, "__name__", type(source).__name__))


def _axis(name: str) -> int:
    return int(name[1:]) - 1 if len(name) > 1 else 0


def _read(
    source: Any, directions: int | None
) -> tuple[Expression | None, Callable[[Any], Any] | None, int, tuple[Plane, ...]]:
    """Return the expression or the callable behind ``source``, the least number of
    variables, and known planes.
    """
    if isinstance(source, Target):
        return source._expression, source._call, source.directions, source._declared
    if isinstance(source, Function):
        planes = tuple(Plane((1.0,), -kink) for kink in source.kinks)
        if source.expression is not None:
            return parse_expression(source.expression), None, 1, ()
        return None, partial(_of_first, source), 1, planes
    if isinstance(source, str):
        expression = parse_expression(NAMES.get(source.strip(), source))
        least = max((_axis(name) + 1 for name in expression.variables), default=1)
        if least > MOST_DIRECTIONS:
            raise InputError(
                f"The target {source!r} has {least} directions (z1..z{least}); at most"
                f" {MOST_DIRECTIONS} are allowed."
            )
        return expression, None, least, ()
    if not callable(source):
        raise not_a_function(
            "A target must be a name, an expression in z or z1..zk, or a callable",
            source,
        )
    wants = argument_count(source)
    if wants > 1:
        return None, partial(_of_columns, source), wants, ()
    if directions in (None, 1) and is_elementwise(source, _FINGERPRINT_NODES[:5, :1]):
        return None, partial(_of_first, source), 1, ()
    return None, source, 1, ()


def _of_first(f: Callable[[Any], Any], z: Any) -> Any:
    """Return a function of one variable at the first column."""
    return f(z[..., 0])


def _of_columns(f: Callable[..., Any], z: Any) -> Any:
    """Return a function of several arguments at the columns."""
    return f(*(z[..., j] for j in range(z.shape[-1])))


def _at_column(target: Target, z: Any) -> Any:
    """Return a target of one direction at an array of any shape."""
    return target(z[..., None])


def _declared_planes(kinks: Iterable[Any] | None, k: int) -> Iterator[Plane]:
    for kink in kinks or ():
        if isinstance(kink, int | float | np.number):
            if not np.isfinite(kink):
                raise bad_field(
                    "kinks", kink, "finite numbers or pairs (normal, offset)"
                )
            yield from (
                Plane(tuple(row), -float(kink) + 0.0) for row in np.eye(k).tolist()
            )
            continue
        try:
            normal, offset = kink
            plane = plane_through(np.asarray(normal, dtype=float), float(offset))
        except (TypeError, ValueError):
            raise bad_field(
                "kinks", kink, "numbers or pairs (normal, offset)"
            ) from None
        if plane is None or len(plane.normal) != k:
            raise bad_field(
                "kinks",
                kink,
                f"numbers or pairs (normal, offset) with {k} entries in the normal",
            )
        yield plane


# --- where an expression is not smooth ------------------------------------------------


def _factors(node: Node) -> Iterator[Node]:
    """Yield the factors of a product, whose zeros together are the zeros of the
    node.
    """
    if isinstance(node, Call) and node.name == "*":
        for argument in node.arguments:
            yield from _factors(argument)
    elif isinstance(node, Call) and node.name in (
        "neg",
        "/",
        "abs",
        "sign",
        "tanh",
        "**",
    ):
        yield from _factors(node.arguments[0])
    elif not isinstance(node, Number):
        yield node


def _planes_of(node: Node, k: int) -> Iterator[Plane | None]:
    """Yield the planes on which a factor vanishes; None where its zeros are no
    planes.
    """
    names = tuple(
        {inner.name for inner in walk(node) if isinstance(inner, VariableNode)}
    )
    axes = [_axis(name) for name in names]
    form = affine(node, names)
    if form is not None:
        plane = plane_through(form[0] @ np.eye(k)[axes], form[1])
        if plane is not None:
            yield plane
    elif len(names) == 1:
        normal = tuple(np.eye(k)[axes[0]].tolist())
        yield from (
            Plane(normal, -root + 0.0)
            for root in roots_of(node, names[0])
            if abs(root) < 12
        )
    else:
        yield None
