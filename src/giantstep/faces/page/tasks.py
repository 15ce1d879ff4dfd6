"""What a worker process does for the page: limits, experiments, exports, presets; it
tells through `emit`.

Everything comes in as the tables of a study file and goes out as JSON text, so the
server itself computes nothing.
"""

from __future__ import annotations

import base64
import itertools
import json
import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep.core.base.errors import Code, GiantstepWarning, InputError, bad_field
from giantstep.core.base.jsondata import json_data
from giantstep.core.result.agreement import agreement
from giantstep.core.result.columns import csv_text, table
from giantstep.core.result.files import plain_data
from giantstep.core.result.layers import called
from giantstep.core.result.provenance import has_classes
from giantstep.core.run.request import question_name
from giantstep.core.run.study import Study
from giantstep.core.run.verbs import predict
from giantstep.core.scenario.arrays import large_arrays
from giantstep.core.scenario.dimensions import dimension_named
from giantstep.core.scenario.families import family_names
from giantstep.faces.page.bounds import said
from giantstep.faces.page.controls import controls_html
from giantstep.faces.page.fields import described, with_value
from giantstep.faces.page.page_file import html_file
from giantstep.faces.page.picture import figure_file
from giantstep.faces.page.presets import presets as all_presets
from giantstep.faces.page.reports import (
    agreement_html,
    optimum_text,
    sensitivities_html,
)
from giantstep.faces.page.stages import pipeline_html
from giantstep.faces.page.studies import read_study
from giantstep.faces.page.theory import theory_html
from giantstep.faces.page.views import learning_curves, shown_data
from giantstep.tools.data.datafile import ENDINGS, read_labelled
from giantstep.tools.data.forecasts.verb import forecast as forecast_table
from giantstep.tools.design.optimise import optimize
from giantstep.tools.design.sensitivity import sensitivity
from giantstep.tools.scripts import script

if TYPE_CHECKING:
    import xarray

Emit = Callable[[str, str], object]
"""Takes the kind of an event and its JSON text."""

_UNSENT = (
    "fields",
    "papers",
    "notation",
    "composition",
    "page",
    "update_rule",
    "shared_fields",
    "examples",
)
"""What a page is not told of a family: it is in the controls and the texts that are
written for it.
"""
_BETWEEN_DOTS = 0.2
"""Seconds between two pictures of a running experiment, at least."""
_TRIED = 40
"""Values of sliders that are tried, a millisecond each: the scenarios that pages open
on have up to 30.
"""


@contextmanager
def remarks_of() -> Iterator[list[str]]:
    """Collect what giantstep warns about; other libraries' warnings are for their
    developers.
    """
    remarks: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", GiantstepWarning)
        yield remarks
    remarks += dict.fromkeys(
        str(w.message) for w in caught if issubclass(w.category, GiantstepWarning)
    )


def limit(
    emit: Emit,
    tables: Mapping[str, Any],
    variables: Sequence[str] | None,
    coarse: bool = False,
) -> None:
    """Answer with the limit: one event ``limit``; a coarse one takes what its question
    declares for that.
    """
    start = time.process_time()  # what it costs, however busy the machine is
    study = read_study(tables)
    settings: dict[str, Any] = {}
    if coarse:
        settings = _coarse_settings(study)
    with remarks_of() as remarks:
        result = _predict(study, settings)
    if settings:
        remarks.clear()  # they speak of a limit that nobody keeps
    shown = shown_data(result, variables, study.scenario.family, _what(study))
    # the server reads the first two without the others (`limits._HEAD`)
    answer = {
        "seconds": round(time.process_time() - start, 4),
        "simplified": bool(settings),
        "warnings": remarks,
        "classes": has_classes(result),
        "called": called(result, "limit"),
        "result": shown,
    }
    emit("limit", json.dumps(answer, allow_nan=False))


def _coarse_settings(study: Study) -> dict[str, Any]:
    """Return what a question declares for a first, rough answer, where the study says
    nothing else.
    """
    declared = {
        name: setting.coarse
        for name, setting in study.question.settings.items()
        if name not in study.settings
    }
    if "tolerance" not in study.limit:
        declared["tolerance"] = study.question.coarse_tolerance
    return {name: value for name, value in declared.items() if value is not None}


def _predict(study: Study, settings: Mapping[str, Any]) -> xarray.Dataset:
    """Return the limit; where it exists only at a finite dimension and none is asked
    for, at the experiment's.
    """
    try:
        return study.predict(progress=False, **settings)
    except InputError as problem:
        dim = study.experiment.get("dim")
        if (
            dim is None
            or "dim" in study.limit
            or problem.code is not Code.NEEDS_DIMENSION
        ):
            raise
    warnings.warn(
        f"The limit is drawn at the dimension of the experiment, d = {dim}.",
        GiantstepWarning,
        stacklevel=2,
    )
    return study.predict(progress=False, dim=dim, **settings)


class _Spent(Exception):
    """The time of an experiment is over; it carries what its trials told so far."""


def experiment(
    emit: Emit,
    tables: Mapping[str, Any],
    shown: Sequence[str],
    seconds: float = math.inf,
) -> None:
    """Answer with both engines: ``progress`` and ``dots`` while it runs, ``file`` and
    ``comparison`` at the end.

    After so many seconds no further trial begins: those that are done are judged, and
    ``spent`` is told first. The report speaks of the variables that are `shown`, or of
    those of the question where none of them was judged. Where the limit is refused the
    experiment answers alone, and nothing is judged; what is wrong it refuses as well.
    """
    last = begun = time.monotonic()
    left = True

    def progress(done: int, total: int, text: str) -> None:
        nonlocal left
        if text == "trials":
            left = done < total
            emit("progress", json.dumps({"done": done, "total": total}))

    def watch(so_far: Callable[[], xarray.Dataset]) -> None:
        nonlocal last
        if time.monotonic() - last > _BETWEEN_DOTS:
            emit("dots", json.dumps({"result": data_of(so_far())}, allow_nan=False))
            last = time.monotonic()
        if left and time.monotonic() - begun > seconds:
            raise _Spent(so_far())

    def data_of(result: xarray.Dataset) -> dict[str, Any]:
        return shown_data(result, None, study.scenario.family, _what(study))

    study = read_study(tables)
    report: dict[str, Any] | None = None
    with remarks_of() as remarks:
        try:
            try:
                result = study.compare(progress=progress, watch=watch)
            except _Spent as spent:
                emit("spent", "{}")
                result = study.compare(
                    progress=False, stored=_with_trials_done(spent.args[0])
                )
            report = agreement(result).to_dict()
        except InputError:
            result = study.simulate(progress=progress)
    emit("file", json.dumps({"text": combined_csv({"": result})}))
    text = None
    if report is not None:
        text = agreement_html(report, shown, remarks)
    answer = {
        "warnings": remarks,
        "agreement": json_data(report),
        "report": text,
        "result": data_of(result),
    }
    emit("comparison", json.dumps(answer, allow_nan=False))


def _with_trials_done(measured: xarray.Dataset) -> xarray.Dataset:
    """Return an experiment without the points that the budget cut off; its trials are
    those of each other point.
    """
    done = measured["trials_done"]
    most = int(done.max())
    numbers = [
        name
        for name, data in measured.items()
        if data.dtype.kind in "fc" and set(done.dims) <= set(data.dims)
    ]
    whole = {
        name: measured[name].where(done == most)
        for name in numbers
        if name != done.name
    }
    return measured.assign(whole).assign_attrs(trials=max(most, 1))


def export(
    emit: Emit,
    kind: str,
    studies: Mapping[str, Any],
    variables: Sequence[str],
    log: str,
    dots: Mapping[str, Any] | None,
) -> None:
    """Write what is shown as ``toml``, ``csv``, ``python``, or a ``script`` without
    giantstep: one event.
    """
    known = {label: read_study(tables) for label, tables in studies.items()}
    first = next(iter(known.values()))
    if kind == "csv":
        with remarks_of():
            text = combined_csv(
                {label: study.predict(progress=False) for label, study in known.items()}
            )
    elif kind == "script":
        asked = {
            name: first.experiment[name]
            for name in ("dim", "trials", "seed")
            if name in first.experiment
        }
        text = script(first.scenario, **asked)
    else:
        measured = None
        if dots is not None:
            measured = read_study(dots)
        text = _written(kind, known, variables, log, measured)
    emit("file", json.dumps({"text": text}))


_LINES = '''"""A figure of the giantstep explorer."""

import giantstep as gs
from matplotlib import pyplot as plt

studies = {{
{studies}
}}
variables = {variables!r}
figure, panels = plt.subplots(1, len(variables), figsize=(5.6 * len(variables), 4), squeeze=False)
for label, study in studies.items():
    result = study.predict()
    for panel, name in zip(panels[0], variables):
        gs.plot(result, name, axes=panel, log={log!r})
'''  # noqa: E501
_DOTS = """dots = gs.Study.from_toml({study}).compare()
for panel, name in zip(panels[0], variables):
    gs.plot(dots.sel(source=['experiment']), name, axes=panel, log={log!r})
print(gs.agreement(dots))
"""
"""The figure of the page as the Python that makes it, and what draws its dots."""


def _written(
    kind: str,
    studies: Mapping[str, Study],
    variables: Sequence[str],
    log: str,
    dots: Study | None,
) -> str:
    """Return the first study as TOML, or Python that draws variables of all of them
    into ``figure.png``.

    Each variable (the question's own choice, if none) has a panel; studies are lines by
    their labels, the experiment of `dots` stands over them.
    """
    if any(True for study in studies.values() for _ in large_arrays(study.scenario)):
        raise InputError(
            "The study holds a large array, which lies beside a file; `giantstep"
            " reproduce` writes both."
        )
    first = next(iter(studies.values()))
    if kind == "toml":
        return first.to_toml(comments=True)
    shown = list(variables) or list(
        first.question.plot or (first.question.variables[0].name,)
    )
    lines = [
        f"    {label!r}: gs.Study.from_toml({_quoted(study.to_toml())}),"
        for label, study in studies.items()
    ]
    text = _LINES.format(studies="\n".join(lines), variables=shown, log=log)
    if dots is not None:
        text += _DOTS.format(study=_quoted(dots.to_toml()), log=log)
    return text + 'figure.savefig("figure.png", dpi=200)\n'


def _quoted(text: str) -> str:
    """Write a text as a Python literal, over several lines where nothing in it forbids
    that.
    """
    if '"""' in text or "\\" in text:
        return repr(text)
    return f'"""\n{text}"""'


def picture(
    emit: Emit,
    kind: str,
    panels: Sequence[Mapping[str, Any]],
    title: str,
    about: Mapping[str, Any] | None,
) -> None:
    """Draw the panels of the page into a file, in base 64: one event. `about` is what
    an HTML page says beside them.
    """
    if about is None:
        content = figure_file(panels, kind, title)
    else:
        known = {
            label: read_study(tables) for label, tables in about["studies"].items()
        }
        dots = read_study(about["dots"]) if about["dots"] else None
        texts = []
        for text in ("toml", "python"):
            try:
                texts.append(
                    _written(text, known, about["variables"], about["log"], dots)
                )
            except (
                InputError
            ) as problem:  # an array that no file holds: the page says so in its place
                texts.append(str(problem))
        content = html_file(panels, about, *texts)
    emit("file", json.dumps({"content": base64.b64encode(content).decode()}))


def forecast(emit: Emit, content: bytes, file: str, label: str, task: str) -> None:
    """Forecast the learning curve of a table, given as the bytes of a file: one event
    ``forecast``.
    """
    ending = Path(file).suffix.lower()
    if ending not in ENDINGS:
        raise InputError(
            f"Data are read from {', '.join(ENDINGS)} files, but the file is called"
            f" {file[-80:]!r}."
        )
    with (
        TemporaryDirectory() as folder
    ):  # readers of tables want a file; it is gone at once
        path = Path(folder) / f"table{ending}"
        path.write_bytes(content)
        table = read_labelled(path, label)
    with remarks_of() as remarks:
        result = forecast_table(table.inputs, table.labels, task=task or "auto")
    # names of Python
    trust = (
        result.attrs["trust"]
        .replace(" (se_total)", "")
        .replace(": `groups` says which", "")
    )
    answer = {
        "warnings": remarks,
        "trust": trust,
        "csv": combined_csv({"": result}),
        "panels": learning_curves(result),
        "result": plain_data(result),
    }
    emit("forecast", json.dumps(answer, allow_nan=False))


def optimum(
    emit: Emit, tables: Mapping[str, Any], variable: str, largest: bool
) -> None:
    """Find the best point of the ranges that a study shows, one for each of the names
    it varies: one event.
    """
    study = read_study(tables)
    lines = {
        name: np.asarray(values)
        for name, values in study.grid.items()
        if np.ndim(values) == 1
    }
    over = {
        name: (float(line.min()), float(line.max()))
        for name, line in lines.items()
        if line.dtype.kind in "fiu" and len(line) > 1 and np.isfinite(line).all()
    }
    if not over:
        raise InputError(
            "Let a field vary between finite numbers: its range is searched."
        )
    rest = {name: values for name, values in study.grid.items() if name not in over}
    direction = "minimise"
    if largest:
        direction = "maximise"
    goal: dict[str, Any] = {direction: _first_line(study, variable)}
    with remarks_of():
        best = optimize(study.scenario, rest, over=over, **goal, **_asked(study))
    fields = {name: np.atleast_1d(best[name].values).tolist() for name in over}
    values = best[variable].values.ravel().tolist()
    shown = {"variable": variable, "fields": fields, "values": values}
    said = optimum_text(next(iter(goal.values())), fields, values, largest=largest)
    emit(
        "optimum",
        json.dumps(
            json_data({**shown, "text": str(best), "said": said}), allow_nan=False
        ),
    )


def sensitivities(emit: Emit, tables: Mapping[str, Any], variable: str) -> None:
    """Differentiate a variable at the scenario of a study, whatever it varies: one
    event.
    """
    study = read_study(tables)
    with remarks_of():
        named = _first_line(study, variable)
        result = sensitivity(study.scenario, of=named, **_asked(study))
    columns = {
        name: result[name].values.tolist()
        for name in ("field", "at", "derivative", "elasticity")
    }
    about = {"variable": variable, "named": named, "value": float(result[variable])}
    told = json_data({**about, "remark": str(result["remark"].values), **columns})
    emit(
        "sensitivities",
        json.dumps({**told, "html": sensitivities_html(told)}, allow_nan=False),
    )


def _first_line(study: Study, variable: str) -> str:
    """Return a variable as design questions name it: of several lines the first, of a
    trajectory its end.
    """
    dims = [
        dim
        for one in study.question.variables
        if one.name == variable
        for dim in one.dims
    ]
    dims = [dim for dim in dims if dimension_named(dim).role != "trajectory"]
    if not dims or any(dimension_named(dim).role == "spectrum" for dim in dims):
        return variable  # a place of a spectrum must be named: the question says how
    with remarks_of():
        known = predict(study.scenario, progress=False, **_asked(study)).coords
    places = (f"{dim}={known[dim].values[0] if dim in known else 1}" for dim in dims)
    return f"{variable}[{', '.join(places)}]"


def why_refused(tables: Mapping[str, Any], of_limit: bool = False) -> str | None:
    """Return why there is no such study, or no limit of it; None where there is one."""
    try:
        study = read_study(tables)
        points = {**study.scenario.point(), "dim": np.array([np.inf])}
        study.scenario.check_points(points)
        if of_limit:
            study.scenario.refuse_missing(
                points, _what(study), study.limit.get("theory")
            )
    except InputError as error:
        return said(error)
    return None


def controls(
    emit: Emit,
    tables: Mapping[str, Any],
    view: Mapping[str, Any],
    most: Mapping[str, int],
) -> None:
    """Write the controls of a study, the stages of a network and what is shown in
    words: one event.
    """
    scenario, what, tries = tables["scenario"], tables.get("what"), itertools.count()
    begun: set[str] = set()

    def refusing(changed: Mapping[str, Any]) -> tuple[bool, str]:
        asked = {"scenario": changed, "what": what}
        why = why_refused(asked, of_limit=True)
        return bool(why and why_refused(asked)), why or ""

    def forbidding(name: str, value: Any) -> str | None:
        if next(tries) >= _TRIED and name not in begun:
            return None
        begun.add(name)  # a slider whose ends are being looked for is done to its end
        return why_refused(
            {"scenario": with_value(scenario, name, value), "what": what}
        )

    about = described(str(scenario.get("family")))
    if what not in list(about["questions"]):  # it may be no text at all
        raise bad_field("what", what, f"one of {', '.join(about['questions'])}")
    made = {
        "controls": controls_html(about, tables, view, most, forbidding),
        "pipeline": pipeline_html(about, scenario, refusing),
        "theory": theory_html(about, tables, view["variables"], view["paper"]),
    }
    emit("controls", json.dumps(made))


def _what(study: Study) -> str:
    """Return the question of a study by its name."""
    return question_name(study.scenario, study.what)


def _asked(study: Study) -> dict[str, Any]:
    """Return the question of a study with the settings of its limit."""
    general = ("theory", "dim", "tolerance", "seed", *study.question.settings)
    settings = {**study.settings, **study.limit}
    return {
        "what": study.what,
        **{name: value for name, value in settings.items() if name in general},
    }


def combined_csv(results: Mapping[str, xarray.Dataset]) -> str:
    """Return results as the CSV that `giantstep.save` writes, several below each other
    with their label in front.
    """
    tables = {label: table(result) for label, result in results.items()}
    names = list(dict.fromkeys(name for columns in tables.values() for name in columns))
    names = ["study", *names] if len(tables) > 1 else names
    blocks = []
    for label, columns in tables.items():
        length = len(next(iter(columns.values())))
        filled = {**dict.fromkeys(names, ""), "study": label, **columns}
        blocks.append(
            [
                np.broadcast_to(np.asarray(filled[name], dtype=object), length)
                for name in names
            ]
        )
    return csv_text(dict(zip(names, map(np.concatenate, zip(*blocks)))))


def families(emit: Emit) -> None:
    """Describe every family: one event; a broken one says why."""
    descriptions = [_description(name) for name in family_names()]
    emit("families", json.dumps(descriptions, allow_nan=False))


def _description(family: str) -> dict[str, Any]:
    """Return what the page is told of a family, or why there is nothing to tell: the
    page shows the others.
    """
    try:
        about = {
            key: value for key, value in described(family).items() if key not in _UNSENT
        }
        # what JSON cannot hold is the fault of this family alone
        json.dumps(about, allow_nan=False)
    except Exception as error:
        reason = f"The family {family} cannot be loaded: {error}"
        return {"family": family, "error": reason}
    return about


def presets(emit: Emit) -> None:
    """Find every preset: one event."""
    emit("presets", json.dumps(list(all_presets()), allow_nan=False))


_ALL = (
    limit,
    experiment,
    export,
    picture,
    forecast,
    optimum,
    sensitivities,
    controls,
    families,
    presets,
)
TASKS: dict[str, Callable[..., None]] = {task.__name__: task for task in _ALL}
"""What a worker can be asked for by name."""
