"""Anything may come over HTTP: no crash, no answer without a sentence, no work without
an end.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from giantstep.core.scenario.families import SHIPPED, family_class
from giantstep.faces.page.bounds import Bounds

from .conftest import Server, study

FAMILIES = sorted(SHIPPED)
"""What the server knows; other tests register families of their own in this process."""

REFUSALS = {400, 404, 405, 409, 413, 415, 503, 504}
EXAMPLES = settings(max_examples=60, suppress_health_check=list(HealthCheck))

numbers = st.one_of(
    st.integers(-3, 3),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0, -1, 1e-300, 1e300, 2**53, 10**30, "inf", "-inf", "nan"]),
)
words = st.one_of(
    st.sampled_from(
        [
            "",
            "relu",
            "z**z",
            "1/0",
            "exp(exp(exp(z)))",
            "h12(z)**64",
            "z1*z2",
            "(" * 90,
            "lambda: 0",
            "../x",
        ]
    ),
    st.text(max_size=40),
)
leaves = st.one_of(st.none(), st.booleans(), numbers, words)
anything = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(words, inner, max_size=4)
    ),
    max_leaves=8,
)
ranges = st.fixed_dictionaries(
    {"start": numbers, "stop": numbers, "num": numbers},
    optional={"scale": st.sampled_from(["log", "linear", "x"])},
)


def alive(server: Server) -> None:
    response = server.limit(study())
    assert response.status_code == 200, response.text


def check(response: Any) -> None:
    """Hold an answer to the contract: numbers, or one sentence; never a crash."""
    if response.status_code in (200, 202):
        return
    assert response.status_code in REFUSALS, response.text
    assert response.json()["error"]


@st.composite
def spoilt(draw: st.DrawFn) -> dict[str, Any]:
    """Return a valid study of some family with one to three things in it replaced,
    added or taken away.
    """
    family = draw(st.sampled_from(FAMILIES))
    tables: dict[str, Any] = {
        "scenario": family_class(family).example().content(),
        "grid": {},
        "settings": {},
        "limit": {},
    }
    for _ in range(draw(st.integers(1, 3))):
        place: Any = tables
        while True:
            key = draw(st.sampled_from(sorted(place)) if place else words)
            inner = place.get(key)
            if not isinstance(inner, dict) or draw(st.booleans()):
                break
            place = inner
        action = draw(st.sampled_from(["replace", "add", "remove", "grid"]))
        if action == "remove":
            place.pop(key, None)
        elif action == "grid" and isinstance(tables.get("grid"), dict):
            fields = sorted(family_class(family).example().numeric_fields())
            tables["grid"][draw(st.sampled_from(fields))] = draw(
                st.one_of(ranges, st.lists(numbers, max_size=5))
            )
        else:
            place[key if action == "replace" else draw(words)] = draw(anything)
    return tables


@EXAMPLES
@given(tables=spoilt())
def test_spoilt_studies_are_answered_or_refused(
    server: Server, tables: dict[str, Any]
) -> None:
    check(server.limit(tables, client="fuzz"))


bodies = st.one_of(
    anything,
    st.fixed_dictionaries({"study": anything, "studies": anything, "dots": anything}),
)


@settings(EXAMPLES, max_examples=15)
@given(body=bodies)
def test_any_json_is_answered_or_refused_everywhere(server: Server, body: Any) -> None:
    answered_or_refused_everywhere(server, body)


@pytest.mark.slow
@settings(EXAMPLES, max_examples=100)
@given(body=bodies)
def test_much_json_is_answered_or_refused_everywhere(server: Server, body: Any) -> None:
    answered_or_refused_everywhere(server, body)


def answered_or_refused_everywhere(server: Server, body: Any) -> None:
    for path in (
        "/api/limit",
        "/api/experiment",
        "/api/export/toml",
        "/api/export/python",
        "/api/export/script",
        "/api/controls",
        "/api/nothing",
    ):
        check(server.client.post(path, json=copy.deepcopy(body)))


@settings(EXAMPLES, max_examples=40)
@given(
    body=st.binary(max_size=200),
    method=st.sampled_from(["GET", "POST", "PUT", "DELETE"]),
    path=st.text(max_size=30),
)
def test_any_bytes_on_any_path_are_refused(
    server: Server, body: bytes, method: str, path: str
) -> None:
    headers = {"Content-Type": "application/json"}
    for where in (
        "/api/limit",
        f"/api/experiment/{'x' if not path.isalnum() else path}",
        "/page/x",
    ):
        check(server.client.request(method, where, content=body, headers=headers))


@settings(EXAMPLES, max_examples=12)
@given(
    experiment=st.dictionaries(
        st.sampled_from(["dim", "trials", "seed", "paired", "keep_trials", "device"]),
        anything,
    ),
    dots=numbers,
)
def test_spoilt_experiments_end(
    server: Server, experiment: dict[str, Any], dots: Any
) -> None:
    tables = {**study(), "experiment": {"dim": 20, "trials": 2, **experiment}}
    response = server.client.post(
        "/api/experiment",
        json={"study": tables, "dots": dots, "budget": 5, "client": "fuzz"},
    )
    check(response)
    if response.status_code == 202:
        told = server.client.get(f"/api/experiment/{response.json()['name']}").text
        assert told.rstrip().rpartition("event: ")[2].split("\n")[0] in (
            "finished",
            "stopped",
            "refused",
        )


AT_ONCE = 8
"""Requests on their way at the same time in the long run below."""


@pytest.fixture(scope="module")
def real_server() -> Iterator[Server]:
    """A server with the bounds of the page: 20 s for a limit."""
    running = Server(Bounds())
    yield running
    running.close()


@pytest.fixture(scope="module")
def statuses() -> Iterator[Counter[int]]:
    """How often each status was answered; said at the end, with -s."""
    counted: Counter[int] = Counter()
    yield counted
    print(
        f"\n{counted.total()} random requests by status:"
        f" {dict(sorted(counted.items()))}"
    )


def post_all(
    server: Server, statuses: Counter[int], asked: Iterable[tuple[str, Any]]
) -> None:
    """Send requests at the same time, and hold every answer to the contract."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = list(
            pool.map(
                lambda item: server.client.post(item[0], json=copy.deepcopy(item[1])),
                asked,
            )
        )
    statuses.update(answer.status_code for answer in answers)
    for answer in answers:
        check(answer)


@pytest.mark.slow
@settings(EXAMPLES, max_examples=750)
@given(studies=st.lists(spoilt(), min_size=AT_ONCE, max_size=AT_ONCE))
def test_six_thousand_spoilt_studies(
    real_server: Server, statuses: Counter[int], studies: list[dict[str, Any]]
) -> None:
    bodies = [
        {"study": tables, "client": f"fuzz {number}"}
        for number, tables in enumerate(studies)
    ]
    post_all(real_server, statuses, (("/api/limit", body) for body in bodies))


@pytest.mark.slow
@settings(EXAMPLES, max_examples=500)
@given(
    bodies=st.lists(anything, min_size=4, max_size=4),
    studies=st.lists(spoilt(), min_size=4, max_size=4),
    what=words,
)
def test_four_thousand_more_requests_on_every_path(
    real_server: Server,
    statuses: Counter[int],
    bodies: list[Any],
    studies: list[dict[str, Any]],
    what: str,
) -> None:
    paths = (
        "/api/limit",
        "/api/export/toml",
        "/api/controls",
        "/api/optimum",
        "/api/sensitivities",
    )
    asked = [
        *bodies,
        *({"study": one, "studies": [one], "variable": what} for one in studies),
    ]
    post_all(real_server, statuses, zip(paths * 2, asked))


def test_the_server_is_alive_after_all_that(server: Server) -> None:
    alive(server)
    assert len(server.client.get("/api/families").json()) == len(SHIPPED)
