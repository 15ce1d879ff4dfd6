"""Scenarios: one frozen, checked description of a learning problem, with symbols,
meanings and bounds.

`Scenario` is the base class of every family and `Part` of the small value objects
inside one (a step, a second layer). Nested fields are written with a dot
(``step.rate``) in files, mappings and results, with ``__`` in keywords; those of a list
of parts with their place (``steps.0.rate``), or without it for all of them
(`partlists`).
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import json
import math
import numbers
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Literal,
    Self,
    get_args,
    get_origin,
)

import numpy as np
import pydantic
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PlainSerializer,
    WithJsonSchema,
)
from pydantic.fields import FieldInfo

from giantstep.core.base.display import blocks_html, blocks_text
from giantstep.core.base.errors import (
    InputError,
    bad_field,
    field_error,
    nearest,
    without_frames,
)
from giantstep.core.base.jsondata import json_number
from giantstep.core.base.types import Array, Booleans, Floats, Points
from giantstep.core.maths.gaussian import Function, Target, as_function, as_target
from giantstep.core.scenario.dimensions import declare
from giantstep.core.scenario.families import family_class, family_names, register
from giantstep.core.scenario.family import (
    Answer,
    Baseline,
    PhaseDiagram,
    Question,
    Variable,
)
from giantstep.core.scenario.fields_table import model_blocks
from giantstep.core.scenario.lists import (
    declaration,
    holds_parts,
    is_list_name,
    keys_of,
    names_meant,
    no_entry_has,
    part_list,
    symbol_of,
    tables_at,
    value_annotation,
)
from giantstep.core.scenario.own_classes import (
    CLASSES,
    content_of_variants,
    folder_with,
    is_named,
    parent_of,
    refuse_content,
    refuse_file,
)
from giantstep.core.scenario.paper_symbols import Paper, scenario_from_paper

if TYPE_CHECKING:
    from pydantic._internal._model_construction import ModelMetaclass as _ModelType

    from giantstep.core.maths.gaussian.source import Language
    from giantstep.core.scenario.program import Program
else:
    _ModelType = type(BaseModel)


class FieldHelp(_ModelType):
    """The metaclass of scenarios and parts: their docstring has their fields, `dir`
    leaves out what is pydantic's.
    """

    @property
    def __doc__(cls) -> str | None:  # type: ignore[override]
        written = next(
            (
                vars(base)["__doc__"]
                for base in cls.__mro__
                if vars(base).get("__doc__")
            ),
            None,
        )
        model: Any = cls
        if (
            not written
            or not vars(cls).get("__pydantic_complete__")
            or not model.model_fields
        ):
            return written
        from giantstep.core.scenario.describe import field_table

        before, prompt, example = inspect.cleandoc(written).partition(">>> ")
        heading = (
            "Fields, each with its symbol, meaning, what it allows and its default:"
        )
        return f"{before.rstrip()}\n\n{heading}\n\n{field_table(model)}\n\n{prompt}{example}".rstrip()  # noqa: E501

    def __dir__(cls) -> list[str]:
        return [
            name
            for name in super().__dir__()
            if name == "__doc__" or not hasattr(_PlainModel, name)
        ]


class _PlainModel(BaseModel):
    """A model without fields: what it has, every model has from pydantic."""


def plain_signature(model: Any, *, in_order: bool) -> inspect.Signature:
    """Return the signature of a model: names and defaults, without annotations;
    `in_order` also by position.
    """
    parameters: list[inspect.Parameter] = []
    kind: Any = inspect.Parameter.KEYWORD_ONLY
    if in_order:
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    for name, info in model.model_fields.items():
        if info.is_required() and any(
            other.default is not other.empty for other in parameters
        ):
            # Python allows no other after one with a default
            kind = inspect.Parameter.KEYWORD_ONLY
        if info.is_required():
            default = inspect.Parameter.empty
        else:
            default = info.default
        if name != "kind":
            parameters += [inspect.Parameter(name, kind, default=default)]
        else:
            parameters += []
    return inspect.Signature(parameters)


LARGEST_WHOLE = 2**53
"""Whole numbers from here on are not all floating-point numbers, as which points hold
them.
"""


def as_number(value: Any) -> float:
    """Return a real number as a float; text, true/false and NaN raise ValueError saying
    what is wanted.
    """
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        value = value.item()
    if isinstance(value, str) and value in (
        "inf",
        "-inf",
    ):  # JSON has no infinity of its own
        return float(value)
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        raise ValueError("a number")
    if math.isnan(value):
        raise ValueError("a number, not NaN")
    return float(value) + 0.0  # minus zero is zero: the same point has the same content


def _as_integer(value: Any) -> int:
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Integral):
        raise ValueError("a whole number")
    if abs(int(value)) >= LARGEST_WHOLE:
        raise ValueError("a whole number below 2**53")
    return int(value)


def _as_numbers(value: Any) -> tuple[float, ...]:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise ValueError("a list of numbers")
    try:
        numbers = tuple(as_number(item) for item in value)
    except ValueError:
        raise ValueError("a list of numbers") from None
    if any(map(math.isinf, numbers)):
        raise ValueError("a list of finite numbers")
    return numbers


Number = Annotated[
    float, BeforeValidator(as_number), PlainSerializer(json_number, when_used="json")
]
"""A real number; `field(..., infinite=True)` lets infinity in."""
Integer = Annotated[int, BeforeValidator(_as_integer)]
"""A whole number."""
Numbers = Annotated[tuple[float, ...], BeforeValidator(_as_numbers)]
"""A list of finite numbers; it may not vary over a grid."""


def _function_json(function: Function | Target) -> str | dict[str, str]:
    if function.expression is not None:
        return function.expression
    return {"callable": function.name, "fingerprint": function.fingerprint()}


Expression = Annotated[
    Function,
    BeforeValidator(as_function),
    PlainSerializer(_function_json, when_used="json"),
    WithJsonSchema({"type": "string", "description": "a name or an expression in z"}),
]
"""A function of one Gaussian variable: a name, an expression in ``z``, a callable, a
`giantstep.Function`.
"""
MultiIndex = Annotated[
    Target,
    BeforeValidator(as_target),
    PlainSerializer(_function_json, when_used="json"),
    WithJsonSchema(
        {"type": "string", "description": "a name or an expression in z1..zk"}
    ),
]
"""A function of up to six Gaussian variables: a name, an expression in ``z1..zk``, a
callable, a `giantstep.Target`.
"""


def field(
    symbol: str,
    meaning: str,
    *,
    default: Any = ...,
    infinite: bool = False,
    only: (
        Mapping[str, Sequence[str]] | None
    ) = None,  # another field -> its values with which this one matters
    **bounds: Any,
) -> Any:
    """Declare a field: its symbol, what it means, its bounds (`gt`, `ge`, `lt`, `le`),
    whether infinity is allowed.
    """
    extra: dict[str, Any] = {"symbol": symbol, "infinite": infinite}
    if only is not None:
        extra["only"] = {name: list(values) for name, values in only.items()}
    return pydantic.Field(
        default, description=meaning, json_schema_extra=extra, **bounds
    )


_BOUNDS: dict[str, tuple[str, Callable[[Any, float], Any]]] = {
    "gt": ("above", operator.gt),
    "ge": ("at least", operator.ge),
    "lt": ("below", operator.lt),
    "le": ("at most", operator.le),
}
"""Name of a bound, as pydantic has it -> how it is said, and whether values keep it."""


def bounds_of(info: FieldInfo) -> dict[str, float]:
    """Return the bounds of a numeric field by name."""
    return {
        name: getattr(held, name)
        for held in info.metadata
        for name in _BOUNDS
        if hasattr(held, name)
    }


def within_bounds(info: FieldInfo, values: Array) -> Booleans:
    """Tell which values keep all bounds of a numeric field; NaN keeps none."""
    kept = [_BOUNDS[name][1](values, limit) for name, limit in bounds_of(info).items()]
    return np.logical_and.reduce([~np.isnan(values), *kept])


def allowed_values(info: FieldInfo) -> str:
    """Say in words what a numeric field allows: ``"a number above 0 (inf is
    allowed)"``.
    """
    number = "a whole number" if info.annotation is int else "a number"
    text = " and ".join(
        f"{_BOUNDS[name][0]} {limit:g}" for name, limit in bounds_of(info).items()
    )
    text = f"{number} {text}".strip()
    return f"{text} (inf is allowed)" if _allows_infinity(info) else text


def _allows_infinity(info: FieldInfo) -> bool:
    extra = info.json_schema_extra
    return isinstance(extra, dict) and bool(extra.get("infinite"))


def check_numbers(name: str, info: FieldInfo, values: Array) -> None:
    """Check an array of values of one numeric field against its bounds; the first bad
    one is named.
    """
    good = within_bounds(info, values)
    if not _allows_infinity(info):
        good &= np.isfinite(values)
    if info.annotation is int:
        good &= values == np.round(values)
    if not good.all():
        bad = values[~good].flat[0]
        raise bad_field(
            name, bad, allowed_values(info) + (", finite" if np.isinf(bad) else "")
        )


class Checked(BaseModel, metaclass=FieldHelp):
    """A frozen model whose numbers are finite and whose fields fit to each other."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", arbitrary_types_allowed=True, validate_default=True
    )

    @pydantic.model_validator(mode="after")
    def _check_all(self) -> Self:
        for name, info in type(self).model_fields.items():
            value = getattr(self, name)
            if (
                isinstance(value, float)
                and math.isinf(value)
                and not _allows_infinity(info)
            ):
                raise bad_field(name, value, allowed_values(info) + ", finite")
        self.check()
        return self

    def check(self) -> None:
        """Check what one field cannot say alone; raise `bad_field`."""

    def model_dump_json(self, **how: Any) -> str:
        """Return the fields as JSON text; a class of a user that derives from ours has
        none.
        """
        refuse_file(self, "JSON")
        return super().model_dump_json(**how)

    def __iter__(self) -> Iterator[tuple[str, Any]]:  # type: ignore[override]
        # without values that a cached property keeps
        return iter([(name, getattr(self, name)) for name in type(self).model_fields])

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        # what cached properties keep, perhaps arrays, is not compared
        return dict(self) == dict(other)

    def model_copy(
        self, *, update: Mapping[str, Any] | None = None, deep: bool = False
    ) -> Self:
        """Return a copy with some values changed, unchecked; what cached properties
        keep is not copied.
        """
        copied = super().model_copy(update=update, deep=deep)
        for name in copied.__dict__.keys() - type(self).model_fields.keys():
            del copied.__dict__[name]
        return copied

    def __str__(self) -> str:
        return blocks_text(model_blocks(self))

    def _repr_html_(self) -> str:
        return blocks_html(model_blocks(self))

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def __dir__(self) -> list[str]:
        return [*type(self).model_fields, *dir(type(self))]


class Part(Checked):
    """A small frozen value object inside a scenario; it takes its values in order or by
    name.
    """

    limit_methods: ClassVar[tuple[str, ...]] = ()
    """Methods that make its limit, the main one first: a class that derives from it has
    a limit with its own alone.
    """

    def __init__(self, *values: Any, **fields: Any) -> None:
        names = [name for name in type(self).model_fields if name != "kind"]
        called = type(self).__name__
        if len(values) > len(names):
            raise InputError(
                f"{called} takes {len(names)} values ({', '.join(names)}), not"
                f" {len(values)}."
            )
        given = dict(zip(names, values))
        for name in [name for name in given if name in fields]:
            raise InputError(f"{called} got `{name}` twice.")
        refusal = None
        try:
            super().__init__(**given, **fields)
        except pydantic.ValidationError as error:
            refusal = _sentence(type(self), error)
        if refusal is not None:
            raise without_frames(refusal)

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        cls.__signature__ = plain_signature(cls, in_order=True)

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        return (
            (name, value) for name, value in super().__repr_args__() if name != "kind"
        )


class Scenario(Checked):
    """One learning problem, said once; answered by the limit and by the experiment.

    A family subclasses it, declares its fields with `field`, and the class attributes
    below. Its engines live beside it: ``limit.py`` with ``limit(scenario, points, what,
    settings) -> Answer``, ``experiment.py`` with ``trial(scenario, points, what, dim,
    draws, settings) -> dict of arrays`` (or it overrides both methods).

    A scenario is frozen and takes keywords only; `replace` makes a new, checked one
    (nested fields with two underscores), `content` the plain values that files hold.

    >>> import giantstep as gs
    >>> s = gs.OneStep(
    ...     width_per_dim=1.5,
    ...     samples_per_dim=2.0,
    ...     ridge=0.1,
    ...     step=gs.MaximalStep(rate=1.0),
    ... )
    >>> isinstance(s, gs.Scenario), s.replace(step__rate=2.0).step.rate
    (True, 2.0)
    >>> s.replace(ridge=-1)
    Traceback (most recent call last):
    giantstep.core.base.errors.InputError: Field `ridge` must be a number at least 0, but is ridge=-1.0.
    """  # noqa: E501

    family: ClassVar[str] = ""
    title: ClassVar[str] = ""
    update_rule: ClassVar[str] = ""
    """The model and its update rule in plain text, with every scaling written out."""
    questions: ClassVar[Mapping[str, Question]] = {}
    """What it answers (`what=`); the first is the default."""
    theories: ClassVar[Mapping[str, str]] = {"exact": "the exact limit"}
    """Theories of the same quantities by name, the exact one first;
    ``settings["theory"]`` may be None.
    """
    papers: ClassVar[tuple[str, ...]] = ()
    """BibTeX keys of `giantstep.core.scenario.references`."""
    notation: ClassVar[Mapping[str, Mapping[str, str]]] = {}
    """BibTeX key -> our field or variable -> what that paper writes for it, where it is
    not our symbol.
    """
    paper_symbols: ClassVar[Mapping[str, Paper]] = {}
    """BibTeX key -> the parameters of that paper and what our fields are in them: what
    `from_paper` takes.
    """
    formula_version: ClassVar[int] = 1
    """Raised when a formula or an experiment changes its numbers."""
    shared_fields: ClassVar[tuple[str, ...]] = ()
    """Fields for which one draw of the experiment answers all values (streamed sample
    sizes, ridges).
    """
    elsewhere: ClassVar[Mapping[str, str]] = {}
    """Fields that a user may expect here, or values (``"loss=svm"``) -> what is there
    instead.
    """
    limit_methods: ClassVar[tuple[str, ...]] = ("limit",)
    """A class that derives from a family and has no `family` of its own has a limit if
    it has this method.
    """

    def __init__(self, *values: Any, **fields: Any) -> None:
        if values:
            called = type(self).__name__
            first = ", ".join(
                f"{name}=..." for name in [*type(self).model_fields][: len(values)]
            )
            raise TypeError(
                f"{called} takes its fields by name, {called}({first}), and none by"
                " position."
            )
        refusal = None
        try:
            super().__init__(**fields)
        except pydantic.ValidationError as error:
            refusal = _sentence(type(self), error)
        if refusal is not None:
            raise without_frames(refusal)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if is_named(cls):
            register(cls)
        for question in cls.questions.values():
            declare(question.dimensions)

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        cls.__signature__ = plain_signature(cls, in_order=False)

    # -- what a family may override ----------------------------------------------------

    def check_points(self, points: Points) -> None:
        """Check a whole grid, as arrays, for what single fields cannot say; raise
        `bad_field`.
        """

    def limit(self, points: Points, what: str, settings: Mapping[str, Any]) -> Answer:
        """Answer all points with the limit; ``points["dim"]`` is inf where the bare
        limit is wanted.
        """
        # fields may be as large as 1e300 and as small as 1e-300: any product may
        # overflow or vanish, and no module can say beforehand which;
        # `batches.collect_answers` flags every point whose numbers were lost
        with np.errstate(all="ignore"):
            return self._engine("limit").limit(self, points, what, settings)

    def trial(
        self,
        points: Points,
        what: str,
        dim: int,
        draws: Any,
        settings: Mapping[str, Any],
    ) -> dict[str, Array]:
        """Run one trial: one draw for all `points`, which differ only in
        `shared_fields`.
        """
        return self._engine("experiment").trial(
            self, points, what, dim, draws, settings
        )

    def kept(self, what: str) -> tuple[Variable, ...]:
        """Return what `keep_networks` adds to an experiment; nothing where the family
        keeps no networks.
        """
        return ()

    def kept_memory(
        self, points: Points, what: str, dim: int, settings: Mapping[str, Any]
    ) -> int:
        """Return the bytes of what is `kept` of one trial."""
        return int(
            self._engine("experiment").kept_memory(self, points, what, dim, settings)
        )

    def networks(
        self,
        points: Points,
        what: str,
        dim: int,
        draws: Any,
        settings: Mapping[str, Any],
    ) -> dict[str, Array]:
        """Return what is `kept` of one trial: the networks that `trial` measures with
        these draws.
        """
        return self._engine("experiment").networks(
            self, points, what, dim, draws, settings
        )

    def program(self, dim: int, lang: Language) -> Program:
        """Return what a trial of a program without giantstep does, where the family
        writes one.
        """
        write = self._beside("script", "program")
        if write is None:
            raise InputError(
                f"{type(self).__name__} has no script: its family writes no program of"
                " its own."
            )
        return write(self, dim, lang)

    def memory(
        self, points: Points, what: str, dim: int, settings: Mapping[str, Any]
    ) -> int:
        """Return the bytes one trial needs at its peak, on its device."""
        estimate = self._beside("experiment", "memory")
        if estimate is None:
            return 0
        return int(estimate(self, points, what, dim, settings))

    def prepare(
        self, points: Points, what: str, settings: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the settings with what both engines must share filled in (the ``x`` of
        a spectrum, say).
        """
        prepare = self._beside("limit", "prepare")
        with np.errstate(all="ignore"):
            if prepare is None:
                return dict(settings)
            return prepare(self, points, what, settings)

    def refuse_missing(
        self, points: Points, what: str, theory: str | None = None
    ) -> None:
        """Raise `InputError` where the limit has no theory for a question; a family may
        say so in its ``limit.py``.
        """
        refuse = self._beside("limit", "refuse_missing")
        if refuse is not None:
            refuse(self, points, what, theory)

    def baselines(
        self, points: Points, what: str, values: Mapping[str, Array]
    ) -> Mapping[str, Baseline]:
        """Return the error of having learnt nothing for each error among the `values`;
        a worse one gets a note.
        """
        return {}

    @classmethod
    def example(cls) -> Self:
        """Return a small valid scenario: what ``giantstep new`` starts from, what the
        tests run.
        """
        return cls()

    @classmethod
    def example_for(cls, what: str) -> Self:
        """Return a small valid scenario for one question; another than the example
        where that has no answer to it.
        """
        return cls.example()

    @classmethod
    def from_paper(cls, paper: str, /, **symbols: Any) -> Self:
        """Return the scenario of a paper's parameters, given by the paper's own
        symbols; both are printed.

        Parameters
        ----------
        paper : BibTeX key, one of ``paper_symbols``; docs/notation.md lists them with
            their symbols.
        **symbols : the paper's symbols (``lambda_`` for lambda); what it has no symbol
            for goes by our field's name.

        >>> import giantstep as gs
        >>> s = gs.OneStep.from_paper(
        ...     "moniri2024theory", phi=0.25, psi=0.5, lambda_=0.1, eta=1.0
        ... )
        moniri2024theory:
          phi     =  0.25  d/n
          psi     =  0.5   d/N
          lambda  =  0.1   penalty in (1/n) sum (y - f)^2 + lambda |b|^2
          eta     =  1     step size
        giantstep:
          step.rate           =  1    = eta
          samples_per_dim     =  4    = 1/phi
          width_per_dim       =  2    = 1/psi
          ridge               =  0.2  = lambda*psi/phi
          step.batch_per_dim  =  4    = 1/phi
        >>> s.step
        SmallStep(rate=1.0, batch_per_dim=4.0, update='exact', initial_output=0)
        """
        scenario, text = scenario_from_paper(cls, paper, symbols)
        print(text)
        return scenario

    @classmethod
    def composition(cls) -> Mapping[str, str]:
        """Return pairs of options, in words -> what the limit makes of them, where a
        family has a table of it.
        """
        return {}

    @classmethod
    def reference(cls) -> tuple[Self, str, float] | None:
        """Return a scenario, a variable of its limit and its value to 1e-7: the
        self-test of `giantstep doctor`.
        """
        return None

    def own_dim(self) -> int | None:
        """Return the dimension of the experiment where the scenario itself fixes it (a
        dataset), else None.
        """
        return None

    def gaussian_twin(self, theory: str) -> Self | None:
        """Return this scenario with Gaussian inputs of the same moments in place of the
        rows of a table.

        It is what `theory` describes. None where no table is there, or where that
        theory reads the rows themselves.
        """
        return None

    def has_classes(self) -> bool:
        """Tell whether the labels are classes, 1 and -1, rather than real numbers."""
        return False

    def seconds(self, what: str) -> float:
        """Return about how long one point of its limit takes, where that is more than a
        moment; bars say it before.
        """
        return 0.0

    def beforehand(
        self, points: Points, what: str, settings: Mapping[str, Any]
    ) -> Mapping[str, Array]:
        """Return what is known of points without what may take too long; it stands
        where that was given up.
        """
        known = self._beside("limit", "beforehand")
        return {} if known is None else known(self, points, what, settings)

    def diagram(self) -> PhaseDiagram | None:
        """Return what `giantstep.phase_diagram` draws of it, where the family has
        phases.
        """
        return None

    def block_count(self) -> Mapping[str, int]:
        """Return the lengths of the counted dims of its variables (``block``,
        ``neuron``, ...).
        """
        return {}

    @classmethod
    def _engine(cls, name: str) -> Any:
        found = folder_with(cls, name)
        if found is None:
            method = {"limit": "limit", "experiment": "trial"}.get(name, name)
            raise InputError(
                f"{cls.__name__} has no {name}: there is no method `{method}` in it."
            )
        _, folder = found
        return importlib.import_module(f"{folder}.{name}")

    @classmethod
    def _beside(cls, module: str, name: str) -> Any:
        """Return a function of a module in the family's folder; None where there is
        none (a family in one file).
        """
        found = folder_with(cls, module)
        if found is None:
            return None
        home, folder = found
        engine = {"limit": "limit", "experiment": "trial"}.get(module)
        if engine and getattr(home, engine) is not getattr(Scenario, engine):
            # modules beside a family that is its own engine are none of its own
            return None
        return getattr(importlib.import_module(f"{folder}.{module}"), name, None)

    # -- fields ------------------------------------------------------------------------

    def replace(
        self, changes: Mapping[str, Any] | None = None, /, **fields: Any
    ) -> Self:
        """Return a new, checked scenario with some fields changed:
        ``s.replace(ridge=0.1, step__rate=2)``.

        Another ``step__kind`` makes another part; what both kinds have keeps its value.
        In a list of parts ``steps__0__rate`` is a field of the first entry,
        ``steps__rate`` that of all entries that have it.
        """
        content = dict(self)
        wanted = dotted_names({**(changes or {}), **fields})

        def outer_first(name: str) -> tuple[int, bool, int]:
            keys = keys_of(
                name
                # a part before its fields, its kind before the others, all of a list
                # before
            )
            places = sum(isinstance(key, int) for key in keys)
            return len(keys) - places, keys[-1] != "kind", places

        for name in sorted(wanted, key=outer_first):
            for place in _places(self, content, name):
                _put(self, content, place, wanted[name])
        return type(self)(
            **{name: _with_classes(value) for name, value in content.items()}
        )

    def point(self) -> dict[str, Floats]:
        """Return the numeric fields as a batch of one point."""
        return {name: np.array([value]) for name, value in self.numbers.items()}

    @cached_property
    def numbers(self) -> dict[str, float]:
        """Every field that holds one number here: dotted name -> value."""
        leaves = walk_values(self)
        return {
            n: float(v)
            for n, v in leaves
            if isinstance(v, int | float) and not isinstance(v, bool)
        }

    def numeric_fields(self) -> dict[str, tuple[float, FieldInfo]]:
        """Return every field that holds one number here: dotted name -> (value,
        declaration).
        """
        return {
            name: (value, declaration(self, name))
            for name, value in self.numbers.items()
        }

    def content(self) -> dict[str, Any]:
        """Return the scenario as plain JSON data with its family: what a file or a
        store keeps.
        """
        content = {"family": self.family, **self.model_dump(mode="json")}
        classes = content_of_variants(self)
        if classes:
            content[CLASSES] = classes
        return content

    def digest(self, without: Sequence[str] = ()) -> str:
        """Return a hash of the content, leaving out the dotted fields in `without`."""
        content = self.content()
        for name in without:
            *parents, last = keys_of(name)
            for table in tables_at(content, parents):
                table.pop(str(last), None)
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def from_content(content: Mapping[str, Any]) -> Scenario:
    """Rebuild a scenario from `Scenario.content` or from the ``[scenario]`` table of a
    file.
    """
    fields = dict(content)
    refuse_content(fields.pop(CLASSES, {}))
    if (family := fields.pop("family", None)) is None:
        raise InputError(
            "Field `family` is missing in the scenario; it must be one of"
            f" {', '.join(family_names())}."
        )
    for name, value in fields.items():
        refuse_callable(name, value)
    return family_class(family)(**fields)


def refuse_callable(name: str, value: Any) -> None:
    """Refuse what a function without an expression leaves in plain data."""
    if isinstance(value, Mapping) and "callable" in value:
        raise InputError(
            f"Field `{name}` was a Python callable ({value['callable']!r}); it lives in"
            " Python only."
        )


def dotted_names(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Write keyword names with dots: ``step__rate`` is ``step.rate``."""
    return {name.replace("__", "."): value for name, value in fields.items()}


def walk_fields(model: BaseModel) -> Iterator[tuple[str, Any, FieldInfo]]:
    """Yield (dotted name, value, declaration) of every leaf field of a scenario or
    part.
    """
    for name, value in walk_values(model):
        yield name, value, declaration(model, name)


def walk_values(model: BaseModel, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (dotted name, value) of every leaf field of a scenario or part."""
    for name in type(model).model_fields:
        value = getattr(model, name)
        if isinstance(value, BaseModel):
            yield from walk_values(value, f"{prefix}{name}.")
        elif isinstance(value, tuple) and holds_parts(value):
            for index, entry in enumerate(value):
                yield from walk_values(entry, f"{prefix}{name}.{index}.")
        elif name != "kind":
            yield prefix + name, value


def numbers_meant(scenario: Scenario, name: str) -> dict[str, tuple[float, FieldInfo]]:
    """Return the numeric fields that a name means (of a list all entries' own); none
    where one holds no number.
    """
    known = scenario.numeric_fields()
    meant = names_meant(scenario, name)
    if all(leaf in known for leaf in meant):
        return {leaf: known[leaf] for leaf in meant}
    return {}


def one_number(scenario: Scenario, name: str) -> tuple[float, FieldInfo]:
    """Return the value of a numeric field with its declaration; entries of a list that
    differ have no one value.
    """
    values = {leaf: value for leaf, (value, _) in numbers_meant(scenario, name).items()}
    if len(set(values.values())) > 1:
        shown = ", ".join(f"{leaf} = {value:g}" for leaf, value in values.items())
        raise InputError(
            f"Field `{name}` has no one value here ({shown}): name one of them, or set"
            " them all first."
        )
    return next(iter(values.values())), declaration(scenario, name)


def check_field_name(scenario: Scenario, name: str, also: Sequence[str] = ()) -> None:
    """Raise `InputError` with the nearest name where a dotted field does not exist in
    this scenario.
    """
    known = {*dict(walk_values(scenario)), *type(scenario).model_fields}
    if name not in known and not is_list_name(scenario, name):
        fields = {leaf: info for leaf, _, info in walk_fields(scenario)}
        raise field_error(
            name, _unknown_field(type(scenario), name, fields, also, scenario)
        )


_OTHER_WORDS = {
    **dict.fromkeys(("learning_rate", "lr"), "rate"),
    **dict.fromkeys(("lam", "penalty", "regularization", "weight_decay"), "ridge"),
    **dict.fromkeys(("n", "n_samples"), "samples_per_dim"),
    **{"epochs": "steps", "hidden": "width_per_dim", "n_trials": "trials", "d": "dim"},
}
"""What other programs call a field or setting -> ours, suggested where there is one of
that name.
"""


def _unknown_field(
    model: Any,
    name: str,
    fields: Mapping[str, FieldInfo],
    also: Sequence[str] = (),
    scenario: Scenario | None = None,
) -> str:
    """Say of a field that does not exist what to write instead; ``{field}`` stands for
    its name.
    """
    missing = f"There is no field `{{field}}` in {model.__name__}"
    for inside in [leaf for leaf in fields if leaf.endswith(f".{name}")]:
        return (
            f"{missing} (did you mean `{inside}`, as a keyword"
            f" {inside.replace('.', '__')}?)."
        )
    if name in getattr(model, "elsewhere", {}):
        return f"{missing}: {model.elsewhere[name]}."
    ours = _OTHER_WORDS.get(name, "")
    is_here = any(leaf.rpartition(".")[2] == ours for leaf in fields)
    if not is_here and ours in getattr(model, "elsewhere", {}):
        return f"{missing}; it is called `{ours}`: {model.elsewhere[ours]}."
    if lacking := _lacked_by_part(model, name, scenario):
        return f"{missing}: {lacking}."
    for asked in [
        what
        for what, question in getattr(model, "questions", {}).items()
        if name in question.settings
    ]:
        how = f'predict(scenario, what="{asked}", {name}=...)'
        return f'{missing}: it is a setting of what="{asked}", as in gs.{how}.'
    symbols = {
        leaf: re.split(r"\s*[=,]\s*", symbol_of(info)) for leaf, info in fields.items()
    }
    meant = [leaf for leaf, written in symbols.items() if name.rstrip("_") in written]
    meant += [leaf for leaf in [*fields, *also] if leaf.rpartition(".")[2] == ours]
    guess = nearest(name, [*fields, *model.model_fields, *also])
    if meant and not guess:
        if meant[0] in fields:
            told = f": {fields[meant[0]].description}"
        else:
            told = ""
        guess = f" (did you mean `{meant[0]}`{told}?)"
    return f"{missing}{guess}; it has {', '.join(fields) or 'none'}."


def _lacked_by_part(model: Any, name: str, scenario: Scenario | None) -> str:
    """Say which parts have a field that the part which a scenario holds has not;
    nothing where none has.
    """
    owner, _, inner = name.partition(".")
    info = model.model_fields.get(owner)
    if scenario is None or info is None or not inner:
        return ""
    members = [
        member
        for member in allowed_types(value_annotation(info))
        if hasattr(member, "model_fields")
    ]
    have = [member for member in members if inner in member.model_fields]
    held = getattr(scenario, owner)
    if not have or not isinstance(held, BaseModel):
        return ""
    calls = [call_of(member) for member in have]
    return (
        f"`{owner}` is {call_of(type(held))} here, which has none; take"
        f" {owner}={' or '.join(calls)}"
    )


def allowed_types(annotation: Any) -> Iterator[Any]:
    """Yield the types (or the values of a Literal) an annotation allows."""
    origin = get_origin(annotation)
    if origin is Literal:
        yield from get_args(annotation)
    elif origin is tuple or (isinstance(annotation, type) and origin is None):
        yield origin or annotation
    else:  # of Annotated the first alone
        for inner in get_args(annotation)[: 1 if origin is Annotated else None]:
            yield from allowed_types(inner)


def _places(scenario: Scenario, content: Mapping[str, Any], name: str) -> list[str]:
    """Return the fields that a name means in a content: of a list without a place those
    of all entries.
    """
    field, dot, inner = name.partition(".")
    entries = content.get(field)
    info = type(scenario).model_fields.get(field)
    if (
        not dot
        or info is None
        or part_list(info) is None
        or not isinstance(entries, list | tuple)
    ):
        return [name]
    parts = [_part_class(info, entry) for entry in entries]
    if not (meant := names_meant(scenario, name, parts)):
        raise no_entry_has(field, inner, parts)
    return meant


class _OpenPart(dict[str, Any]):
    """A part of a user's class as a table, while fields of it are changed; it remembers
    which class that is.
    """

    def __init__(self, part: BaseModel) -> None:
        super().__init__(part)
        self.made_of = type(part)


def _opened(part: BaseModel | Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a part as a table whose fields can be changed."""
    if isinstance(part, _OpenPart):
        return part
    if isinstance(part, BaseModel) and parent_of(type(part)) is not None:
        return _OpenPart(part)
    return dict(part or {})


def _with_classes(value: Any) -> Any:
    """Return a changed value of a field, in which tables that were parts of a user's
    class are parts of it again.
    """
    if isinstance(value, list):
        return [_with_classes(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    inside = {name: _with_classes(entry) for name, entry in value.items()}
    if not isinstance(value, _OpenPart):
        return inside
    kind = value.made_of.model_fields.get("kind")
    is_same = kind is None or inside.get("kind") == kind.default
    return value.made_of(**inside) if is_same else inside


def _part_class(info: FieldInfo, entry: Any) -> type[BaseModel] | None:
    if isinstance(entry, BaseModel):
        return type(entry)
    if isinstance(entry, _OpenPart):
        return entry.made_of
    if isinstance(entry, Mapping):
        return part_of_kind(info, entry.get("kind"))
    return None


def _put(scenario: Scenario, content: dict[str, Any], name: str, value: Any) -> None:
    """Change one field of a content; the parts on the way to it become tables."""
    *parents, last = keys_of(name)
    info = type(scenario).model_fields.get(name.partition(".")[0])
    listed = part_list(info)
    table: Any = content
    for key in parents:
        if isinstance(table, list) and listed is not None:
            listed.check_place(name.partition(".")[0], table, str(key))
        held = table[int(key)] if isinstance(table, list) else table.get(key)
        if isinstance(held, list | tuple) and listed is not None:
            table[key] = list(held)
        elif isinstance(held, BaseModel | Mapping) or (
            held is None and info is not None and last == "kind"
        ):
            table[key] = _opened(held)
        else:
            check_field_name(scenario, name)
            raise InputError(f"There is no field `{name}` here: `{key}` is {held!r}.")
        table = table[key]
    if isinstance(table, list) and listed is not None:
        listed.check_place(name.partition(".")[0], table, str(last))
    elif isinstance(last, int):
        check_field_name(scenario, name)
    if len(parents) == 1:
        held = getattr(scenario, str(parents[0]), None)
    else:
        held = None
    is_same_part = isinstance(held, BaseModel) and table.get("kind") == getattr(
        held, "kind", None
    )
    if (
        is_same_part
        and last not in table
        and _lacked_by_part(type(scenario), name, scenario)
    ):
        check_field_name(scenario, name)
    if last == "kind" and info is not None:
        part = part_of_kind(info, value)
    else:
        part = None
    if part is not None:  # another kind keeps what both have
        for other in [other for other in table if other not in part.model_fields]:
            del table[other]
    table[last] = value


def part_of_kind(info: FieldInfo, kind: Any) -> Any:
    """Return the class of a part with this `kind` among those a field, or an entry of
    its list, may hold; else None.
    """
    members = [
        member
        for member in allowed_types(value_annotation(info))
        if hasattr(member, "model_fields")
    ]
    kinds = {
        part.model_fields["kind"].default: part
        for part in members
        if "kind" in part.model_fields
    }
    return kinds.get(kind) if isinstance(kind, str) else None


def with_parts(scenario: Scenario, name: str, value: Any) -> Any:
    """Return a list of parts, or one entry of it, with tables as parts; what is neither
    stays as it is.
    """
    field, _, place = name.partition(".")
    if not place and isinstance(value, list | tuple):
        return tuple(
            with_parts(scenario, f"{name}.{index}", entry)
            for index, entry in enumerate(value)
        )
    is_entry = isinstance(keys_of(place)[0], int) and isinstance(value, Mapping)
    if is_entry:
        part = _part_class(type(scenario).model_fields[field], value)
    else:
        part = None
    if part is None:
        return value
    try:
        return part(**value)
    except InputError as error:
        raise error.inside(name) from None


def _sentence(model: type[BaseModel], error: pydantic.ValidationError) -> InputError:
    """Turn pydantic's message into one sentence of ours; nothing else does."""
    # a misspelt name first
    problem = min(
        error.errors(), key=lambda problem: problem["type"] != "extra_forbidden"
    )
    # parts are built through their own `__init__` and report for themselves, so a
    # location here is a field, then perhaps the tag of a union (which is no name) or
    # indices in a list
    name, *rest = problem["loc"] or ("",)
    path = ".".join([str(name), *(str(i) for i in rest if isinstance(i, int))])
    info = model.model_fields.get(str(name))
    cause = problem.get("ctx", {}).get("error")
    if isinstance(cause, InputError):
        return cause.inside(path)
    kind = problem["type"]
    value = problem["input"]
    same = [
        other.get("ctx", {})
        for other in error.errors()
        if other["loc"][:1] == problem["loc"][:1]
    ]
    # a number or a list of numbers, say
    allowed = " or ".join(
        dict.fromkeys(str(context["error"]) for context in same if "error" in context)
    )
    if kind == "extra_forbidden":
        fields = {
            name: info for name, info in model.model_fields.items() if name != "kind"
        }
        return field_error(path, _unknown_field(model, path, fields))
    if kind == "missing":
        return field_error(
            path,
            "Field `{field}` is missing:"
            f" {info.description if info else 'it has no default'}.",
        )
    if kind.startswith(("greater_than", "less_than")) and info is not None:
        return bad_field(path, value, allowed_values(info))
    if kind in (
        "union_tag_not_found",
        "model_type",
        "model_attributes_type",
        "dict_type",
    ):
        return bad_field(path, value, _parts(info, value))
    if kind == "union_tag_invalid":
        kinds = problem["ctx"]["expected_tags"]
        guess = nearest(
            str(problem["ctx"]["tag"]), [kind.strip("'") for kind in kinds.split(", ")]
        )
        return bad_field(
            f"{path}.kind", problem["ctx"]["tag"], f"one of {kinds}{guess}"
        )
    if kind == "literal_error":
        advice = getattr(model, "elsewhere", {}).get(f"{path}={value}")
        choices = problem["ctx"]["expected"]
        if advice:
            guess = f" ({advice})"
        else:
            guess = nearest(value, re.findall("'(.*?)'", choices))
        return bad_field(
            path, value, f"one of {choices}{guess}{', or ' * bool(allowed)}{allowed}"
        )
    if cause is not None:
        if (
            allowed == "a number"
            and isinstance(value, list | tuple | np.ndarray)
            and issubclass(model, Scenario)
        ):
            allowed += (
                f" (several go to the verb, gs.predict(scenario, {path}=[...]), or into"
                " [grid] of a file)"
            )
        return bad_field(path, value, allowed)
    return bad_field(path, value, f"valid ({problem['msg'].lower()})")


def _parts(info: FieldInfo | None, value: Any) -> str:
    """Say how a part is given, in Python and in a file; of several the one that a name
    or a class means.
    """
    if info is None:
        members = []
    else:
        members = [
            m
            for m in allowed_types(value_annotation(info))
            if hasattr(m, "model_fields")
        ]
    kinds = {
        part: part.model_fields["kind"].default
        for part in members
        if "kind" in part.model_fields
    }
    if not members or isinstance(value, Mapping):
        if kinds:
            return f"a table that says its `kind`, one of {', '.join(kinds.values())}"
        return "a table"
    meant = [
        part
        for part in members
        if value is part or (isinstance(value, str) and value == kinds.get(part))
    ]
    called = " or ".join(map(call_of, meant or members))
    if not kinds:
        return (
            f"{called} (in a file a table with {' and '.join(members[0].model_fields)})"
        )
    if meant:
        which = f'kind = "{kinds[meant[0]]}"'
    else:
        which = f"a `kind`, one of {', '.join(kinds.values())}"
    return f"{called} (in a file a table with {which})"


def call_of(part: type[BaseModel]) -> str:
    """Return the call that makes a part, with the fields that must be given."""
    import giantstep

    if part.__name__ in dir(giantstep):
        name = f"gs.{part.__name__}"
    else:
        name = part.__name__
    return f"{name}({', '.join(f'{field}=...' for field, info in part.model_fields.items() if info.is_required())})"  # noqa: E501
