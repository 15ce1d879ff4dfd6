"""Functions of one variable: values, derivative, kinks, and moments under the Gaussian
measure.
"""

from __future__ import annotations

import hashlib
import inspect
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any, Literal

import numpy as np
from numpy.polynomial import hermite_e
from numpy.polynomial.polynomial import polyder
from numpy.typing import ArrayLike

from giantstep.core.base.errors import (
    GiantstepWarning,
    InputError,
    NotFiniteError,
    bad_field,
)
from giantstep.core.base.types import Floats
from giantstep.core.maths.gaussian.edges import find_edges
from giantstep.core.maths.gaussian.expression import (
    AffineForm,
    Expression,
    is_jump,
    parse_expression,
)
from giantstep.core.maths.gaussian.hermite import root_factorials
from giantstep.core.maths.gaussian.moment_rules import MomentRule, choose_rule
from giantstep.core.maths.gaussian.moments import (
    CLOSED_FORMS,
    Moments,
    closed_tail,
    polynomial,
)
from giantstep.core.maths.gaussian.primitives import (
    ALIASES,
    CALLABLE_NAMES,
    PRIMITIVES,
    namespace_of,
)


class Immutable:
    """A function given by an expression or a callable, known by the digest of its
    content.
    """

    name: str
    _expression: Expression | None
    _call: Callable[[Any], Any] | None
    _fingerprint: Any

    def _content(self) -> tuple[Any, ...]:
        """Return what makes two of them equal."""
        return (self._fingerprint,)

    def __setattr__(self, attribute: str, value: object) -> None:
        raise AttributeError(
            f"a {type(self).__name__} is immutable; {attribute!r} cannot be set"
        )

    def __delattr__(self, attribute: str) -> None:
        raise AttributeError(
            f"a {type(self).__name__} is immutable; {attribute!r} cannot be deleted"
        )

    def __eq__(self, other: object) -> bool:
        if isinstance(other, type(self)):
            return self._content() == other._content()
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self._content())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def fingerprint(self) -> str:
        """Return a hex digest of the canonical expression, or of a callable's values on
        fixed nodes.
        """
        return str(self._fingerprint)

    @property
    def expression(self) -> str | None:
        """The canonical expression, or None for a Python callable."""
        return None if self._expression is None else self._expression.text


Parity = Literal["odd", "even", "linear+even"]

ERF_SCALE = 0.5
"""Scale s below which the closed form of the noise of erf loses digits, and quadrature
is cheap.
"""
WORTH_A_WARNING = 1e-8
"""Measured relative error of moments above which a user is warned: a hidden kink leaves
more, a good rule 1e-13.
"""
_SAME_KINK = 3e-5
"""Distance from a declared kink up to which one that is found is the same."""
_SYMMETRY_NODES = 8.0 * (np.arange(200) + 0.37) / 200
_FINGERPRINT_NODES = np.linspace(-8.0, 8.0, 401)[:-1] + 0.0171


_PLAIN = AffineForm("", (), 1.0, 1.0, 0.0, 0.0, 0.0)
"""The form of a function that is not affine in a named one."""


@dataclass(frozen=True, eq=False)
class _Facts:
    """What is found out about a function: a polynomial, or `form` of a `core`, its
    named function or itself.
    """

    values: Callable[[Any], Any]
    name: str
    kinks: tuple[float, ...]
    jumps: tuple[float, ...]
    parity: Parity | None
    polynomial: tuple[float, ...] | None = None
    form: AffineForm = _PLAIN

    @cached_property
    def rule(self) -> MomentRule:
        """The quadrature of the function itself."""
        return choose_rule(self.values, self.kinks, self.name)

    @cached_property
    def core(self) -> Callable[[Any], Any]:
        """The named function that it is affine in, or itself."""
        if self.form is _PLAIN:
            return self.values
        arguments = ", ".join(["z", *map(repr, self.form.parameters)])
        named = parse_expression(f"{self.form.function}({arguments})")
        return lambda x: named.evaluate({"z": x})

    @cached_property
    def core_rule(self) -> MomentRule:
        """The quadrature of the core."""
        if self.form is _PLAIN:
            return self.rule
        return choose_rule(self.core, (), self.form.function)

    def core_moments(self, A: np.ndarray, s: np.ndarray) -> Moments:
        """Return the moments of the core for s > 0."""
        if self.form.function not in CLOSED_FORMS:
            return self.core_rule.moments(self.core, A, s)
        moments = CLOSED_FORMS[self.form.function](A, s, *self.form.parameters)
        small = s < ERF_SCALE
        if self.form.function == "erf" and small.any():
            moments.noise[small] = self.core_rule.moments(
                self.core, A[small], s[small]
            ).noise
        return moments

    def moments(self, A: np.ndarray, s: np.ndarray) -> Moments:
        """Return the moments for s of either sign or 0."""
        if self.polynomial is not None:
            return polynomial(A, s, np.array(self.polynomial))
        form = self.form
        at = form.scale * A + form.shift
        scale = form.scale * s
        if np.all(scale > 0):
            core = self.core_moments(at, scale)
        else:
            core = Moments(self.core(at) * np.ones_like(at), *np.zeros((3, len(at))))
            some = scale != 0
            for target, values, odd in zip(
                core, self.core_moments(at[some], np.abs(scale[some])), (0, 1, 0, 1)
            ):
                target[some] = values * np.sign(scale[some]) ** odd
        return Moments(
            form.constant + form.linear * A + form.factor * core.mean,
            form.linear * s + form.factor * core.slope,
            form.factor**2 * core.noise,
            form.factor * form.scale * core.curvature,
        )

    def smoothed(self, A: np.ndarray, s: np.ndarray) -> np.ndarray:
        """Return D_0..D_4 for s > 0."""
        if self.polynomial is not None:
            return np.stack(
                [
                    polynomial(A, s, polyder(self.polynomial, order)).mean
                    for order in range(5)
                ]
            )
        form = self.form
        at = form.scale * A + form.shift
        scale = abs(form.scale) * s
        if form.function in CLOSED_FORMS:
            moments = self.core_moments(at, scale)
            tail = closed_tail(form.function, at, scale, moments)
        else:
            *four, third, fourth = self.core_rule.integrate(self.core, at, scale)
            moments = Moments(*four)
            tail = (third, fourth)
        core = np.stack(
            [moments.mean, moments.slope / scale, moments.curvature / scale, *tail]
        )
        whole = form.factor * form.scale ** np.arange(5)[:, None] * core
        whole[0] += form.constant + form.linear * A
        whole[1] += form.linear
        return whole


class Function(Immutable):
    """A function of one variable, ready for calculus under z ~ N(0,1).

    Parameters
    ----------
    source : a name (``"relu"``, ``"tanh"``, ``"linear"``, ``"h3"``, ...), an expression
        in ``z``, a callable of one array, or another function.
    derivative : of a callable; without it central differences are used.
    kinks : numbers, where the function is not smooth. Expressions find theirs, and
        those of a callable with |z| < 16 are looked for; these are added.
    name : for display.

    Notes
    -----
    Immutable; two are equal when expression (or, for callables, the values on fixed
    nodes to 12 digits) and
    kinks agree. Construction raises :class:`~giantstep.core.base.errors.InputError` for
    functions that are not square
    integrable and warns when the moments are not accurate to 1e-8.

    Examples
    --------
    >>> f = Function("relu(z) - 1/sqrt(2*pi)")
    >>> f.kinks, f.parity
    ((0.0,), 'linear+even')
    >>> abs(float(f.moments(0.0, 1.0).mean)) < 1e-15
    True
    """

    _derivative: Function | None
    _facts: _Facts
    _hermite: dict[int, np.ndarray]  # coefficients that were asked for, by the order
    _target: Any  # the `Target` of one direction, once `as_target` has made it

    def __init__(
        self,
        source: str | Callable[[Any], Any] | Function,
        *,
        derivative: str | Callable[[Any], Any] | Function | None = None,
        kinks: Iterable[float] | None = None,
        name: str | None = None,
    ) -> None:
        try:
            points = np.asarray([] if kinks is None else list(kinks), dtype=float)
        except (TypeError, ValueError):
            points = np.array([np.nan])
        if points.ndim != 1 or not np.all(np.isfinite(points)):
            raise bad_field("kinks", kinks, "a list of finite numbers")
        declared = tuple(sorted({float(k) + 0.0 for k in points}))
        if isinstance(source, Function):
            name = name or source.name
            declared = tuple(sorted({*declared, *source.kinks}))
            if derivative is not None:
                derivative = derivative
            else:
                derivative = source._derivative
        if isinstance(source, str):
            name = name or source.strip()
        expression, call = _resolve(source)
        slope = None
        if expression is not None:
            if derivative is not None:
                raise InputError(
                    "An expression finds its own derivative; `derivative` is for"
                    " callables."
                )
            name = name or expression.text
            facts = _facts_of_expression(expression.text, declared)
            identity = "expression " + expression.text
        else:
            assert call is not None
            name = name or str(getattr(call, "__name__", type(call).__name__))
            if not is_elementwise(call, _TRIED) and _takes_columns(call):
                call = partial(_at_columns, call)
            for z in (
                np.linspace(-1.9, 2.1, 7),
                np.linspace(-1.9, 2.1, 6).reshape(2, 3),
            ):
                needed = "take one real array and return a real array of the same shape"
                try_callable(call, f"function {name}", needed, z, z.shape)
            quiet = _quiet(call)
            found = [
                edge
                for edge in find_edges(quiet)
                if all(abs(edge - kink) > _SAME_KINK for kink in declared)
            ]
            kinks = tuple(sorted([*declared, *found]))
            jumps = tuple(k for k in kinks if is_jump(quiet, k))
            facts = _Facts(quiet, name, kinks, jumps, parity_of(quiet, jumps))
            if derivative is not None:
                slope = Function(derivative, kinks=kinks, name=f"{name}'")
            identity = "callable " + digits_of(quiet(_FINGERPRINT_NODES))
        digest = hashlib.sha256(identity.encode()).hexdigest()
        vars(self).update(
            name=name, _expression=expression, _call=call, _derivative=slope
        )
        vars(self).update(_facts=facts, _fingerprint=digest, _hermite={}, _target=None)
        if self.quadrature_error > WORTH_A_WARNING:
            warnings.warn(
                f"The moments of {name} are accurate only to about"
                f" {self.quadrature_error:.0e} (measured, and no kink or jump was found"
                " that explains it); if it has some, declare them with `kinks=`.",
                GiantstepWarning,
                stacklevel=2,
            )

    # --- identity ---

    def _content(self) -> tuple[Any, ...]:
        return self._fingerprint, self.kinks

    def __reduce__(self) -> tuple[Any, ...]:
        source = self.expression or self._call
        return partial(
            Function, derivative=self._derivative, kinks=self.kinks, name=self.name
        ), (source,)

    # --- what it is ---

    @property
    def kinks(self) -> tuple[float, ...]:
        """Where the function is not smooth, in increasing order."""
        return self._facts.kinks

    @property
    def jumps(self) -> tuple[float, ...]:
        """Those of the kinks at which even the value is discontinuous."""
        return self._facts.jumps

    @property
    def parity(self) -> Parity | None:
        """``"odd"``, ``"even"``, ``"linear+even"`` (c*z plus an even function, like
        relu), or None.
        """
        return self._facts.parity

    @property
    def polynomial(self) -> np.ndarray | None:
        """Coefficients in the power basis, constant first, or None."""
        if self._facts.polynomial is None:
            return None
        return np.array(self._facts.polynomial)

    @property
    def quadrature_error(self) -> float:
        """Measured error of the moments relative to sqrt(E f^2) or E f^2; 0 for closed
        forms.
        """
        facts = self._facts
        if facts.polynomial is None and facts.form is _PLAIN:
            return facts.rule.error
        return 0.0

    @property
    def closed(self) -> bool:
        """Whether the moments have a closed form, so that they are cheap at any number
        of points.
        """
        return (
            self._facts.polynomial is not None
            or self._facts.form.function in CLOSED_FORMS
        )

    # --- values ---

    def __call__(self, z: Any, out: Any = None) -> Any:
        """Return f(z) for a NumPy or CuPy array, written into ``out`` (which may be
        ``z``) if given.
        """
        z, xp = _as_array(z)
        if self._expression is not None:
            return self._expression.evaluate({"z": z}, xp, out)
        assert self._call is not None
        return _into(out, self._call(z))

    def derivative(self, z: Any, out: Any = None) -> Any:
        """Return f'(z); exact for names and expressions. A function with jumps has none
        and raises.

        >>> Function("relu").derivative(np.array([-1.0, 2.0]))
        array([0., 1.])
        """
        if self.jumps:
            shown = ", ".join(
                [f"{jump:.6g}" for jump in self.jumps[:4]]
                + ["..."] * (len(self.jumps) > 4)
            )
            raise InputError(
                f"The function {self.name} has no derivative: its value jumps at z ="
                f" {shown}."
            )
        z, xp = _as_array(z)
        if self._expression is not None:
            return _into(out, self._expression.derivative({"z": z}, "z", xp))
        if self._derivative is not None:
            return self._derivative(z, out)
        assert self._call is not None
        step = float(np.finfo(z.dtype).eps) ** (1 / 3) * xp.maximum(1.0, xp.abs(z))
        above = z + step
        below = z - step
        for kink in self.kinks:  # no difference is taken across one
            above = xp.where((z < kink) & (above > kink), kink, above)
            below = xp.where((z >= kink) & (below < kink), kink, below)
        return _into(out, (self._call(above) - self._call(below)) / (above - below))

    # --- under the Gaussian measure ---

    def moments(self, A: ArrayLike, s: ArrayLike) -> Moments:
        """Return mean, slope, noise and curvature of f(A + s z), z ~ N(0,1), for
        broadcast ``A`` and ``s``.

        ``mean = E f``, ``slope = E z f``, ``noise = E f^2 - mean^2 - slope^2 >= 0``,
        ``curvature`` = d mean/ds = E[(z^2-1) f]/s. A negative ``s`` changes the sign of
        slope and curvature; at ``s = 0`` the mean is f(A) and the rest is 0.

        >>> moments = Function("h2").moments([0.0, 1.0], 2.0)
        >>> moments.mean, moments.noise
        (array([3., 4.]), array([32., 32.]))
        """
        A, s = np.broadcast_arrays(
            np.asarray(A, dtype=float), np.asarray(s, dtype=float)
        )
        if not (np.all(np.isfinite(A)) and np.all(np.isfinite(s))):
            raise InputError("The moments of a function need finite A and s.")
        shape = A.shape
        return Moments(
            *(
                values.reshape(shape)[()]
                for values in self._facts.moments(A.ravel(), s.ravel())
            )
        )

    def smoothed(self, A: ArrayLike, s: ArrayLike) -> np.ndarray:
        """Return D_j = E[He_j(z) f(A + s z)]/s^j, j = 0..4, ``s > 0``: derivatives in A
        of the smoothed function.

        >>> Function("z**4").smoothed(0.5, 2.0).tolist()
        [54.0625, 24.5, 51.0, 12.0, 24.0]
        """
        A, s = np.broadcast_arrays(
            np.asarray(A, dtype=float), np.asarray(s, dtype=float)
        )
        return self._facts.smoothed(A.ravel(), s.ravel()).reshape(5, *A.shape)

    def second_moment(self, A: ArrayLike, s: ArrayLike) -> np.ndarray:
        """Return E f(A + s z)^2."""
        mean, slope, noise, _ = self.moments(A, s)
        return noise + mean**2 + slope**2

    def hermite(self, order: int) -> np.ndarray:
        """Return the normalised Hermite coefficients a_j = E[f(z) He_j(z)]/sqrt(j!),
        j = 0..order.

        f = sum_j a_j h_j with h_j = He_j/sqrt(j!), and E f^2 = sum_j a_j^2. The
        unnormalised c_j = E[f He_j] is sqrt(j!) a_j, the coefficient of He_j in f is
        a_j/sqrt(j!).

        >>> Function("z**3").hermite(4).round(12)
        array([0.        , 3.        , 0.        , 2.44948974, 0.        ])
        """
        if self._facts.polynomial is not None:
            coefficients = np.zeros(max(order + 1, len(self._facts.polynomial)))
            known = hermite_e.poly2herme(self._facts.polynomial)
            coefficients[: len(known)] = known * root_factorials(len(known) - 1)
            return coefficients[: order + 1]
        if order not in self._hermite:
            with np.errstate(all="ignore"):
                self._hermite[order] = self._facts.rule.hermite(self, order)
        return self._hermite[order].copy()


def as_function(source: str | Callable[[Any], Any] | Function) -> Function:
    """Return ``source`` as a :class:`Function`; one that is a Function already comes
    back as it is.
    """
    return source if isinstance(source, Function) else Function(source)


# --- construction ---------------------------------------------------------------------

NAMES = {
    name: f"{name}(z)"
    for name in CALLABLE_NAMES
    if 1 in PRIMITIVES[ALIASES.get(name, name)].arity
}
NAMES |= {"linear": "z", "identity": "z"}
NAMES |= {
    "elu": "relu(z) + exp(-relu(-z)) - 1",
    "selu": "1.0507009873554805*(relu(z) + 1.6732632423543772*(exp(-relu(-z)) - 1))",
    "mish": "z*tanh(softplus(z))",
    "hardtanh": "relu(z + 1) - relu(z - 1) - 1",
    "relu6": "relu(z) - relu(z - 6)",
    "squared relu": "relu(z)**2",
}
"""Activations that are short expressions in others."""


PLANTED_LABELS = (
    "labels of a table belong to gs.forecast(X, y) and gs.MixtureGLM.from_data(X, y);"
    " here labels are planted, `target` says as which function of the inputs"
)
"""What is said to somebody who gives the labels of a table where labels are made by a
function.
"""


def not_a_function(allowed: str, source: Any) -> InputError:
    """Return the error for a source that is none; an array or a list of numbers is
    taken for the labels of a table.
    """
    shown = " ".join(repr(source).split())
    shown = shown if len(shown) <= 80 else f"{shown[:77]}..."
    is_list = isinstance(source, list | tuple) or getattr(source, "ndim", 0) > 0
    advice = f": {PLANTED_LABELS}" if is_list else ""
    return InputError(f"{allowed}, but is {shown}{advice}.")


def _resolve(source: Any) -> tuple[Expression | None, Callable[[Any], Any] | None]:
    """Return the expression or the callable behind a source."""
    if isinstance(source, Function):
        return source._expression, source._call
    if not isinstance(source, str):
        if not callable(source):
            raise not_a_function(
                "A function must be a name, an expression in z or a callable", source
            )
        return None, source
    expression = parse_expression(NAMES.get(source.strip(), source))
    if expression.variables not in ((), ("z",)):
        names = ", ".join(expression.variables)
        raise InputError(
            f"The expression {expression.text!r} must be in z alone, but is in {names}."
        )
    return expression, None


@lru_cache(
    maxsize=512
)  # a few kB each; every scenario of a grid makes its functions anew
def _facts_of_expression(text: str, declared: tuple[float, ...]) -> _Facts:
    expression = parse_expression(text)

    def values(z: np.ndarray) -> np.ndarray:
        return expression.evaluate({"z": z})

    kinks = expression.kinks()
    jumps = tuple(kink.position for kink in kinks if kink.jump)
    coefficients = expression.as_polynomial()
    if coefficients is not None:
        form = None
    else:
        form = expression.as_affine_of_known()
    return _Facts(
        values,
        text,
        kinks=tuple(sorted({*declared, *(kink.position for kink in kinks)})),
        jumps=jumps,
        parity=parity_of(values, jumps),
        polynomial=None if coefficients is None else tuple(coefficients.tolist()),
        form=_PLAIN if form is None or form.function in ("sqrt", "log") else form,
    )


def _quiet(call: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def quiet(z: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            return np.asarray(call(z), dtype=float)

    return quiet


def argument_count(call: Callable[..., Any]) -> int:
    """Return how many arguments a callable needs in their order; one where it cannot be
    told.
    """
    try:
        known = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):
        return 1
    return sum(
        p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        for p in known
    )


_TRIED = np.linspace(-1.9, 2.1, 7)
"""Points at which a callable shows what it takes."""


def is_elementwise(call: Callable[[Any], Any], z: np.ndarray) -> bool:
    """Tell whether a user's function returns an array of the shape that it is given."""
    return _shape_of(call, z) == z.shape


def _takes_columns(call: Callable[[Any], Any]) -> bool:
    """Tell whether a user's function takes an array (n, 1) and returns one of shape
    (n,), as that of a target may.
    """
    return _shape_of(call, _TRIED[:, None]) == _TRIED.shape


def _at_columns(call: Callable[[Any], Any], z: Any) -> Any:
    """Return a function of arrays (n, 1) at an array of any shape."""
    return call(z[..., None])


def _shape_of(call: Callable[[Any], Any], z: np.ndarray) -> tuple[int, ...] | None:
    """Return the shape of the values at an array; None where the function fails, which
    is said when it is used.
    """
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            return np.shape(call(z.copy()))
    except Exception:
        return None


def try_callable(
    call: Callable[[Any], Any],
    name: str,
    needed: str,
    z: np.ndarray,
    shape: tuple[int, ...],
    more: str = "",
) -> None:
    """Refuse a user's function that fails on an array or returns no real numbers of the
    shape, with `more`.
    """
    said = f"The {name} must {needed}, but for an array of shape {z.shape} it"
    given = z.copy()
    try:
        with np.errstate(all="ignore"):
            values = np.asarray(call(given))
    except Exception as error:
        raise InputError(
            f"{said} raised {type(error).__name__}:"
            f" {' '.join(str(error).split())}{more}."
        ) from error
    if values.shape != shape or values.dtype.kind not in "fiub":
        raise InputError(
            f"{said} returned shape {values.shape} of type {values.dtype}{more}."
        )
    if not np.array_equal(given, z):
        raise InputError(f"The {name} must not change its argument in place.")


def parity_of(
    f: Callable[[np.ndarray], np.ndarray], jumps: Sequence[float]
) -> Parity | None:
    """Return the parity of a function; points beside a jump do not tell where it is."""
    z = _SYMMETRY_NODES
    if not np.allclose(np.sort(jumps), np.sort(np.negative(jumps)), rtol=0, atol=1e-9):
        return None
    with np.errstate(all="ignore"):
        right = np.asarray(f(z))
        left = np.asarray(f(-z))
        size = np.maximum(np.abs(right), np.abs(left))
        allowed = 1e-12 * (size + np.median(size))
        odd = 0.5 * (right - left)
        even = 0.5 * (right + left)
        slope = odd[len(z) // 2] / z[len(z) // 2]
        if np.all(np.abs(odd) <= allowed):
            return "even"
        if np.all(np.abs(even) <= allowed):
            return "odd"
        if np.all(np.abs(odd - slope * z) <= allowed):
            return "linear+even"
        return None


def digits_of(values: np.ndarray) -> str:
    """Return what is known of a callable: 12 digits of its values."""
    return " ".join(f"{value + 0.0:.11e}" for value in values.tolist())


# --- evaluation -----------------------------------------------------------------------


def _as_array(z: Any) -> tuple[Any, Any]:
    xp = namespace_of(z)
    z = xp.asarray(z)
    return (z if z.dtype.kind == "f" else z.astype(float)), xp


def _into(out: Any, values: Any) -> Any:
    if out is None:
        return values
    out[...] = values
    return out


# -- Functions of an activation at very many points: splines through tables ------------


TABLE_STEP = 0.02
"""Distance of the points of a table of functions of the activation, in units of the
scale s: 1e-12 by a quintic.
"""
MANY_POINTS = 2
"""Points, in units of those of a table, from which the table is used."""
Values = Callable[[Function, Floats, Floats], Floats]
"""Functions of the activation (F, N) at points A and scales s (N,)."""


def tabulated(activation: Function, values: Values, A: Floats, s: Floats) -> Floats:
    """Return functions (F, M, k, N) at points A (M, k, N), smooth on the scale s (M,
    k); many by a spline.
    """
    if activation.closed:
        return _at_each(activation, values, A, s)
    return from_table(activation, values, A, s)


def _at_each(activation: Function, values: Values, A: Floats, s: Floats) -> Floats:
    """Return functions (F, M, k, N) at all points A (M, k, N)."""
    return values(
        activation, A.reshape(-1), np.repeat(s.reshape(-1), A.shape[2])
    ).reshape(-1, *A.shape)


def from_table(activation: Function, values: Values, A: Floats, s: Floats) -> Floats:
    """Return functions as `tabulated`, of an activation whose moments are known in
    closed form, too.
    """
    step = TABLE_STEP * np.minimum(1.0, np.abs(s))
    reach = np.ptp(A, axis=2) + 11 * step
    if not np.any(A.shape[2] * step >= MANY_POINTS * reach):
        return _at_each(activation, values, A, s)
    from scipy.interpolate import make_interp_spline

    if not np.isfinite(A).all():
        raise NotFiniteError("a shift of the neurons is not finite")
    found = []
    for points, scale, apart in zip(A.reshape(-1, A.shape[2]), s.ravel(), step.ravel()):
        table = np.arange(points.min() - 5 * apart, points.max() + 6 * apart, apart)
        tabled = values(activation, table, np.full(len(table), scale))
        if not np.isfinite(tabled).all():
            raise NotFiniteError("a function of the activation is not finite")
        found.append(make_interp_spline(table, tabled, k=5, axis=1)(points))
    return np.stack(found, axis=1).reshape(-1, *A.shape)
