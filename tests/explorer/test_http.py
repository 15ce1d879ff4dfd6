"""The HTTP interface: right answers, who may ask, bounds, stale requests, experiments,
exports.
"""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np
import pytest

import giantstep as gs
from giantstep.core.scenario.describe import describe
from giantstep.core.scenario.families import SHIPPED
from giantstep.core.scenario.model import from_content
from giantstep.faces.page.app import PAGE
from giantstep.faces.page.guard import HEADERS
from giantstep.faces.page.studies import read_study
from giantstep.faces.page.tasks import experiment, why_refused

from .conftest import BOUNDS, SCENARIO, Server, study

FAMILIES = sorted(SHIPPED)
"""What the server knows; other tests register families of their own in this process."""

SLOW = {
    "step": {"kind": "maximal", "rate": 0.5, "batch_per_dim": 2.0},
    "second_layer": "gaussian",
}


def lines(response: httpx.Response) -> list[dict[str, Any]]:
    assert response.status_code == 200, response.text
    return [json.loads(line) for line in response.text.splitlines()]


def listed(server: Server, what: str) -> list[dict[str, Any]]:
    """Return the families or the presets."""
    told: list[dict[str, Any]] = server.client.get(f"/api/{what}", timeout=200).json()
    return told


def refusal(response: httpx.Response, status: int = 400) -> str:
    assert response.status_code == status, response.text
    return str(response.json()["error"])


# -- the page and who may ask ----------------------------------------------------------


def test_page_is_whole_and_asks_no_other_host(server: Server) -> None:
    page = server.client.get("/").text
    paths = re.findall(r'(?:src|href)="(/[^"]+)"', page)
    seen = set(paths)
    while paths:
        path = paths.pop()
        response = server.client.get(path)
        assert response.status_code == 200, path
        if (
            path.startswith("/page/") and "/uplot/" not in path
        ):  # what uPlot asks is watched in the browser
            new = {
                f"/page/{name}"
                for name in re.findall(r'from "\./([^"]+)"', response.text)
            }
            new |= set(
                re.findall(r'(?:src=|href=|asked\()"(/page/[^"]+)"', response.text)
            )
            new |= set(re.findall(r'(?:src|href): "(/page/[^"]+)"', response.text))
            new |= {
                f"/page/katex/{name}"
                for name in re.findall(r"url\((fonts/[^)]+woff2)\)", response.text)
            }
            new -= seen
            seen |= new
            paths += new
            hosts = re.findall(r"https?://([^/\"'`$]+)", response.text)
            assert set(hosts) <= {
                "arxiv.org",
                "www.w3.org",
            }, path  # a link to read and a name, never loaded
    files = {path.relative_to(PAGE).as_posix() for path in PAGE.rglob("*.*")}
    assert {f"/page/{name}" for name in files if name != "index.html"} <= seen
    assert "http" not in re.sub(r"https?-equiv", "", page)


def test_every_answer_has_the_security_headers(server: Server) -> None:
    foreign = {"Origin": "http://evil.example"}
    for response in (
        server.client.get("/"),
        server.client.get("/nothing"),
        server.client.get("/", headers=foreign),
        server.limit({}),
        server.limit(study()),
    ):
        assert {name: response.headers.get(name) for name in HEADERS} == HEADERS
    policy = HEADERS["Content-Security-Policy"]
    assert "unsafe-eval" not in policy and "script-src 'self';" in policy


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "127.0.0.1:1"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
    ],
)
def test_other_hosts_pages_are_refused(server: Server, headers: dict[str, str]) -> None:
    assert "only" in refusal(server.client.get("/api/families", headers=headers), 403)
    posted = server.client.post("/api/limit", json={"study": study()}, headers=headers)
    assert "only" in refusal(posted, 403)


def test_other_content_types_and_long_bodies_are_refused(server: Server) -> None:
    text = json.dumps({"study": study()})
    as_text = server.client.post(
        "/api/limit", content=text, headers={"Content-Type": "text/plain"}
    )
    assert "application/json" in refusal(as_text, 415)
    long = server.client.post(
        "/api/limit",
        content=b" " * (BOUNDS.body + 1),
        headers={"Content-Type": "application/json"},
    )
    assert str(BOUNDS.body) in refusal(long, 413)


@pytest.mark.parametrize(
    "path",
    [
        "/page/app.py",
        "/page/..%2fapp.py",
        "/page/../app.py",
        "/../../etc/passwd",
        "/page/",
    ],
)
def test_nothing_but_the_page_is_read_from_disk(server: Server, path: str) -> None:
    assert server.client.get(path).status_code == 404


# -- what there is ---------------------------------------------------------------------


def test_a_browser_that_is_lost_is_led_to_the_page(server: Server) -> None:
    """Programs, and whoever asks for data, are told in JSON as before."""
    browser = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    lost = server.client.get("/opened;", headers=browser)
    assert lost.status_code == 404 and lost.headers["content-type"].startswith(
        "text/html"
    )
    assert '<a href="/">' in lost.text and "error" not in lost.text
    assert {name: lost.headers.get(name) for name in HEADERS} == HEADERS
    for path, headers in (
        ("/opened;", {}),
        ("/api/nothing", browser),
        ("/api/experiment/x", browser),
    ):
        assert set(server.client.get(path, headers=headers).json()) == {"error"}


def test_families_are_described_as_they_are_registered(server: Server) -> None:
    described = listed(server, "families")
    assert [about["family"] for about in described] == FAMILIES
    assert all("error" not in about for about in described)
    for about in described:
        for what, question in about["questions"].items():  # what a tab opens on
            tables = question["first"]["study"]
            assert (
                tables["what"] == what
                and read_study(tables).scenario.family == about["family"]
            )
            assert set(question["first"]["variables"]) <= {
                variable["name"] for variable in question["variables"]
            }


def test_every_preset_is_a_study_and_every_figure_has_one(server: Server) -> None:
    from giantstep.papers import recipes

    found = {preset["name"]: preset for preset in listed(server, "presets")}
    assert set(found) == {*recipes(), *(f"example:{name}" for name in SHIPPED)}
    broken = {
        name: preset["error"] for name, preset in found.items() if "error" in preset
    }
    assert not broken
    for preset in found.values():
        for tables in preset["studies"]:
            assert read_study(tables).scenario.family == preset["family"]


def test_the_explorer_names_no_family() -> None:
    folder = Path(gs.__file__).parent / "explorer"
    for path in [*folder.rglob("*.py"), *folder.rglob("*.js"), *folder.rglob("*.html")]:
        text = path.read_text(encoding="utf-8")
        for (
            name
        ) in SHIPPED:  # a name that is a word of English counts where it is quoted
            if "-" in name:
                words = [name, name.replace("-", "_")]
            else:
                words = [f'"{name}"', f"'{name}'", f"`{name}`"]
            assert not any(word in text for word in words), (path.name, name)


# -- limits ----------------------------------------------------------------------------


def test_limit_is_what_predict_returns(server: Server) -> None:
    answers = lines(server.limit(study(), variables=["test_error", "V2"]))
    last = answers[-1]
    assert (last["stage"], last["points"], last["of"], last["last"]) == (
        "fine",
        20,
        20,
        True,
    )
    expected = gs.predict(
        from_content(SCENARIO), samples_per_dim=np.linspace(0.5, 4.0, 20)
    )
    assert last["result"]["test_error"] == expected["test_error"].values.tolist()
    assert set(last["result"]["dims"]) >= {
        "test_error",
        "V2",
        "converged",
        "samples_per_dim",
    }
    assert "train_error" not in last["result"]


def test_a_slow_limit_comes_coarse_first_and_then_fine(server: Server) -> None:
    tables = study(**SLOW)
    tables["grid"] = {"samples_per_dim": {"start": 0.5, "stop": 4.0, "num": 60}}
    coarse, fine = lines(server.limit(tables, variables=["test_error"]))
    assert (coarse["stage"], coarse["points"], coarse["of"], coarse["last"]) == (
        "coarse",
        25,
        60,
        False,
    )
    assert (fine["stage"], fine["points"], fine["last"]) == ("fine", 60, True)
    loose = from_content(tables["scenario"]).questions["errors"].coarse_tolerance
    assert coarse["result"]["test_error"][0] == pytest.approx(
        fine["result"]["test_error"][0], rel=loose or 1e-9
    )


def test_a_simplified_answer_comes_before_the_whole_one(server: Server) -> None:
    scenario = {
        "family": "batch-reuse",
        "samples_per_dim": 2.0,
        "rate": 0.3,
        "activation": "tanh",
        "steps": 2,
    }
    coarse, fine = lines(
        server.limit({"scenario": scenario, "what": "trajectory"}, variables=["M"])
    )
    assert (
        coarse["stage"],
        coarse["simplified"],
        fine["stage"],
        fine["simplified"],
    ) == ("coarse", True, "fine", False)
    assert np.array(coarse["result"]["M"]) == pytest.approx(
        np.array(fine["result"]["M"]), abs=0.02
    )
    expected = gs.predict(from_content(scenario), what="trajectory")
    assert fine["result"]["M"] == expected["M"].values.tolist()


def test_a_newer_request_drops_the_older_one(server: Server) -> None:
    slow = study(**SLOW, target="sin(z) + z")
    slow["grid"] = {"samples_per_dim": {"start": 0.5, "stop": 4.0, "num": 400}}
    results: list[httpx.Response] = []
    asking = threading.Thread(
        target=lambda: results.append(server.limit(slow, client="a", curve=1))
    )
    asking.start()
    while "a 1" not in server.explorer.limits._current:
        assert asking.is_alive()
    for other in (
        {"client": "a", "curve": 2},
        {"client": "b", "curve": 1},
    ):  # others' requests leave it alone
        lines(server.limit(study(), **other))
    assert lines(server.limit(study(), client="a", curve=1))[-1]["stage"] == "fine"
    asking.join()
    dropped = results[0]
    said = dropped.json() if dropped.status_code == 409 else lines(dropped)[-1]
    assert said["stale"] is True


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"ridge": -1.0}, "ridge", "at least 0"),
        ({"ridge": "much"}, "ridge", "a number"),
        ({"riddge": 0.1}, "riddge", "did you mean `ridge`"),
        ({"target": "__import__('os').system('true')"}, "target", "cannot be used"),
        ({"target": "z" + "+z" * 600}, None, "characters"),
        ({"step": {"kind": "huge"}}, "step.kind", "one of"),
        ({"family": "nothing"}, "family", "one of"),
        ({"width_per_dim": 10**400}, None, "2**53"),
        ({"target": {"npz": "secret.npz"}}, None, ""),
    ],
)
def test_bad_fields_are_one_sentence(
    server: Server, changes: dict[str, Any], field: str | None, words: str
) -> None:
    response = server.limit(study(**changes))
    sentence = refusal(response)
    assert words in sentence and "\n" not in sentence and "Traceback" not in sentence
    if field is not None:
        assert response.json()["field"] == field


def test_arrays_are_never_read_from_files(server: Server) -> None:
    about = next(
        one for one in map(describe, FAMILIES) if "array" in json.dumps(one["fields"])
    )
    name = next(field["name"] for field in about["fields"] if "array" in field["type"])
    scenario = {**about["example"], name: {"npz": "0123456789abcdef01234567.npz"}}
    assert "is not here" in refusal(server.limit({"scenario": scenario}))


@pytest.mark.parametrize(
    "grid",
    [
        {"samples_per_dim": {"start": 0.5, "stop": 4.0, "num": 10**9}},
        {
            "ridge": {"start": 0.1, "stop": 1, "num": 30},
            "samples_per_dim": {"start": 0.5, "stop": 4.0, "num": 30},
        },
        {"step": {"rate": {"start": 0.1, "stop": 1, "num": 10**6}}},
        {"ridge": list(range(1, 1000))},
        {"samples_per_dim": {"start": 0.5, "stop": 4.0, "num": 2.5}},
        {"samples_per_dim": {"start": 0.5, "stop": "inf", "num": 5}},
        {"samples_per_dim": {"start": 0.5}},
        {"samples_per_dim": []},
        {"samples_per_dim": "all"},
        {"nothing": [1, 2]},
    ],
)
def test_huge_and_broken_grids_are_refused_and_the_server_lives_on(
    server: Server, grid: dict[str, Any]
) -> None:
    assert refusal(server.limit({**study(), "grid": grid}))
    assert lines(server.limit(study()))[-1]["stage"] == "fine"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b'{"study": NaN}',
        b"[" * 5000,
        b"\xff\xfe",
        b'{"study": []}',
        b"null",
    ],
)
def test_broken_bodies_are_refused(server: Server, body: bytes) -> None:
    sent = server.client.post(
        "/api/limit", content=body, headers={"Content-Type": "application/json"}
    )
    assert refusal(sent)


def test_what_no_theory_answers_is_told_before_it_is_asked(server: Server) -> None:
    about = describe("network")
    steps = next(field for field in about["fields"] if field["name"] == "steps")
    assert steps["type"] == "list of choices"
    for choice in steps["choices"]:  # everything that a page needs to offer a step
        assert (
            choice["kind"]
            and choice["meaning"]
            and all("allowed" in field for field in choice["fields"])
        )
    plain = {**about["example"], "steps": [{"kind": "maximal", "rate": 1.0}]}
    batches = [
        {"kind": "maximal", "rate": 1.0, "batch_per_dim": size} for size in (1.0, 3.0)
    ]
    asked = [
        {"scenario": plain, "what": "errors"},
        {"scenario": {**plain, "steps": batches}, "what": "errors"},
        {"scenario": plain, "what": "weights"},
        {
            "scenario": {
                **plain,
                "steps": [{"kind": "maximal", "rate": -1.0, "batch_per_dim": -2.0}],
            }
        },
        {"scenario": {**plain, "nothing": 1}},
        {"scenario": SCENARIO, "what": "weights"},
    ]
    told_of = [why_refused(one, of_limit=True) for one in asked]
    good, several, question, bad, unknown, preset = told_of
    assert good is None and several is None and preset is not None
    assert (
        'a theory of what="weights"' in str(question)
        and "steps.0." in str(bad)
        and "nothing" in str(unknown)
    )
    for one, told in zip(asked, told_of):  # the limit says the same
        answer = server.limit(one)
        assert (answer.status_code == 200) == (told is None), answer.text
        assert told is None or answer.json()["error"] == told


# -- experiments -----------------------------------------------------------------------


def events(server: Server, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    with server.client.stream("GET", f"/api/experiment/{name}") as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        kind = ""
        for line in response.iter_lines():
            if line.startswith("event: "):
                kind = line.removeprefix("event: ")
            elif line.startswith("data: "):
                yield kind, json.loads(line.removeprefix("data: "))


def start(server: Server, tables: dict[str, Any], **more: Any) -> str:
    response = server.client.post("/api/experiment", json={"study": tables, **more})
    assert response.status_code == 202, response.text
    return str(response.json()["name"])


def test_experiment_streams_dots_and_ends_with_what_compare_returns(
    server: Server,
) -> None:
    tables = {**study(), "experiment": {"dim": 150, "trials": 12, "seed": 3}}
    tables["grid"] = {"step": {"rate": {"start": 0.2, "stop": 1.0, "num": 40}}}
    name = start(server, tables, dots=3, client="dots")
    told = list(events(server, name))
    kinds = [kind for kind, _ in told]
    assert kinds[-2:] == ["comparison", "finished"] and {"progress", "dots"} <= set(
        kinds
    )
    partial = next(about for kind, about in told if kind == "dots")["result"]
    assert min(partial["trials_done"]) < 12  # a picture of a running experiment
    final = told[-2][1]
    expected = gs.compare(
        from_content(SCENARIO),
        {"step.rate": np.linspace(0.2, 1.0, 3)},
        dim=150,
        trials=12,
        seed=3,
        progress=False,
    )
    assert final["result"]["test_error"] == expected["test_error"].values.tolist()
    assert final["result"]["test_error_z"] == expected["test_error_z"].values.tolist()
    assert [row["variable"] for row in final["agreement"]["variables"]][
        0
    ] == "test_error"
    rows = list(
        csv.DictReader(
            io.StringIO(server.client.get(f"/api/experiment/{name}/csv").text)
        )
    )
    assert len(rows) == 9 and {row["source"] for row in rows} == {
        "limit",
        "theory at d = 150",
        "experiment",
    }


LONG = {"experiment": {"dim": 500, "trials": 100, "seed": 0}}


def test_cancelling_kills_the_process_and_limits_go_on_meanwhile(
    server: Server,
) -> None:
    name = start(server, {**study(), **LONG}, client="cancel")
    stream = events(server, name)
    while next(stream)[0] != "progress":
        pass
    (worker,) = server.explorer.experiments._lane._busy
    assert lines(server.limit(study(ridge=0.7)))[-1]["stage"] == "fine"
    assert worker.process.is_alive()  # the limit was answered while the experiment ran
    assert server.client.delete(f"/api/experiment/{name}").status_code == 200
    kinds = [(kind, about) for kind, about in stream]
    assert kinds[-1] == ("stopped", {"reason": "cancelled"})
    worker.process.join(10)
    assert not worker.process.is_alive()
    assert "no file yet" in refusal(
        server.client.get(f"/api/experiment/{name}/csv"), 404
    )


def test_what_an_experiment_measured_within_its_budget_is_judged() -> None:
    told: dict[str, Any] = {}
    tables = {**study(), "experiment": {"dim": 30, "trials": 50, "seed": 0}}
    experiment(
        lambda kind, text: told.update({kind: json.loads(text)}),
        tables,
        ["test_error"],
        seconds=0.0,
    )
    assert list(told)[-3:] == ["spent", "file", "comparison"]
    assert set(told["comparison"]["result"]["trials_done"]) == {1}
    assert told["comparison"]["agreement"]["verdict"] == "cannot tell"


def test_a_point_that_the_budget_cut_off_is_not_judged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two draws, stopped in the second: its point must not lower the trials that the
    others count with.
    """
    told: dict[str, Any] = {"progress": {"done": 0}}
    clock = SimpleNamespace(monotonic=lambda: 1000.0 * (told["progress"]["done"] >= 14))
    monkeypatch.setattr("giantstep.faces.page.tasks.time", clock)
    asked = {
        **study(),
        "grid": {"width_per_dim": [1.0, 1.5]},
        "experiment": {"dim": 30, "trials": 12, "seed": 0},
    }
    experiment(
        lambda kind, text: told.update({kind: json.loads(text)}),
        asked,
        ["test_error"],
        seconds=500.0,
    )
    assert "spent" in told and told["comparison"]["result"]["trials_done"] == [12, 2]
    (row,) = [
        row
        for row in told["comparison"]["agreement"]["variables"]
        if row["variable"] == "test_error"
    ]
    assert (
        row["points"] == 1 and told["comparison"]["result"]["test_error_z"][1] is None
    )


def test_an_experiment_stops_at_its_budget_and_a_newer_one_replaces_it(
    server: Server,
) -> None:
    first = start(server, {**study(), **LONG}, client="budget")
    second = start(server, {**study(), **LONG}, client="budget", budget=1)
    assert list(events(server, first))[-1] == (
        "stopped",
        {"reason": "replaced by a newer one"},
    )
    assert list(events(server, second))[-1] == (
        "stopped",
        {"reason": "the budget of 1 s is spent"},
    )


@pytest.mark.parametrize(
    ("experiment", "more", "words"),
    [
        ({"dim": 10**6}, {}, "at most 500 here"),
        ({"dim": 50, "trials": 10**6}, {}, "at most 100 here"),
        ({"dim": 50, "device": "cuda"}, {}, '"cpu" on the page'),
        ({"dim": 50}, {"dots": 10**6}, "dots"),
        ({"dim": 50}, {"budget": 10**6}, "budget"),
        ({"dim": [50] * 100}, {}, "points"),
    ],
)
def test_experiments_beyond_the_bounds_are_refused(
    server: Server, experiment: dict[str, Any], more: dict[str, Any], words: str
) -> None:
    posted = server.client.post(
        "/api/experiment", json={"study": {**study(), "experiment": experiment}, **more}
    )
    assert words in refusal(posted)


def test_what_the_experiment_itself_refuses_is_told(server: Server) -> None:
    tables = {**study(), "experiment": {"trials": 2}}
    told = list(events(server, start(server, tables, client="refused")))
    assert told[-1][0] == "refused" and "dim" in told[-1][1]["error"]


def test_an_unknown_experiment_is_404(server: Server) -> None:
    for response in (
        server.client.get("/api/experiment/x"),
        server.client.delete("/api/experiment/x"),
    ):
        assert "no such experiment" in refusal(response, 404)


# -- exports ---------------------------------------------------------------------------


def exported(
    server: Server, kind: str, studies: list[dict[str, Any]], **view: Any
) -> str:
    response = server.client.post(
        f"/api/export/{kind}", json={"studies": studies, **view}
    )
    assert response.status_code == 200, response.text
    return response.text


def test_toml_reads_back_as_the_same_study(server: Server) -> None:
    text = exported(server, "toml", [study()])
    assert gs.Study.from_toml(text) == read_study(study())


def test_csv_has_what_save_writes(server: Server, tmp_path: Path) -> None:
    gs.save(read_study(study()).predict(), tmp_path / "f.csv")
    assert exported(server, "csv", [study()]) == (tmp_path / "f.csv").read_text()
    both = list(
        csv.DictReader(
            io.StringIO(
                exported(server, "csv", [study(), study(ridge=1.0)], labels=["a", "b"])
            )
        )
    )
    assert [row["study"] for row in both] == ["a"] * 20 + ["b"] * 20


def test_python_makes_the_figure(server: Server, tmp_path: Path) -> None:
    first = {**study(), "experiment": {"dim": 30, "trials": 2}}
    view = {"variables": ["test_error", "norm"], "log": "y", "labels": ["one", "two"]}
    text = exported(
        server, "python", [first, study(ridge=1.0)], **view, dots=first["grid"]
    )
    (tmp_path / "figure.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "figure.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "figure.png").stat().st_size > 10_000
    assert "test_error" in done.stdout  # the report of the agreement


def test_unknown_exports_are_refused(server: Server) -> None:
    assert "toml" in refusal(
        server.client.post("/api/export/exe", json={"studies": [study()]}), 404
    )
    for studies in ([], [study()] * 9, "all", [3]):
        refusal(server.client.post("/api/export/toml", json={"studies": studies}))
