"""The HTTP interface of the explorer: a page, its data, and nothing else.

===========================  =========================================================================================
``GET  /``                   the page; its scripts and styles, those of uPlot and KaTeX among them
``GET  /opened``             the page on the file that the server was started with
``GET  /api/families``       what `giantstep.describe` says of every family, a line of JSON each
``GET  /api/presets``        the studies behind every published figure, a line of JSON each
``POST /api/limit``          the limit of a study: one line of JSON, or a coarse and a fine one
``POST /api/export/KIND``    ``toml``, ``csv``, ``python`` of what is shown; ``script``, its experiment as a program
``POST /api/picture``        the figure as ``png``, ``svg``, ``pdf``, or as an ``html`` page of its own
``POST /api/controls``       the controls of a study as HTML, the stages of a network, the theory in words
``POST /api/refusals``       which of some studies have no limit, and why
``POST /api/optimum``        the best point of the ranges that a study shows
``POST /api/sensitivities``  the derivatives of a variable at the scenario of a study
``POST /api/forecast``       the learning curve of a table, which is the body; its name and label are in the query
``POST /api/experiment``     start an experiment; ``GET .../NAME`` server-sent events, ``DELETE .../NAME`` kills it
===========================  =========================================================================================
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Awaitable
from dataclasses import replace
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from giantstep.errors import InputError, bad_field
from giantstep.explorer.bounds import (
    BUDGET,
    DOTS,
    Bounds,
    Refused,
    check_experiment,
    check_study,
    parse_body,
    whole_number,
    with_arrays,
)
from giantstep.explorer.experiments import Experiments, Feed
from giantstep.explorer.guard import Guard
from giantstep.explorer.lanes import Lane
from giantstep.explorer.limits import Limits
from giantstep.explorer.packed import Packed
from giantstep.explorer.pagefiles import MEDIA_TYPES, page_files, suffix
from giantstep.explorer.picture import KINDS
from giantstep.explorer.tasks import refusal
from giantstep.workers import usable_cores

EXPORTS = ("toml", "csv", "python", "script")
MOST_STUDIES = 8
"""Studies laid over each other."""
MOST_OFFERS = 64
"""Studies that are asked for refusals at once: every kind of every step, every question."""
_log = logging.getLogger("giantstep")
_Result = TypeVar("_Result")
_FORECAST, _PICTURE = "/api/forecast", "/api/picture"
_STARTING = 120.0
"""Seconds to describe families and to find presets."""


class Explorer:
    """A server: its workers, what it has found out, and its routes."""

    def __init__(self, port: int, bounds: Bounds | None = None, link: str = "") -> None:
        self.bounds, self.link = bounds or Bounds(), link
        self.page = page_files()
        self._lists: dict[str, Feed] = {}
        self._filling: dict[str, asyncio.Task[None]] = {}
        self._arrays: dict[str, Packed] = {}
        cores, memory = usable_cores(), self.bounds.memory
        self.quick = Lane(max(2, min(cores, 4)), memory=memory, newest_first=True)
        self.slow = Lane(2, memory=memory, niceness=3)
        self.lab = Lane(max(1, cores // 2), memory=memory, niceness=10, queue=16)
        self.limits = Limits(self.quick, self.slow, self.bounds)
        self.experiments = Experiments(self.lab)
        routes = [
            Route("/", self.file),
            Route("/page/{name:path}", self.file),
            Route("/opened", self.opened),
            Route("/api/families", self.entries),
            Route("/api/presets", self.entries),
            Route("/api/limit", self.limit, methods=["POST"]),
            Route("/api/export/{kind}", self.export, methods=["POST"]),
            Route(_PICTURE, self.picture, methods=["POST"]),
            Route("/api/controls", self.controls, methods=["POST"]),
            Route("/api/refusals", self.refusals, methods=["POST"]),
            Route("/api/optimum", self.design, methods=["POST"]),
            Route("/api/sensitivities", self.design, methods=["POST"]),
            Route(_FORECAST, self.forecast, methods=["POST"]),
            Route("/api/experiment", self.start_experiment, methods=["POST"]),
            Route("/api/experiment/{name}", self.experiment_events),
            Route("/api/experiment/{name}", self.stop_experiment, methods=["DELETE"]),
            Route("/api/experiment/{name}/csv", self.experiment_file),
        ]
        handlers: Any = dict.fromkeys((InputError, Refused, HTTPException, ClientDisconnect, Exception), _explain)
        application = Starlette(routes=routes, exception_handlers=handlers, lifespan=self.lifespan)
        self.app = Guard(
            application, port, self.bounds.body, uploads={_FORECAST: self.bounds.upload, _PICTURE: self.bounds.picture}
        )

    @contextlib.asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        """Start the lanes, and end them with the server."""
        self.slow.warm()
        self.quick.warm()
        self._list("families")
        try:
            yield
        finally:
            for task in self._filling.values():
                task.cancel()
            await asyncio.gather(*self._filling.values(), *self.experiments.close(), return_exceptions=True)
            for lane in (self.quick, self.slow, self.lab):
                await lane.close()

    # -- the page ------------------------------------------------------------------------------------------------

    async def file(self, request: Request) -> Response:
        """Return the page, a script or the style of it."""
        name = request.path_params.get("name", "index.html")
        if name not in self.page:
            raise Refused(404, {"error": "There is no such page."})
        kept = {"Cache-Control": "max-age=86400"} if name.endswith((".min.js", ".woff2")) else {}
        return Response(self.page[name], media_type=MEDIA_TYPES[suffix(name)], headers=kept)

    async def opened(self, request: Request) -> Response:
        """Lead to the page as the file shows it that the server was started with."""
        return RedirectResponse(f"/#{self.link}" if self.link else "/")

    # -- what there is -------------------------------------------------------------------------------------------

    def _list(self, what: str) -> Feed:
        """Return a list that a worker makes; it is made once, again only where that failed."""
        known = self._lists.get(what)
        if known is None or "failed" in known.last:
            self._lists[what] = known = Feed()
            self._filling[what] = asyncio.ensure_future(self._fill(known, what))
        return known

    async def _fill(self, entries: Feed, what: str) -> None:
        """Keep what a worker tells; arrays go aside, a failure is the last entry."""
        try:
            async with contextlib.aclosing(self.slow.events(what, {}, _STARTING)) as events:
                async for kind, text in events:
                    if kind == "arrays":
                        self._arrays.update((name, Packed(**told)) for name, told in json.loads(text).items())
                    else:
                        entries.tell(kind, text, key=len(entries.last))
        except Refused as problem:
            entries.tell("failed", json.dumps({"stage": "failed", **problem.message}))
        except Exception:
            _log.exception("The list of %s could not be made.", what)
            entries.tell("failed", json.dumps({"stage": "failed", "error": f"The list of {what} could not be made."}))
        finally:
            entries.end()

    async def entries(self, request: Request) -> Response:
        """Return the families or the presets, as lines of JSON."""
        entries = self._list(request.url.path.removeprefix("/api/"))
        lines = ("".join(f"{text}\n" for _, text in news) async for news in entries.listen())
        return StreamingResponse(lines, media_type="application/x-ndjson")

    def _study(self, data: dict[str, Any]) -> dict[str, Any]:
        """Return the study of a request, within bounds; large arrays are those of presets, by name."""
        study = check_study(data, self.bounds)
        return {**study, "scenario": with_arrays(study.get("scenario", {}), self._arrays)}

    # -- answers -------------------------------------------------------------------------------------------------

    async def limit(self, request: Request) -> Response:
        """Answer a study with its limit, as lines of JSON."""
        data = parse_body(await request.body(), self.bounds)
        study, variables = self._study(data), _variables(data)
        curve = f"{_client(request, data)} {whole_number(data, 'curve', 0, 0, MOST_STUDIES)}"
        wish = whole_number(data, "wish", 0, 0, 2**53) if "wish" in data else None
        answers = self.limits.answers(study, variables, curve, wish)
        first = await _unless_gone(request, anext(answers))

        async def lines() -> AsyncIterator[str]:
            async with contextlib.aclosing(answers):
                yield f"{first}\n"
                try:
                    async for text in answers:
                        yield f"{text}\n"
                except Refused as problem:  # the first line is out already
                    yield json.dumps({"stage": "failed", "last": True, **problem.message}) + "\n"

        return StreamingResponse(lines(), media_type="application/x-ndjson")

    async def export(self, request: Request) -> Response:
        """Return what is shown as a file."""
        kind = request.path_params["kind"]
        if kind not in EXPORTS:
            raise Refused(404, {"error": f"There is no export {kind[:40]!r}; there are {', '.join(EXPORTS)}."})
        data = parse_body(await request.body(), self.bounds)
        studies, view = _studies(data, MOST_STUDIES), data.get("view", {})
        if not isinstance(view, dict):
            raise InputError("`view` must be a table.")
        labels, dots = view.get("labels"), view.get("dots")
        if not isinstance(labels, list) or len(set(map(str, labels))) != len(studies):
            labels = [f"curve {number + 1}" for number in range(len(studies))]
        arguments = {
            "kind": kind,
            "studies": {str(label): self._study({"study": study}) for label, study in zip(labels, studies)},
            "variables": _variables(view) or [],
            "log": _log_axes(view),
            "dots": None if dots is None else self._study({"study": {**studies[0], "grid": dots}}),
        }
        answer = self.slow.answer("export", arguments, self.bounds.limit_seconds)
        return Response(json.loads(await _unless_gone(request, answer))["text"], media_type="text/plain")

    async def picture(self, request: Request) -> Response:
        """Return the figure that the page sends, as a file."""
        bounds = replace(self.bounds, body=self.bounds.picture, depth=16)
        data = parse_body(await request.body(), bounds)
        kind, panels, about = data.get("kind"), data.get("panels"), data.get("about")
        if kind not in KINDS:
            raise bad_field("kind", kind, f"one of {', '.join(KINDS)}")
        if not isinstance(panels, list) or not all(isinstance(panel, dict) for panel in panels):
            raise InputError("`panels` must be a list of tables.")
        if (kind == "html") != isinstance(about, dict):
            raise InputError("`about` must be a table where a page is written, and is left out elsewhere.")
        if about is not None:
            studies = _studies(about, MOST_STUDIES)
            named = {f"curve {number + 1}": self._study({"study": study}) for number, study in enumerate(studies)}
            state, dots = about.get("state"), about.get("dots")
            about = {**about, "studies": named, "state": state if isinstance(state, dict) else {}}
            about["dots"] = self._study({"study": {**studies[0], "grid": dots}}) if isinstance(dots, dict) else None
            about |= {"variables": _variables(about) or [], "log": _log_axes(about)}
        arguments = {"kind": kind, "panels": panels, "title": str(data.get("title", "")), "about": about}
        answer = self.slow.answer("picture", arguments, self.bounds.limit_seconds)
        content = base64.b64decode(json.loads(await _unless_gone(request, answer))["content"])
        return Response(content, media_type=KINDS[kind])

    async def controls(self, request: Request) -> Response:
        """Answer a study with its controls."""
        data = parse_body(await request.body(), self.bounds)
        study, bounds = check_study(data, self.bounds), self.bounds
        most = {"dim": bounds.dim, "trials": bounds.trials, "dots": bounds.dots, "budget": int(bounds.budget_seconds)}
        paper, log = data.get("paper", ""), data.get("log", "")
        view = {
            "variables": _variables(data) or [],
            "log": log if isinstance(log, str) else "",
            "paper": paper if isinstance(paper, str) else "",
            "dots": whole_number(data, "dots", DOTS, 1, bounds.dots),
            "budget": whole_number(data, "budget", BUDGET, 1, most["budget"]),
        }
        scenario = with_arrays(study.get("scenario", {}), self._arrays)
        arguments = {"tables": {"scenario": {}, **study}, "view": view, "most": most, "scenario": scenario}
        answer = self.quick.answer("controls", arguments, bounds.limit_seconds)
        return Response(await _unless_gone(request, answer), media_type="application/json")

    async def refusals(self, request: Request) -> Response:
        """Answer which studies have no limit, and why: what the page cannot offer."""
        data = parse_body(await request.body(), self.bounds)
        studies = [self._study({"study": study}) for study in _studies(data, MOST_OFFERS)]
        answer = self.quick.answer("refusals", {"studies": studies}, self.bounds.limit_seconds)
        return Response(await _unless_gone(request, answer), media_type="application/json")

    async def design(self, request: Request) -> Response:
        """Answer where a variable is best, or what it depends on."""
        task = request.url.path.removeprefix("/api/")
        data = parse_body(await request.body(), self.bounds)
        arguments: dict[str, Any] = {"tables": self._study(data), "variable": data.get("variable")}
        if not isinstance(arguments["variable"], str):
            raise bad_field("variable", arguments["variable"], "the name of a variable")
        if task == "optimum":
            arguments["largest"] = data.get("largest") is True
        answer = self.slow.answer(task, arguments, self.bounds.limit_seconds)
        return Response(await _unless_gone(request, answer), media_type="application/json")

    async def forecast(self, request: Request) -> Response:
        """Answer a table of features and labels with its learning curve."""
        asked = {name: request.query_params.get(name, "")[: self.bounds.text] for name in ("file", "label", "task")}
        arguments = {"content": await request.body(), **asked}
        answer = self.slow.answer("forecast", arguments, self.bounds.forecast_seconds)
        return Response(await _unless_gone(request, answer), media_type="application/json")

    # -- experiments ---------------------------------------------------------------------------------------------

    async def start_experiment(self, request: Request) -> Response:
        """Start an experiment and return its name."""
        data = parse_body(await request.body(), self.bounds)
        study = self._study(data)
        dots = whole_number(data, "dots", DOTS, 1, self.bounds.dots)
        budget = whole_number(data, "budget", BUDGET, 1, int(self.bounds.budget_seconds))
        tables = check_experiment(study, dots, self.bounds)
        arguments = {"tables": tables, "shown": _variables(data) or []}
        experiment = self.experiments.start(_client(request, data), arguments, budget)
        return JSONResponse({"name": experiment.name, "grid": tables["grid"]}, status_code=202)

    async def experiment_events(self, request: Request) -> Response:
        """Return the events of an experiment as they come."""
        experiment = self.experiments.find(request.path_params["name"])

        async def stream() -> AsyncIterator[str]:
            async with contextlib.aclosing(experiment.listen()) as events:
                async for news in events:  # what is a file is asked for by itself
                    yield "".join(f"event: {kind}\ndata: {text}\n\n" for kind, text in news if kind != "file")

        return StreamingResponse(stream(), media_type="text/event-stream")

    async def experiment_file(self, request: Request) -> Response:
        """Return a finished comparison as CSV."""
        return Response(self.experiments.find(request.path_params["name"]).file(), media_type="text/csv")

    async def stop_experiment(self, request: Request) -> Response:
        """Kill an experiment."""
        self.experiments.find(request.path_params["name"]).stop("cancelled")
        return JSONResponse({})


async def _gone(request: Request) -> None:
    """Wait until a client that has said everything is gone."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _unless_gone(request: Request, answer: Awaitable[_Result]) -> _Result:
    """Return an answer; where the client leaves before it is there, end the work."""
    working, leaving = asyncio.ensure_future(answer), asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait([working, leaving], return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.wait([working, leaving])


def _client(request: Request, data: dict[str, Any]) -> str:
    """Return who asks: a name the page made up, so that its own older requests can be dropped."""
    client = data.get("client", "")
    if not isinstance(client, str) or len(client) > 64:
        raise bad_field("client", client, "a text of at most 64 characters")
    return client or (request.client.host if request.client else "")


def _studies(data: dict[str, Any], most: int) -> list[dict[str, Any]]:
    studies = data.get("studies")
    if not isinstance(studies, list) or not 0 < len(studies) <= most:
        raise InputError(f"`studies` must be a list of 1 to {most} studies.")
    if not all(isinstance(study, dict) for study in studies):
        raise InputError("Every one of `studies` must be a table.")
    return studies


def _log_axes(view: dict[str, Any]) -> str:
    log = view.get("log", "")
    if log not in ("", "x", "y", "xy"):
        raise bad_field("log", log, '"", "x", "y" or "xy"')
    return str(log)


def _variables(data: dict[str, Any]) -> list[str] | None:
    variables = data.get("variables")
    if variables is None:
        return None
    if not isinstance(variables, list) or not all(isinstance(name, str) for name in variables):
        raise bad_field("variables", variables, "a list of names")
    return variables[:32]


async def _explain(request: Request, error: Exception) -> Response:
    """Say in one sentence what went wrong."""
    if isinstance(error, InputError):
        return JSONResponse(refusal(error), status_code=400)
    if isinstance(error, Refused):
        return JSONResponse(error.message, status_code=error.status)
    if isinstance(error, HTTPException):
        sentence = f"There is nothing here for {request.method} ({error.detail.lower()})."
        return JSONResponse({"error": sentence}, status_code=error.status_code, headers=error.headers)
    if isinstance(error, ClientDisconnect):
        return Response(status_code=400)
    return JSONResponse({"error": "The server failed on this request; its log says more."}, status_code=500)
