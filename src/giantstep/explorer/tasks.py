"""What a worker process does for the page: limits, experiments, exports, presets; it tells through `emit`.

Everything comes in as the tables of a study file and goes out as JSON text, so the server itself computes nothing.
"""

from __future__ import annotations

import base64
import itertools
import json
import logging
import math
import re
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from giantstep.errors import Code, GiantstepError, GiantstepWarning, InputError, bad_field

if TYPE_CHECKING:
    import xarray

    from giantstep.study import Study
    from giantstep.types import Points

_log = logging.getLogger("giantstep")

Emit = Callable[[str, str], object]
"""Takes the kind of an event and its JSON text."""

_UNSENT = ("fields", "papers", "notation", "composition", "page", "update_rule", "shared_fields", "examples")
"""What a page is not told of a family: it is in the controls and the texts that are written for it."""
_BETWEEN_DOTS = 0.2
"""Seconds between two pictures of a running experiment, at least."""
_TRIED = 40
"""Values of sliders that are tried, a millisecond each: the scenarios that pages open on have up to 30."""


def read_study(tables: Mapping[str, Any]) -> Study:
    """Return the checked study of a request."""
    from giantstep.study import Study, study_fields

    return Study(**study_fields(tables, "The request"))


@contextmanager
def remarks_of() -> Iterator[list[str]]:
    """Collect what giantstep warns about; other libraries' warnings are for their developers."""
    remarks: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", GiantstepWarning)
        yield remarks
    remarks += dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, GiantstepWarning))


def limit(emit: Emit, tables: Mapping[str, Any], variables: Sequence[str] | None, coarse: bool = False) -> None:
    """Answer with the limit: one event ``limit``; a coarse one takes what its question declares for that."""
    from giantstep.comparison import called
    from giantstep.explorer.views import shown_json
    from giantstep.result import has_classes

    start = time.process_time()  # what it costs, however busy the machine is
    study = read_study(tables)
    settings: dict[str, Any] = {
        name: setting.coarse
        for name, setting in (study.question.settings.items() if coarse else ())
        if setting.coarse is not None and name not in study.settings
    }
    loose = study.question.coarse_tolerance if coarse else None
    if loose is not None and "tolerance" not in study.limit:
        settings["tolerance"] = loose
    simplified = bool(settings)
    with remarks_of() as remarks:
        result = _predict(study, settings)
    text = shown_json(result, variables, study.scenario.family, _what(study))
    seconds = round(time.process_time() - start, 4)
    about = {"seconds": seconds, "simplified": simplified, "warnings": [] if simplified else remarks}
    about["classes"] = has_classes(result)
    about["called"] = called(result, "limit")
    emit("limit", f'{json.dumps(about)[:-1]}, "result": {text}}}')


def _predict(study: Study, settings: Mapping[str, Any]) -> xarray.Dataset:
    """Return the limit; where it exists only at a finite dimension and none is asked for, at the experiment's."""
    try:
        return study.predict(progress=False, **settings)
    except InputError as problem:
        dim = study.experiment.get("dim")
        if dim is None or "dim" in study.limit or problem.code is not Code.NEEDS_DIMENSION:
            raise
    warnings.warn(f"The limit is drawn at the dimension of the experiment, d = {dim}.", GiantstepWarning, stacklevel=2)
    return study.predict(progress=False, dim=dim, **settings)


class _Spent(Exception):
    """The time of an experiment is over; `measured` is what its trials told so far."""

    def __init__(self, measured: xarray.Dataset) -> None:
        super().__init__()
        self.measured = measured


def experiment(emit: Emit, tables: Mapping[str, Any], shown: Sequence[str], seconds: float = math.inf) -> None:
    """Answer with both engines: ``progress`` and ``dots`` while it runs, ``file`` and ``comparison`` at the end.

    After so many seconds no further trial begins: those that are done are judged, and ``spent`` is told first.

    The report speaks of the variables that are `shown`, or of those of the question where none of them was judged.

    Where the limit is refused the experiment answers alone, and nothing is judged; what is wrong it refuses as well.
    """
    from giantstep.agreements import agreement
    from giantstep.explorer.reports import agreement_html
    from giantstep.explorer.views import shown_json

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
            emit("dots", f'{{"result": {written(so_far())}}}')
            last = time.monotonic()
        if left and time.monotonic() - begun > seconds:
            raise _Spent(so_far())

    def written(result: xarray.Dataset) -> str:
        return shown_json(result, None, study.scenario.family, _what(study))

    study, report = read_study(tables), None
    with remarks_of() as remarks:
        try:
            try:
                result = study.compare(progress=progress, watch=watch)
            except _Spent as spent:
                emit("spent", "{}")
                result = study.compare(progress=False, stored=_with_trials_done(spent.measured))
            report = agreement(result).to_dict()
        except InputError:
            result = study.simulate(progress=progress)
    emit("file", json.dumps({"text": combined_csv({"": result})}))
    about = {"warnings": remarks, "agreement": report, "report": report and agreement_html(report, shown, remarks)}
    emit("comparison", f'{json.dumps(about)[:-1]}, "result": {written(result)}}}')


def _with_trials_done(measured: xarray.Dataset) -> xarray.Dataset:
    """Return an experiment without the points that the budget cut off; its trials are those of each other point."""
    done = measured["trials_done"]
    most = int(done.max())
    numbers = [name for name, data in measured.items() if data.dtype.kind in "fc" and set(done.dims) <= set(data.dims)]
    whole = {name: measured[name].where(done == most) for name in numbers if name != done.name}
    return measured.assign(whole).assign_attrs(trials=max(most, 1))


def export(
    emit: Emit,
    kind: str,
    studies: Mapping[str, Mapping[str, Any]],
    variables: Sequence[str],
    log: str,
    dots: Mapping[str, Any] | None,
) -> None:
    """Write what is shown as a text: ``toml`` (the first study), ``csv`` (limits), ``python``, ``script``.

    ``script`` is the experiment of the first study as a program that runs without giantstep.
    """
    known = {label: read_study(tables) for label, tables in studies.items()}
    first = next(iter(known.values()))
    if kind == "csv":
        with remarks_of():
            text = combined_csv({label: study.predict(progress=False) for label, study in known.items()})
    elif kind == "script":
        from giantstep.scripts import script

        asked = {name: first.experiment[name] for name in ("dim", "trials", "seed") if name in first.experiment}
        text = script(first.scenario, **asked)
    else:
        text = _written(kind, known, variables, log, None if dots is None else read_study(dots))
    emit("file", json.dumps({"text": text}))


def _written(kind: str, studies: Mapping[str, Study], variables: Sequence[str], log: str, dots: Study | None) -> str:
    """Return the first study as TOML, or all of them as Python."""
    from giantstep.arrays import large_arrays
    from giantstep.explorer.script import figure_script

    if any(True for study in studies.values() for _ in large_arrays(study.scenario)):
        raise InputError("The study holds a large array, which lies beside a file; `giantstep reproduce` writes both.")
    if kind == "toml":
        return next(iter(studies.values())).to_toml(comments=True)
    return figure_script(studies, variables, log, dots)


def picture(
    emit: Emit, kind: str, panels: Sequence[Mapping[str, Any]], title: str, about: Mapping[str, Any] | None
) -> None:
    """Draw the panels of the page into a file, in base 64: one event. `about` is what an HTML page says beside them."""
    from giantstep.explorer.picture import figure_file, html_file

    if about is None:
        content = figure_file(panels, kind, title)
    else:
        known = {label: read_study(tables) for label, tables in about["studies"].items()}
        dots = read_study(about["dots"]) if about["dots"] else None
        texts = []
        for text in ("toml", "python"):
            try:
                texts.append(_written(text, known, about["variables"], about["log"], dots))
            except InputError as problem:  # an array that no file holds: the page says so in its place
                texts.append(str(problem))
        content = html_file(panels, about, *texts)
    emit("file", json.dumps({"content": base64.b64encode(content).decode()}))


def forecast(emit: Emit, content: bytes, file: str, label: str, task: str) -> None:
    """Forecast the learning curve of a table, given as the bytes of a file: one event ``forecast``."""
    from tempfile import TemporaryDirectory

    from giantstep.datafile import ENDINGS, read_labelled
    from giantstep.explorer.views import learning_curves
    from giantstep.files import to_json
    from giantstep.forecasts.verb import forecast as ask

    ending = Path(file).suffix.lower()
    if ending not in ENDINGS:
        raise InputError(f"Data are read from {', '.join(ENDINGS)} files, but the file is called {file[-80:]!r}.")
    with TemporaryDirectory() as folder:  # readers of tables want a file; it is gone at once
        path = Path(folder) / f"table{ending}"
        path.write_bytes(content)
        table = read_labelled(path, label)
    with remarks_of() as remarks:
        result = ask(table.inputs, table.labels, task=task or "auto")
    trust = result.attrs["trust"].replace(" (se_total)", "").replace(": `groups` says which", "")  # names of Python
    about = {"warnings": remarks, "trust": trust, "csv": combined_csv({"": result}), "panels": learning_curves(result)}
    emit("forecast", f'{json.dumps(about)[:-1]}, "result": {to_json(result)}}}')


def optimum(emit: Emit, tables: Mapping[str, Any], variable: str, largest: bool) -> None:
    """Find the best point of the ranges that a study shows, one for each of the names it varies: one event."""
    import numpy as np

    from giantstep.design.optimise import optimize
    from giantstep.explorer.reports import optimum_text
    from giantstep.jsondata import json_data

    study = read_study(tables)
    lines = {name: np.asarray(values) for name, values in study.grid.items() if np.ndim(values) == 1}
    over = {
        name: (float(line.min()), float(line.max()))
        for name, line in lines.items()
        if line.dtype.kind in "fiu" and len(line) > 1 and np.isfinite(line).all()
    }
    if not over:
        raise InputError("Let a field vary between finite numbers: its range is searched.")
    rest = {name: values for name, values in study.grid.items() if name not in over}
    goal: dict[str, Any] = {"maximise" if largest else "minimise": _first_line(study, variable)}
    with remarks_of():
        best = optimize(study.scenario, rest, over=over, **goal, **_asked(study))
    fields = {name: np.atleast_1d(best[name].values).tolist() for name in over}
    values = best[variable].values.ravel().tolist()
    shown = {"variable": variable, "fields": fields, "values": values}
    said = optimum_text(next(iter(goal.values())), fields, values, largest=largest)
    emit("optimum", json.dumps(json_data({**shown, "text": str(best), "said": said}), allow_nan=False))


def sensitivities(emit: Emit, tables: Mapping[str, Any], variable: str) -> None:
    """Differentiate a variable at the scenario of a study, whatever it varies: one event."""
    from giantstep.design.sensitivity import sensitivity
    from giantstep.explorer.reports import sensitivities_html
    from giantstep.jsondata import json_data

    study = read_study(tables)
    with remarks_of():
        named = _first_line(study, variable)
        result = sensitivity(study.scenario, of=named, **_asked(study))
    columns = {name: result[name].values.tolist() for name in ("field", "at", "derivative", "elasticity")}
    shown = {
        "variable": variable,
        "named": named,
        "value": float(result[variable]),
        "remark": str(result["remark"].values),
    }
    told = json_data({**shown, **columns})
    emit("sensitivities", json.dumps({**told, "html": sensitivities_html(told)}, allow_nan=False))


def _first_line(study: Study, variable: str) -> str:
    """Return a variable as design questions name it: of several lines the first, of a trajectory its end."""
    from giantstep.dimensions import dimension_named
    from giantstep.study import predict

    dims = [dim for one in study.question.variables if one.name == variable for dim in one.dims]
    dims = [dim for dim in dims if dimension_named(dim).role != "trajectory"]
    if not dims or any(dimension_named(dim).role == "spectrum" for dim in dims):
        return variable  # a place of a spectrum must be named: the question says how
    with remarks_of():
        known = predict(study.scenario, progress=False, **_asked(study)).coords
    places = (f"{dim}={known[dim].values[0] if dim in known else 1}" for dim in dims)
    return f"{variable}[{', '.join(places)}]"


def why_no_limit(tables: Mapping[str, Any]) -> str | None:
    """Return why a study has no limit; None where it has one."""
    try:
        study, points = _checked(tables)
        study.scenario.refuse_missing(points, _what(study), study.limit.get("theory"))
    except InputError as error:
        return _said(error)
    return None


def why_refused(tables: Mapping[str, Any]) -> str | None:
    """Return why there is no such study; None where there is one."""
    try:
        _checked(tables)
    except InputError as error:
        return _said(error)
    return None


def _checked(tables: Mapping[str, Any]) -> tuple[Study, Points]:
    """Return a study with its scenario as a point, both checked."""
    import numpy as np

    study = read_study(tables)
    points = {**study.scenario.point(), "dim": np.array([np.inf])}
    study.scenario.check_points(points)
    return study, points


def controls(emit: Emit, tables: Mapping[str, Any], view: Mapping[str, Any], most: Mapping[str, int]) -> None:
    """Write the controls of a study, the stages of a network and what is shown in words: one event."""
    from giantstep.explorer.controls import controls_html
    from giantstep.explorer.fields import described, with_value
    from giantstep.explorer.stages import pipeline_html
    from giantstep.explorer.theory import theory_html

    scenario, what, tries = tables["scenario"], tables.get("what"), itertools.count()
    begun: set[str] = set()

    def refusing(changed: Mapping[str, Any]) -> tuple[bool, str]:
        asked = {"scenario": changed, "what": what}
        why = why_no_limit(asked)
        return bool(why and why_refused(asked)), why or ""

    def forbidding(name: str, value: Any) -> str | None:
        if next(tries) >= _TRIED and name not in begun:
            return None
        begun.add(name)  # a slider whose ends are being looked for is done to its end
        return why_refused({"scenario": with_value(scenario, name, value), "what": what})

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
    from giantstep.request import question_name

    return question_name(study.scenario, study.what)


def _asked(study: Study) -> dict[str, Any]:
    """Return the question of a study with the settings of its limit."""
    general = ("theory", "dim", "tolerance", "seed", *study.question.settings)
    settings = {**study.settings, **study.limit}
    return {"what": study.what, **{name: value for name, value in settings.items() if name in general}}


def combined_csv(results: Mapping[str, xarray.Dataset]) -> str:
    """Return results as the CSV that `giantstep.save` writes, several below each other with their label in front."""
    import numpy as np

    from giantstep.files import csv_text, table

    tables = {label: table(result) for label, result in results.items()}
    own = dict.fromkeys(name for columns in tables.values() for name in columns)
    names = ["study", *own] if len(tables) > 1 else list(own)
    blocks = []
    for label, columns in tables.items():
        length = len(next(iter(columns.values())))
        filled = {**dict.fromkeys(names, ""), "study": label, **columns}
        blocks.append([np.broadcast_to(np.asarray(filled[name], dtype=object), length) for name in names])
    return csv_text(dict(zip(names, map(np.concatenate, zip(*blocks)))))


def families(emit: Emit) -> None:
    """Describe every family: one event; a broken one says why."""
    from giantstep import scenario
    from giantstep.explorer.fields import described

    told = []
    for name in scenario.family_names():
        try:
            about = {key: value for key, value in described(name).items() if key not in _UNSENT}
            told.append(json.dumps(about, allow_nan=False))
        except Exception as error:  # the page shows the others
            told.append(json.dumps({"family": name, "error": f"The family {name} cannot be loaded: {error}"}))
    emit("families", f"[{', '.join(told)}]")


def presets(emit: Emit) -> None:
    """Find every preset: one event."""
    from giantstep.explorer.presets import presets as all_presets

    emit("presets", json.dumps(list(all_presets()), allow_nan=False))


_ALL = (limit, experiment, export, picture, forecast, optimum, sensitivities, controls, families, presets)
TASKS: dict[str, Callable[..., None]] = {task.__name__: task for task in _ALL}
"""What a worker can be asked for by name."""


def do_task(task: tuple[str, Mapping[str, Any]], tell: Callable[[tuple[str, str]], object]) -> None:
    """Do a task by its name and arguments; the last event is ``end``, ``refused``, or ``failed`` where it is a bug."""
    name, arguments = task

    def emit(kind: str, text: str) -> None:
        tell((kind, text))

    try:
        TASKS[name](emit, **arguments)
        emit("end", "")
    except GiantstepError as error:
        emit("refused", json.dumps(refusal(error)))
    except (MemoryError, OverflowError, RecursionError) as error:
        sentence = "This does not fit into the memory or the numbers of a worker; take smaller sizes."
        emit("refused", json.dumps({"error": sentence, "field": None}))
        _log.debug("%s: %s", type(error).__name__, error)
    except BrokenPipeError:  # nobody listens any more
        return
    except Exception as error:
        traceback.print_exc(file=sys.stderr)
        sentence = f"giantstep failed on this ({type(error).__name__}: {str(error)[:200]}); the server log has more."
        emit("failed", json.dumps({"error": sentence, "field": None}))


def refusal(error: Exception) -> dict[str, Any]:
    """Return an error as the page is told of it."""
    return {"error": _said(error), "field": error.field if isinstance(error, InputError) else None}


def _said(error: Exception) -> str:
    """Return an error in the words of the page, where a missing theory leaves the experiment.

    >>> _said(InputError("Field `steps` has no limit here: what is missing is luck. `gs.simulate` trains the network."))
    'No theory here: what is missing is luck. The experiment can still be run.'
    """
    said, cut = re.subn(r" `gs\.simulate` [^.]*\.$", " The experiment can still be run.", str(error))
    return re.sub(r"^Field `[\w.]+` has no limit here", "No theory here", said) if cut else said
