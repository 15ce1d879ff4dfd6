"""The HTTP interface of the explorer: a page, its data, and nothing else.

===========================  =========================================================================================
``GET  /``                   the page; its scripts and styles, those of uPlot and KaTeX among them
``GET  /opened``             the page on the file that the server was started with
``GET  /api/families``       what `giantstep.core.scenario.describe` says of every family
``GET  /api/presets``        the studies behind every published figure
``POST /api/limit``          the limit of a study: one line of JSON, or a coarse and a fine one
``POST /api/export/KIND``    ``toml``, ``csv``, ``python`` of what is shown; ``script``, its experiment as a program
``POST /api/picture``        the figure as ``png``, ``svg``, ``pdf``, or as an ``html`` page of its own
``POST /api/controls``       the controls of a study as HTML, the stages of a network, the theory in words
``POST /api/optimum``        the best point of the ranges that a study shows
``POST /api/sensitivities``  the derivatives of a variable at the scenario of a study
``POST /api/forecast``       the learning curve of a table, which is the body; its name and label are in the query
``POST /api/experiment``     start an experiment; ``GET .../NAME`` server-sent events, ``DELETE .../NAME`` kills it
===========================  =========================================================================================
"""  # noqa: E501

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import mimetypes
from collections.abc import AsyncIterator, Awaitable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import (
    FileResponse,
    HTMLResponse,
    JSONResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from giantstep.core.base.errors import InputError, bad_field
from giantstep.faces.page import bounds as within
from giantstep.faces.page.bounds import (
    Bounds,
    Refused,
    check_study,
    parse_body,
    whole_number,
)
from giantstep.faces.page.experiments import Experiments
from giantstep.faces.page.guard import Guard
from giantstep.faces.page.lanes import Lane, unless
from giantstep.faces.page.limits import Limits
from giantstep.faces.page.markup import Html, joined, tag
from giantstep.tools.sweeps.workers import usable_cores

EXPORTS = ("toml", "csv", "python", "script")
MOST_STUDIES = 8
"""Studies laid over each other."""
PAGE = Path(__file__).parent / "browser"
"""The files of the page; nothing else is ever read from disk."""
_Result = TypeVar("_Result")
_FORECAST = "/api/forecast"
_PICTURE = "/api/picture"
KINDS = {
    "png": "image/png",
    "svg": "image/svg+xml",
    "pdf": "application/pdf",
    "html": "text/html",
}
"""What the figure can be written as, with its type."""
_STARTING = 120.0
"""Seconds to describe families and to find presets."""
# some systems call it plain text, which no browser runs
mimetypes.add_type("text/javascript", ".js")


class Explorer:
    """A server: its workers, what it has found out, and its routes."""

    def __init__(self, port: int, bounds: Bounds | None = None, link: str = "") -> None:
        self.bounds = bounds or Bounds()
        self.link = link
        self._lists: dict[str, asyncio.Task[str]] = {}
        cores = usable_cores()
        memory = self.bounds.memory
        self.quick = Lane(max(2, min(cores, 4)), memory=memory, newest_first=True)
        self.slow = Lane(2, memory=memory, niceness=3)
        self.lab = Lane(max(1, cores // 2), memory=memory, niceness=10, queue=16)
        self.limits = Limits(self.quick, self.slow, self.bounds)
        self.experiments = Experiments(self.lab)
        posted = {
            "/api/limit": self.limit,
            "/api/export/{kind}": self.export,
            _PICTURE: self.picture,
            "/api/controls": self.controls,
            **dict.fromkeys(("/api/optimum", "/api/sensitivities"), self.design),
            _FORECAST: self.forecast,
            "/api/experiment": self.start_experiment,
        }
        routes = [
            Route("/", self.front),
            Mount("/page", StaticFiles(directory=PAGE)),
            Route("/opened", self.opened),
            *(Route(f"/api/{what}", self.entries) for what in ("families", "presets")),
            *(Route(path, answer, methods=["POST"]) for path, answer in posted.items()),
            Route("/api/experiment/{name}", self.experiment_events),
            Route("/api/experiment/{name}", self.stop_experiment, methods=["DELETE"]),
            Route("/api/experiment/{name}/csv", self.experiment_file),
        ]
        handlers: Any = dict.fromkeys(
            (InputError, Refused, HTTPException, ClientDisconnect, Exception), _explain
        )
        application = Starlette(
            routes=routes, exception_handlers=handlers, lifespan=self.lifespan
        )
        self.app = Guard(
            application,
            port,
            self.bounds.body,
            uploads={_FORECAST: self.bounds.upload, _PICTURE: self.bounds.picture},
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
            for task in self._lists.values():
                task.cancel()
            await asyncio.gather(
                *self._lists.values(), *self.experiments.close(), return_exceptions=True
            )
            for lane in (self.quick, self.slow, self.lab):
                await lane.close()

    # -- the page ----------------------------------------------------------------------

    async def front(self, request: Request) -> Response:
        """Return the page; its scripts and styles lie beside it."""
        return FileResponse(PAGE / "index.html")

    async def opened(self, request: Request) -> Response:
        """Lead to the page as the file shows it that the server was started with."""
        return RedirectResponse(f"/#{self.link}" if self.link else "/")

    # -- what there is -----------------------------------------------------------------

    def _list(self, what: str) -> asyncio.Task[str]:
        """Return a list that a worker makes; it is made once, again only where that
        failed.
        """
        known = self._lists.get(what)
        if known is None or (known.done() and known.exception()):
            self._lists[what] = known = asyncio.ensure_future(
                self.slow.answer(what, {}, _STARTING)
            )
        return known

    async def entries(self, request: Request) -> Response:
        """Return the families or the presets."""
        return _json(
            await asyncio.shield(self._list(request.url.path.removeprefix("/api/")))
        )

    # -- answers -----------------------------------------------------------------------

    async def limit(self, request: Request) -> Response:
        """Answer a study with its limit, as lines of JSON."""
        data = await self._body(request)
        study = check_study(data, self.bounds)
        variables = _variables(data)
        curve = (
            f"{_client(request, data)}"
            f" {whole_number(data, 'curve', 0, 0, MOST_STUDIES)}"
        )
        if "wish" in data:
            wish = whole_number(data, "wish", 0, 0, 2**53)
        else:
            wish = None
        answers = self.limits.answers(study, variables, curve, wish)
        first = await _unless_gone(request, anext(answers))

        async def lines() -> AsyncIterator[str]:
            async with contextlib.aclosing(answers):
                yield f"{first}\n"
                try:
                    async for text in answers:
                        yield f"{text}\n"
                except Refused as problem:  # the first line is out already
                    yield (
                        json.dumps({"stage": "failed", "last": True, **problem.message})
                        + "\n"
                    )

        return StreamingResponse(lines(), media_type="application/x-ndjson")

    async def export(self, request: Request) -> Response:
        """Return what is shown as a file."""
        kind = request.path_params["kind"]
        if kind not in EXPORTS:
            raise Refused(
                404,
                {
                    "error": (
                        f"There is no export {kind[:40]!r}; there are"
                        f" {', '.join(EXPORTS)}."
                    )
                },
            )
        shown = self._shown(await self._body(request))
        told = await self._asked(request, self.slow, "export", {"kind": kind, **shown})
        return Response(json.loads(told)["text"], media_type="text/plain")

    async def picture(self, request: Request) -> Response:
        """Return the figure that the page sends, as a file."""
        bounds = replace(self.bounds, body=self.bounds.picture, depth=16)
        data = parse_body(await request.body(), bounds)
        kind = data.get("kind")
        panels = data.get("panels")
        about = data.get("about")
        if kind not in KINDS:
            raise bad_field("kind", kind, f"one of {', '.join(KINDS)}")
        if not isinstance(panels, list) or not all(
            isinstance(panel, dict) for panel in panels
        ):
            raise InputError("`panels` must be a list of tables.")
        if (kind == "html") != isinstance(about, dict):
            raise InputError(
                "`about` must be a table where a page is written, and is left out"
                " elsewhere."
            )
        if about is not None:
            state = about.get("state")
            about = {
                **about,
                **self._shown(about),
                "state": state if isinstance(state, dict) else {},
            }
        arguments = {
            "kind": kind,
            "panels": panels,
            "title": str(data.get("title", "")),
            "about": about,
        }
        told = await self._asked(request, self.slow, "picture", arguments)
        return Response(
            base64.b64decode(json.loads(told)["content"]), media_type=KINDS[kind]
        )

    async def controls(self, request: Request) -> Response:
        """Answer a study with its controls."""
        data = await self._body(request)
        bounds = self.bounds
        most = {
            "dim": bounds.dim,
            "trials": bounds.trials,
            "dots": bounds.dots,
            "budget": int(bounds.budget_seconds),
        }
        view = {
            "variables": _variables(data) or [],
            "log": str(data.get("log", "")),
            "paper": str(data.get("paper", "")),
            "dots": whole_number(data, "dots", within.DOTS, 1, bounds.dots),
            "budget": whole_number(data, "budget", within.BUDGET, 1, most["budget"]),
        }
        arguments = {
            "tables": {"scenario": {}, **check_study(data, bounds)},
            "view": view,
            "most": most,
        }
        return _json(await self._asked(request, self.quick, "controls", arguments))

    async def design(self, request: Request) -> Response:
        """Answer where a variable is best, or what it depends on."""
        task = request.url.path.removeprefix("/api/")
        data = await self._body(request)
        variable = data.get("variable")
        if not isinstance(variable, str):
            raise bad_field("variable", variable, "the name of a variable")
        arguments: dict[str, Any] = {
            "tables": check_study(data, self.bounds),
            "variable": variable,
        }
        arguments |= (
            {"largest": data.get("largest") is True} if task == "optimum" else {}
        )
        return _json(await self._asked(request, self.slow, task, arguments))

    async def forecast(self, request: Request) -> Response:
        """Answer a table of features and labels with its learning curve."""
        asked = {
            name: request.query_params.get(name, "")[: self.bounds.text]
            for name in ("file", "label", "task")
        }
        arguments = {"content": await request.body(), **asked}
        return _json(
            await self._asked(
                request, self.slow, "forecast", arguments, self.bounds.forecast_seconds
            )
        )

    async def _body(self, request: Request) -> dict[str, Any]:
        return parse_body(await request.body(), self.bounds)

    async def _asked(
        self,
        request: Request,
        lane: Lane,
        task: str,
        arguments: dict[str, Any],
        seconds: float | None = None,
    ) -> str:
        """Return what a worker answers, unless the client leaves before."""
        return await _unless_gone(
            request, lane.answer(task, arguments, seconds or self.bounds.limit_seconds)
        )

    def _shown(self, data: dict[str, Any]) -> dict[str, Any]:
        """Return what a figure shows: studies by their labels, variables, log axes, the
        study of its dots.
        """
        given, labels, log, dots = (
            data.get(name) for name in ("studies", "labels", "log", "dots")
        )
        if not isinstance(given, list) or not 0 < len(given) <= MOST_STUDIES:
            raise InputError(
                f"`studies` must be a list of 1 to {MOST_STUDIES} studies."
            )
        studies = [check_study({"study": study}, self.bounds) for study in given]
        if not isinstance(labels, list) or len(set(map(str, labels))) != len(studies):
            labels = [f"curve {number + 1}" for number in range(len(studies))]
        if log not in (None, "", "x", "y", "xy"):
            raise bad_field("log", log, '"", "x", "y" or "xy"')
        if dots is not None:
            dots = check_study({"study": {**studies[0], "grid": dots}}, self.bounds)
        named = dict(zip(map(str, labels), studies))
        return {
            "studies": named,
            "variables": _variables(data) or [],
            "log": log or "",
            "dots": dots,
        }

    # -- experiments -------------------------------------------------------------------

    async def start_experiment(self, request: Request) -> Response:
        """Start an experiment and return its name."""
        data = await self._body(request)
        study = check_study(data, self.bounds)
        dots = whole_number(data, "dots", within.DOTS, 1, self.bounds.dots)
        budget = whole_number(
            data, "budget", within.BUDGET, 1, int(self.bounds.budget_seconds)
        )
        tables = within.check_experiment(study, dots, self.bounds)
        arguments = {"tables": tables, "shown": _variables(data) or []}
        experiment = self.experiments.start(_client(request, data), arguments, budget)
        return JSONResponse(
            {"name": experiment.name, "grid": tables["grid"]}, status_code=202
        )

    async def experiment_events(self, request: Request) -> Response:
        """Return the events of an experiment as they come."""
        experiment = self.experiments.find(request.path_params["name"])

        async def stream() -> AsyncIterator[str]:
            async with contextlib.aclosing(experiment.listen()) as events:
                async for news in events:  # what is a file is asked for by itself
                    yield "".join(
                        f"event: {kind}\ndata: {text}\n\n"
                        for kind, text in news
                        if kind != "file"
                    )

        return StreamingResponse(stream(), media_type="text/event-stream")

    async def experiment_file(self, request: Request) -> Response:
        """Return a finished comparison as CSV."""
        return Response(
            self.experiments.find(request.path_params["name"]).file(),
            media_type="text/csv",
        )

    async def stop_experiment(self, request: Request) -> Response:
        """Kill an experiment."""
        self.experiments.find(request.path_params["name"]).stop("cancelled")
        return JSONResponse({})


def _json(text: str) -> Response:
    return Response(text, media_type="application/json")


async def _unless_gone(request: Request, answer: Awaitable[_Result]) -> _Result:
    """Return an answer; where the client leaves before it is there, end the work."""

    async def gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    return await unless(answer, gone(), ClientDisconnect())


def _client(request: Request, data: dict[str, Any]) -> str:
    """Return who asks: a name the page made up, so that its own older requests can be
    dropped.
    """
    client = data.get("client", "")
    if not isinstance(client, str) or len(client) > 64:
        raise bad_field("client", client, "a text of at most 64 characters")
    return client or (request.client.host if request.client else "")


def _variables(data: dict[str, Any]) -> list[str] | None:
    variables = data.get("variables")
    if variables is not None and not (
        isinstance(variables, list) and all(isinstance(n, str) for n in variables)
    ):
        raise bad_field("variables", variables, "a list of names")
    return variables and variables[:32]


def _wants_a_page(request: Request) -> bool:
    """Tell whether a person looks at the answer: a browser that opens an address, not a
    program that asks.
    """
    opened = request.method == "GET" and not request.url.path.startswith("/api/")
    return opened and "text/html" in request.headers.get("accept", "")


def _no_page() -> str:
    """Return a page that leads to the one there is."""
    link = tag("a", "Open the explorer", href="/")
    title = "There is no such page"
    text = tag(
        "main",
        tag("h1", title),
        tag("p", "The address may have caught a character too many. ", link, "."),
    )
    head = tag(
        "head",
        Html('<meta charset="utf-8">'),
        tag("title", f"{title} - giantstep explorer"),
    )
    return joined("<!doctype html>", tag("html", head, tag("body", text), lang="en"))


async def _explain(request: Request, error: Exception) -> Response:
    """Say in one sentence what went wrong."""
    if isinstance(error, InputError):
        return JSONResponse(within.refusal(error), status_code=400)
    if isinstance(error, Refused):
        return JSONResponse(error.message, status_code=error.status)
    if isinstance(error, HTTPException):
        if _wants_a_page(request):
            return HTMLResponse(
                _no_page(), status_code=error.status_code, headers=error.headers
            )
        sentence = (
            f"There is nothing here for {request.method} ({error.detail.lower()})."
        )
        return JSONResponse(
            {"error": sentence}, status_code=error.status_code, headers=error.headers
        )
    if isinstance(error, ClientDisconnect):
        return Response(status_code=400)
    return JSONResponse(
        {"error": "The server failed on this request; its log says more."},
        status_code=500,
    )
