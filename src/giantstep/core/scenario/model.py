"""Scenarios: one frozen, checked description of a learning problem, with symbols,
meanings and bounds.

`Scenario` is the base class of every family and `Part` of the small value objects
inside one (a step, a second layer). How their fields are declared stands in `fields`,
how they are called in `names`, how they are changed in `changes`.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Self,
)

import numpy as np
import pydantic
from pydantic import (
    BaseModel,
    ConfigDict,
)
from pydantic.fields import FieldInfo

from giantstep.core.base.display import blocks_html, blocks_text
from giantstep.core.base.errors import (
    InputError,
    bad_field,
    without_frames,
)
from giantstep.core.base.types import Array, Floats, Points
from giantstep.core.scenario.answer import Answer
from giantstep.core.scenario.changes import changed_content
from giantstep.core.scenario.dimensions import declare
from giantstep.core.scenario.families import family_class, family_names, register
from giantstep.core.scenario.family import Baseline, PhaseDiagram, Question, Variable
from giantstep.core.scenario.fields import allowed_values, allows_infinity
from giantstep.core.scenario.fields_table import model_blocks
from giantstep.core.scenario.lists import (
    declaration,
    keys_of,
    tables_at,
)
from giantstep.core.scenario.names import dotted_names, leaf_fields
from giantstep.core.scenario.own_classes import (
    CLASSES,
    content_of_variants,
    folder_with,
    is_named,
    refuse_content,
    refuse_file,
)
from giantstep.core.scenario.paper_symbols import Paper, scenario_from_paper
from giantstep.core.scenario.refusals import refusal_of

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
        for base in cls.__mro__:
            written = vars(base).get("__doc__")
            if written:
                break
        else:
            return None
        model: Any = cls
        if not vars(cls).get("__pydantic_complete__") or not model.model_fields:
            return str(written)
        from giantstep.core.scenario.describe import field_table

        before, prompt, example = inspect.cleandoc(written).partition(">>> ")
        heading = (
            "Fields, each with its symbol, meaning, what it allows and its default:"
        )
        sections = [before.rstrip(), heading, field_table(model), prompt + example]
        return "\n\n".join(sections).rstrip()

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
    kind: Any = inspect.Parameter.KEYWORD_ONLY
    if in_order:
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters: list[inspect.Parameter] = []
    has_default = False
    for name, info in model.model_fields.items():
        if name == "kind":
            continue
        default = info.default
        if info.is_required():
            default = inspect.Parameter.empty
            # Python allows no other after one with a default
            if has_default:
                kind = inspect.Parameter.KEYWORD_ONLY
        else:
            has_default = True
        parameters.append(inspect.Parameter(name, kind, default=default))
    return inspect.Signature(parameters)


class Checked(BaseModel, metaclass=FieldHelp):
    """A frozen model whose numbers are finite and whose fields fit to each other."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", arbitrary_types_allowed=True, validate_default=True
    )

    @pydantic.model_validator(mode="after")
    def _check_all(self) -> Self:
        for name, info in type(self).model_fields.items():
            value = getattr(self, name)
            is_infinite = isinstance(value, float) and math.isinf(value)
            if is_infinite and not allows_infinity(info):
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

    @cached_property
    def leaves(self) -> tuple[tuple[str, Any], ...]:
        """(dotted name, value) of every leaf field: what is frozen is walked once."""
        return tuple(leaf_fields(self))

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
            refusal = refusal_of(type(self), error)
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
            refusal = refusal_of(type(self), error)
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
        # `run.limit.collect_answers` flags every point whose numbers were lost
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
        wanted = dotted_names({**(changes or {}), **fields})
        return type(self)(**changed_content(self, wanted))

    def point(self) -> dict[str, Floats]:
        """Return the numeric fields as a batch of one point."""
        return {name: np.array([value]) for name, value in self.numbers.items()}

    @cached_property
    def numbers(self) -> dict[str, float]:
        """Every field that holds one number here: dotted name -> value."""
        return {
            name: float(value)
            for name, value in self.leaves
            if isinstance(value, int | float) and not isinstance(value, bool)
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
    family = fields.pop("family", None)
    if family is None:
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
