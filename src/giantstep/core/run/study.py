"""The verbs `predict` (the limit), `simulate` (the experiment), `compare` (both), and
`Study`, one in a file.

They know no family: all they use is what `giantstep.core.scenario.model.Scenario` says
every family provides. `request` checks what is asked, `batches` runs the limit,
`trials` the experiment.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import BaseModel

from giantstep.core.base import display
from giantstep.core.base.errors import InputError, bad_field, nearest, unreadable
from giantstep.core.base.files import write_text
from giantstep.core.base.jsondata import with_infinity
from giantstep.core.base.progress import ProgressOption
from giantstep.core.base.types import Floats
from giantstep.core.run.batches import checked_cpu_limit, solve_limit
from giantstep.core.run.plugins import installed_verb
from giantstep.core.run.problems import Problems, warn
from giantstep.core.run.request import (
    EXPERIMENT_SETTINGS,
    LIMIT_SETTINGS,
    ExperimentSettings,
    Request,
    question_name,
)
from giantstep.core.run.trials import TrialPlan, Watch
from giantstep.core.scenario.arrays import with_arrays, write_arrays
from giantstep.core.scenario.checks import check_flags, check_number, check_whole
from giantstep.core.scenario.family import DIAGNOSTICS, Engine, Question
from giantstep.core.scenario.fields_table import model_blocks
from giantstep.core.scenario.grid import Grid
from giantstep.core.scenario.lists import part_list
from giantstep.core.scenario.model import (
    Scenario,
    dotted_names,
    from_content,
    walk_fields,
    walk_values,
)
from giantstep.core.scenario.own_classes import refuse_file
from giantstep.core.scenario.several import Scenarios, stack
from giantstep.core.scenario.toml import read_toml, write_toml

if TYPE_CHECKING:
    import xarray

_ENGINES: tuple[Engine, Engine] = ("limit", "experiment")
_SECTIONS = ("grid", "settings", *_ENGINES)
_PREDICT_SETTINGS = tuple(name for name in LIMIT_SETTINGS if name != "finite_size")


def predict(
    scenario: Scenarios,
    grid: Mapping[str, Any] | None = None,
    /,
    *,
    what: str | None = None,
    theory: str | Sequence[str] | None = None,
    dim: Any = None,
    tolerance: float = 1e-10,
    strict: bool = False,
    seed: int = 0,
    cpu_limit: float | None = None,
    progress: ProgressOption = None,
    **fields: Any,
) -> xarray.Dataset:
    """Answer a scenario with its limit, over a grid in one batched call.

    Parameters
    ----------
    scenario : what is studied; several by name, ``{"no step": s0, "one step": s1}``,
        have the dimension ``scenario``.
    grid : dotted field -> value or list of values; the same as keywords.
    what : the question asked; the scenario's first one if left out.
    theory : a name in ``scenario.theories``; the family chooses if left out, and the
        result says which. A list of names makes the dimension ``theory``.
    dim : adds the leading finite-size correction at that dimension, where it is known;
        may be a list.
    tolerance : relative residual the equations are solved to; above 1e-6 some families
        take coarser rules, too.
    strict : raise `ConvergenceError` where a point is not solved, rather than warn.
    seed : of the points of a limit that is computed by sampling; others do not depend
        on it.
    cpu_limit : seconds of CPU one point may take before it is given up and flagged
        (``inf`` waits for ever); 15 if left out, or what the environment variable
        ``GIANTSTEP_CPU_LIMIT`` says.
    progress : True, False or a callable(done, total, text); a line on a terminal if
        left out.
    **fields : fields of the scenario (``step__rate=[0.5, 1]``) and settings of the
        question (``x=...``).

    Returns
    -------
    xarray.Dataset
        Grid dimensions first; ``converged``, ``residual``, ``iterations``, ``status``
        beside the variables.

    Examples
    --------
    >>> import giantstep as gs
    >>> s = gs.OneStep(
    ...     activation="relu",
    ...     target="tanh(z)",
    ...     width_per_dim=1.5,
    ...     samples_per_dim=2.0,
    ...     ridge=0.1,
    ... )
    >>> curve = gs.predict(s, samples_per_dim=[0.5, 2.0, 8.0], ridge=[0.1, 1.0])
    >>> curve.test_error.dims, bool(curve.converged.all())
    (('samples_per_dim', 'ridge'), True)
    >>> gs.predict(s, what="spectrum").density.dims
    ('x',)
    """
    if isinstance(theory, list | tuple) and theory:
        asked = {
            "what": what,
            "dim": dim,
            "tolerance": tolerance,
            "strict": strict,
            "seed": seed,
            "progress": progress,
        }
        answers = [
            predict(scenario, grid, theory=name, cpu_limit=cpu_limit, **asked, **fields)
            for name in theory
        ]
        return stack(answers, theory, "theory")
    one: Any = theory  # what is no name is refused
    request = Request(
        scenario,
        grid,
        fields,
        what=what,
        dim=dim,
        theory=one,
        tolerance=tolerance,
        seed=seed,
    )
    check_flags(strict=strict)
    result, problems = solve_limit(
        request, None, progress, cpu_limit=checked_cpu_limit(cpu_limit)
    )
    problems.refuse(strict)
    warn(problems)
    return result


def simulate(
    scenario: Scenarios,
    grid: Mapping[str, Any] | None = None,
    /,
    *,
    what: str | None = None,
    dim: Any = None,
    trials: int = 5,
    seed: int = 0,
    device: str = "cpu",
    keep_trials: bool = False,
    keep_networks: bool = False,
    paired: bool = False,
    strict: bool = False,
    progress: ProgressOption = None,
    **fields: Any,
) -> xarray.Dataset:
    """Answer a scenario with an experiment of finite dimension: means over trials, with
    standard errors.

    The numbers of a point depend on the seed, on what the point is, and on the trial,
    never on its place in the grid: more points or more trials change no number.

    Parameters
    ----------
    scenario, grid, what, strict, progress, **fields : as in `predict`.
    dim : dimension of the data; may be a list.
    trials : number of independent repetitions.
    seed : any whole number from 0 on.
    device : ``"cpu"`` or ``"cuda"``; they draw different numbers.
    keep_trials : keep the dimension ``trial`` rather than the mean.
    keep_networks : add the networks of every trial, over the dimension ``trial``:
        ``first_layer``, ``second_layer`` and ``target_directions`` of a network, of
        ``what="spectrum"`` also all ``eigenvalues``. Every network is trained a second
        time for that. A family that keeps no networks refuses.
    paired : give all points the same draws, so that their differences are less noisy.

    Returns
    -------
    xarray.Dataset
        The variables of `predict`, each with its standard error ``*_stderr``.

    Examples
    --------
    >>> import giantstep as gs
    >>> s = gs.OneStep(
    ...     activation="relu",
    ...     target="tanh(z)",
    ...     width_per_dim=1.5,
    ...     samples_per_dim=2.0,
    ...     ridge=0.1,
    ... )
    >>> few = gs.simulate(s, dim=40, trials=4, keep_trials=True)
    >>> more = gs.simulate(s, dim=40, trials=6, keep_trials=True)
    >>> # more trials change no number
    >>> bool((few.test_error == more.test_error[:4]).all())
    True
    """
    request = Request(scenario, grid, fields, what=what, dim=dim)
    experiment = ExperimentSettings(
        trials, seed, device, keep_trials, paired, keep_networks
    )
    check_flags(strict=strict)
    result, problems = TrialPlan(request, experiment).run(progress)
    problems.refuse(strict)
    warn(problems)
    return result


def compare(
    scenario: Scenarios,
    grid: Mapping[str, Any] | None = None,
    /,
    *,
    what: str | None = None,
    theory: str | Sequence[str] | None = None,
    dim: Any = None,
    tolerance: float = 1e-10,
    trials: int = 5,
    seed: int = 0,
    device: str = "cpu",
    paired: bool = False,
    finite_size: bool = True,
    strict: bool = False,
    progress: ProgressOption = None,
    watch: Watch | None = None,
    stored: xarray.Dataset | None = None,
    twin: bool | None = None,
    **fields: Any,
) -> xarray.Dataset:
    """Answer a scenario with both engines and say how far apart they are.

    Parameters
    ----------
    scenario, grid, what, theory, tolerance, strict, progress, **fields : as in
        `predict`.
    dim, trials, seed, device, paired : as in `simulate`.
    finite_size : compare with the limit and its finite-size correction at `dim`, where
        it is known (it is called "theory at d = ..." then, and the bare limit stands
        beside it); False compares with the bare limit.
    watch : called after every trial with a function that returns what was measured so
        far, as `simulate` would.
    stored : an experiment at the same points, as `simulate` or `sweep` returned it, in
        place of a new one. One of another scenario, question, dimension or seed is
        refused.
    twin : on a table, whether the same trials are run on its Gaussian twin, too, which
        splits the gap: the report says how much the finite size makes, and how much
        that the data are not Gaussian. If left out: unless `stored`.

    Returns
    -------
    xarray.Dataset
        The dimension ``source`` first: "limit" is the bare limit, "theory" the limit
        with its finite-size correction at `dim` (only where the family knows one),
        "experiment" the measurement. ``*_gap`` is experiment minus theory (minus limit
        where there is no "theory"; the attribute ``compared_with`` says which), ``*_z``
        its normal score. `giantstep.agreement` sums it up. Of several scenarios those
        without a theory are NaN there, and their ``status`` says why. On a table
        ``*_twin`` and ``*_twin_stderr`` are those of its Gaussian twin.

    Examples
    --------
    >>> import giantstep as gs
    >>> s = gs.OneStep(
    ...     width_per_dim=1.5,
    ...     samples_per_dim=2.0,
    ...     ridge=0.1,
    ...     step=gs.MaximalStep(rate=2.0),
    ... )
    >>> both = gs.compare(s, dim=60, trials=5, samples_per_dim=[0.5, 2.0])
    >>> both.source.values.tolist()  # the bare limit, the limit with its correction at d = 60, the networks
    ['limit', 'theory', 'experiment']
    >>> gap = both.test_error.sel(source="experiment") - both.test_error.sel(
    ...     source="theory"
    ... )
    >>> bool((abs(gap - both.test_error_gap) < 1e-12).all())
    True
    """  # noqa: E501
    from giantstep.core.result.comparison import combine
    from giantstep.core.result.table import provenance
    from giantstep.core.run.stored import check_stored

    check_flags(
        finite_size=finite_size,
        strict=strict,
        twin=bool(twin) if twin is None else twin,
    )
    if isinstance(theory, list | tuple) and theory:  # one experiment serves all of them
        drawn = {
            "what": what,
            "dim": dim,
            "trials": trials,
            "seed": seed,
            "device": device,
            "paired": paired,
        }
        drawn |= {"strict": strict, "progress": progress, **fields}
        if stored is None:
            measured = simulate(scenario, grid, **drawn)
        else:
            measured = stored
        own: dict[str, Any] = {
            "tolerance": tolerance,
            "finite_size": finite_size,
            "stored": measured,
        }
        own["twin"] = stored is None if twin is None else twin
        return stack(
            [compare(scenario, grid, theory=name, **own, **drawn) for name in theory],
            theory,
            "theory",
        )
    one: Any = theory
    request = Request(
        scenario,
        grid,
        fields,
        what=what,
        dim=dim,
        theory=one,
        tolerance=tolerance,
        seed=seed,
    )
    if stored is None:
        trials = trials
    else:
        trials = int(getattr(stored, "attrs", {}).get("trials", trials))
    experiment = ExperimentSettings(trials, seed, device, False, paired)
    with_twin = stored is None if twin is None else twin
    if stored is not None:
        check_stored(stored, request, experiment)
    if stored is None or with_twin:
        plan = TrialPlan(request, experiment, compared=True)
    else:
        plan = None
    if plan is None:
        settings = request.prepare(device=device, trials=trials)
    else:
        settings = plan.settings
    low, unsolved = solve_limit(request, settings, progress, bare=not finite_size)
    layers, unsolved = _theory_layers(low, unsolved, request, settings, progress)
    unsolved.refuse(strict)
    unmeasured = Problems("experiment", request.grid.size)
    if stored is None:
        assert plan is not None
        stored, unmeasured = plan.run(progress, watch)
    unmeasured.refuse(strict)
    compared = list(layers)[-1]
    answered_by = str(layers[compared].attrs.get("theory", ""))
    if plan is not None and with_twin:
        twins = plan.of_twins(answered_by)
    else:
        twins = None
    if twins is None:
        of_twin = None
        unmeasured_twin = unmeasured
    else:
        of_twin, unmeasured_twin = twins.run(progress)
    warn(unsolved, unmeasured, unmeasured_twin)
    asked = {
        **request.shown(),
        "tolerance": request.tolerance,
        **experiment.shown(),
        "finite_size": finite_size,
    }
    facts = {
        "finite_size": int(finite_size),
        "compared_with": compared,
        **layers[compared].attrs,
        **stored.attrs,
    }
    facts |= _about_dimension(request.grid, answered_by, has_twin=of_twin is not None)
    attrs = provenance(request.grid, request.what, "comparison", asked, {})
    both = combine({**layers, "experiment": stored}, request.question, of_twin)
    return both.assign_attrs({**attrs, **facts, **attrs})


def _about_dimension(grid: Grid, theory: str, *, has_twin: bool) -> dict[str, Any]:
    """Return that the dimension is fixed, where it is, and why a table has no Gaussian
    twin beside it.
    """
    scenarios = [batch.scenario for batch in grid.batches()]
    if any(scenario.own_dim() is None for scenario in scenarios):
        return {}
    facts: dict[str, Any] = {"fixed_dim": 1}
    first = next(iter(scenarios[0].theories))
    if has_twin or scenarios[0].gaussian_twin(first) is None:
        return facts
    if scenarios[0].gaussian_twin(theory) is None:
        why = (
            f'The theory "{theory}" reads the rows themselves; with theory="{first}"'
            " the Gaussian twin splits the gap."
        )
    else:
        why = (
            "gs.compare(..., twin=True) runs the Gaussian twin of the table, which"
            " splits the gap."
        )
    return {**facts, "without_twin": why}


def _theory_layers(
    theory: xarray.Dataset,
    problems: Problems,
    request: Request,
    settings: Mapping[str, Any],
    progress: ProgressOption,
) -> tuple[dict[str, xarray.Dataset], Problems]:
    """Return the limit under its name; where it carries a finite-size correction, the
    bare one beside it.
    """
    if not theory.attrs.get("finite_size") or request.grid.dim_is_field:
        return {"limit": theory}, problems
    try:
        # nobody asked for the bare limit: what it lacks stands in its status, and is no
        # reason to warn or to refuse
        bare, _ = solve_limit(request, settings, progress, bare=True)
    except InputError:  # a theory that exists at a finite dimension only
        return {"theory": theory}, problems
    names = [
        name for name in theory.data_vars if name in bare and name not in DIAGNOSTICS
    ]
    pairs = [
        (theory[name].values, bare[name].values)
        for name in names
        if theory[name].dtype.kind == "f"
    ]
    same: dict[str, Any] = {"rtol": 1e-9, "atol": 1e-12, "equal_nan": True}
    if all(
        one.shape == other.shape and np.allclose(one, other, **same)
        for one, other in pairs
    ):
        return {"limit": theory}, problems
    return {"limit": bare, "theory": theory}, problems


@dataclass(frozen=True, eq=False, repr=False)
class Study(display.Readable):
    """A scenario, the question asked, the grid of fields that vary, and the settings of
    both engines.

    Parameters
    ----------
    scenario : what is studied.
    what : the question; the scenario's first one if left out.
    grid : dotted field -> value or list.
    settings : settings of the question (``x``, ``normalisation``, ...).
    limit : ``theory``, ``dim``, ``tolerance``, ``finite_size``, ``strict``, ``seed``
        (where it is sampled).
    experiment : ``dim``, ``trials``, ``seed``, ``device``, ``keep_trials``, ``paired``.

    Examples
    --------
    >>> import giantstep as gs
    >>> s = gs.OneStep(width_per_dim=1.5, samples_per_dim=2.0, ridge=0.1)
    >>> study = gs.Study(
    ...     s, grid={"ridge": [0.1, 1.0]}, experiment={"dim": 40, "trials": 2}
    ... )
    >>> study.predict().sizes["ridge"]
    2
    """

    scenario: Scenario
    what: str | None = None
    grid: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    limit: Mapping[str, Any] = field(default_factory=dict)
    experiment: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.scenario, Scenario):
            raise InputError(
                f"A study needs a scenario, not a {type(self.scenario).__name__}."
            )
        declared = self.question.settings
        for engine, known in zip(_ENGINES, (LIMIT_SETTINGS, EXPERIMENT_SETTINGS)):
            own = [
                name
                for name, setting in declared.items()
                if setting.engines == (engine,)
            ]
            check_keys(engine, getattr(self, engine), [*known, *own])
        check_keys("settings", self.settings, list(declared))
        general = {
            name: self.limit[name]
            for name in ("theory", "tolerance", "seed")
            if name in self.limit
        }
        request = Request(
            self.scenario,
            self.grid,
            self._question_settings(),
            what=self.what,
            dim=None,
            **general,
        )
        for table in (self.limit, self.experiment):
            if table.get("dim") is not None:
                Grid(request.grid.scenario, dim=table["dim"])
        check_flags(
            **{
                name: self.limit[name]
                for name in ("finite_size", "strict")
                if name in self.limit
            }
        )
        ExperimentSettings(
            **{
                n: value
                for n, value in self.experiment.items()
                if n in EXPERIMENT_SETTINGS[1:]
            }
        )

    @property
    def question(self) -> Question:
        """The question asked."""
        return self.scenario.questions[question_name(self.scenario, self.what)]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Study):
            return NotImplemented
        if (self.scenario, self.what) != (other.scenario, other.what):
            return False
        for name in _SECTIONS:
            # a list and an array of the same values are equal
            ours, theirs = (
                getattr(self, name),
                getattr(other, name),
            )
            if list(ours) != list(theirs) or not all(
                np.array_equal(ours[key], theirs[key]) for key in ours
            ):
                return False
        return True

    __hash__ = None  # type: ignore[assignment]

    def blocks(self) -> list[display.Block]:
        """Return the question, the scenario, what varies, and the settings."""
        what = self.what or next(iter(self.scenario.questions))
        blocks = [f'Study of "{what}"', *model_blocks(self.scenario)]
        for name in _SECTIONS:
            table = getattr(self, name)
            if table:
                rows = [
                    (key.replace("__", "."), display.shown_value(value))
                    for key, value in table.items()
                ]
                heading = "varies:" if name == "grid" else f"{name}:"
                blocks += [
                    heading,
                    display.Table(("name", "value"), rows, is_list=True),
                ]
        return blocks

    def __str__(self) -> str:
        return display.blocks_text(self.blocks())

    def predict(self, **overrides: Any) -> xarray.Dataset:
        """Answer with the limit; keywords override the study: fields, settings,
        ``progress``, ``scenarios`` by name.
        """
        return self._answer(predict, _PREDICT_SETTINGS, self.limit, overrides)

    def simulate(self, **overrides: Any) -> xarray.Dataset:
        """Answer with the experiment; keywords override the study."""
        return self._answer(simulate, EXPERIMENT_SETTINGS, self.experiment, overrides)

    def compare(self, **overrides: Any) -> xarray.Dataset:
        """Answer with both; keywords override the study."""
        dims = [
            table["dim"]
            for table in (self.limit, self.experiment)
            if table.get("dim") is not None
        ]
        if "dim" not in overrides and len(dims) == 2 and not np.array_equal(*dims):
            raise InputError(
                "The tables `limit` and `experiment` must have the same `dim` for a"
                " comparison."
            )
        tables = {
            **self.limit,
            **{name: v for name, v in self.experiment.items() if name != "keep_trials"},
        }
        return self._answer(
            compare, (*LIMIT_SETTINGS, *EXPERIMENT_SETTINGS), tables, overrides
        )

    def sweep(self, *, source: str = "experiment", **overrides: Any) -> xarray.Dataset:
        """Answer with one engine and keep the results in a store; keywords as in
        `giantstep.sweep`.
        """
        sweep = installed_verb("sweep")
        is_limit = source == "limit"
        overrides = {"source": source, **overrides}
        if is_limit:
            names = _PREDICT_SETTINGS
            table = self.limit
        else:
            names = EXPERIMENT_SETTINGS
            table = self.experiment
        return self._answer(sweep, names, table, overrides)

    def _question_settings(self) -> dict[str, Any]:
        """Return the settings of the question; those of one engine may stand in its
        table.
        """
        tables = {**self.settings, **self.limit, **self.experiment}
        return {
            name: value
            for name, value in tables.items()
            if name in self.question.settings
        }

    def _answer(
        self,
        verb: Callable[..., xarray.Dataset],
        names: Sequence[str],
        table: Any,
        overrides: dict[str, Any],
    ) -> xarray.Dataset:
        """Call a verb with the settings `names` of a table of the study, and what
        overrides them.
        """
        scenarios = overrides.pop("scenarios", self.scenario)
        what = overrides.get("what", self.what)
        same = question_name(self.scenario, what) == question_name(
            self.scenario, self.what
        )
        chosen = {name: table[name] for name in names if name in table}
        settings = {
            **(self._question_settings() if same else {}),
            **chosen,
            **overrides,
            "what": what,
        }
        grid = {
            n: value
            for n, value in dotted_names(self.grid).items()
            if n not in dotted_names(overrides)
        }
        return verb(scenarios, grid, **settings)

    @classmethod
    def read(cls, path: str | Path) -> Study:
        """Read a study from a TOML file."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise InputError(f"{path} is not a text file in UTF-8.") from None
        except OSError as error:
            raise unreadable(path, error) from None
        return cls.from_toml(text, str(path), Path(path).parent)

    @classmethod
    def from_toml(
        cls, text: str, source: str = "The text", folder: str | Path = "."
    ) -> Study:
        """Read a study from TOML text; `source` is named where it is broken, large
        arrays lie in `folder`.
        """
        return cls(
            **study_fields(with_arrays(read_toml(text, source), Path(folder)), source)
        )

    def write(self, path: str | Path) -> None:
        """Write the study to a TOML file; arrays too large for it go into .npz files
        beside it.
        """
        write_arrays(self.scenario, Path(path).parent)
        write_text(path, self.to_toml())

    def to_toml(self, *, comments: bool = False) -> str:
        """Return the study as TOML text, with the meaning of each field behind it where
        `comments` is set.
        """
        lists = [
            name
            for name, info in type(self.scenario).model_fields.items()
            if part_list(info)
        ]
        parts = {
            n: value
            for n, value in self.grid.items()
            if isinstance(value, BaseModel | Mapping) or n in lists
        }
        scenario = self.scenario.replace(parts) if parts else self.scenario
        refuse_file(scenario)
        for name, value in walk_values(scenario):
            if getattr(value, "expression", "") is None:
                which = f"is a Python callable ({value.name!r})"
                raise InputError(
                    f"Field `{name}` {which} and cannot be written to a file."
                )
        tables: dict[str, Any]
        if self.what is None:
            tables = {}
        else:
            tables = {"what": self.what}
        tables["scenario"] = with_infinity(scenario.content())
        for name in _SECTIONS:
            table = dotted_names(
                {
                    key: value
                    for key, value in getattr(self, name).items()
                    if key not in parts
                }
            )
            if table:
                tables[name] = {
                    key: _for_file(key, value) for key, value in table.items()
                }
        said = {
            f"scenario.{leaf}": info.description or ""
            for leaf, _, info in walk_fields(scenario)
        }
        return write_toml(tables, said if comments else None)


# -- Studies in TOML files: tables, dotted names, ranges; what lives in Python only is r


_RANGE = {"start", "stop", "num"}


def study_fields(content: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Return the fields of a `Study` from the tables of a file; `source` is named where
    they are broken.
    """
    check_keys("", content, ["what", "scenario", *_SECTIONS])
    for name in ("scenario", *_SECTIONS):
        if not isinstance(content.get(name, {}), dict):
            raise InputError(
                f"`{name}` must be a table, but is {name}={content[name]!r}."
            )
    if "scenario" not in content:
        raise InputError(f"{source} has no table [scenario]; it says what is studied.")
    tables: dict[str, Any] = {}
    for name in _SECTIONS:
        table = content.get(name, {})
        table = _dotted_grid(table) if name == "grid" else table
        # what has a kind is a part: a step, say
        ranges = [
            key
            for key, value in table.items()
            if isinstance(value, Mapping) and "kind" not in value
        ]
        tables[name] = {
            **table,
            **{key: expand_range(key, table[key]) for key in ranges},
        }
    return {
        "scenario": from_content(content["scenario"]),
        "what": content.get("what"),
        **tables,
    }


def check_keys(table: str, content: Mapping[str, Any], known: Sequence[str]) -> None:
    """Refuse a name that a table of a study (the study itself: "") does not have."""
    for name in content:
        if name not in known:
            where = f"the table [{table}]" if table else "a study"
            raise InputError(
                f"There is no `{name}` in {where}{nearest(name, known)}; it may have"
                f" {', '.join(known)}."
            )


def _dotted_grid(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Write ``step.rate = [1, 2]``, which TOML reads as a table in a table, as one
    dotted name.
    """
    flat: dict[str, Any] = {}
    for name, value in table.items():
        if isinstance(value, Mapping) and not {*_RANGE, "kind"} & set(value):
            flat.update(_dotted_grid(value, f"{prefix}{name}."))
        else:
            flat[prefix + name] = value
    return flat


def expand_range(name: str, table: Mapping[str, Any]) -> Floats:
    """Return the numbers of ``{ start = 0.3, stop = 5.0, num = 40, scale = "log"
    }``.
    """
    check_keys(name, table, ["start", "stop", "num", "scale"])
    missing = sorted(_RANGE - set(table))
    if missing:
        raise InputError(
            f"The range of `{name}` has no `{missing[0]}`; write {{ start = 0.3, stop ="
            " 5.0, num = 40 }."
        )
    finite = "a finite number"
    start, stop = (
        check_number(f"{name}.{end}", table[end], finite, math.isfinite)
        for end in ("start", "stop")
    )
    num = check_whole(
        f"{name}.num",
        table["num"],
        "a whole number from 1 to 10,000,000",
        1,
        10_000_000,
    )
    scale = table.get("scale", "linear")
    if scale not in ("linear", "log"):
        raise bad_field(f"{name}.scale", scale, '"linear" or "log"')
    if scale == "linear":
        return np.linspace(start, stop, num)
    for end, value in (("start", start), ("stop", stop)):
        if value <= 0:
            raise bad_field(f"{name}.{end}", value, "above 0 on a log scale")
    return np.geomspace(start, stop, num)


def _for_file(name: str, value: Any) -> Any:
    """Return a value of the grid or of the settings as a file holds it; evenly spaced
    numbers as a range.
    """
    if hasattr(value, "dims"):
        raise InputError(
            f"Field `{name}` varies over a DataArray, which cannot be written to a"
            " file."
        )
    entries = value if isinstance(value, list | tuple) else [value]
    if any(
        callable(entry) and getattr(entry, "expression", None) is None
        for entry in entries
    ):
        raise InputError(
            f"Field `{name}` has a Python callable, which cannot be written to a file."
        )
    if isinstance(value, list | tuple):
        return [getattr(entry, "expression", entry) for entry in value]
    if (
        isinstance(value, np.ndarray)
        and value.ndim == 1
        and value.dtype.kind == "f"
        and value.size > 3
    ):
        start = float(value[0])
        stop = float(value[-1])
        num = value.size
        if np.array_equal(value, np.linspace(start, stop, num)):
            return {"start": start, "stop": stop, "num": num}
        if min(start, stop) > 0 and np.array_equal(
            value, np.geomspace(start, stop, num)
        ):
            return {"start": start, "stop": stop, "num": num, "scale": "log"}
    return getattr(value, "expression", value)
