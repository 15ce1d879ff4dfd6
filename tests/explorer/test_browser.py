"""The page in a real browser: what moves, what streams in, what stays, what is said
when something is wrong.
"""

from __future__ import annotations

import json
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest

import giantstep as gs
from giantstep.faces.page.fields import slider_range

from .conftest import SCENARIO, Server, study

STATE = {
    "version": 1,
    "study": {**study(), "experiment": {"dim": 60, "trials": 4, "seed": 0}},
    "variables": ["test_error"],
    "dots": 5,
    "budget": 30,
}


PATIENCE = 150.0
"""Seconds to wait for what must come: a busy machine needs one only to start the
server.
"""


class Page:
    """A page with the few things the tests do to it; any console error or failed script
    is remembered.
    """

    def __init__(self, page: Any, server: Server) -> None:
        self.page = page
        self.server = server
        self.errors: list[str] = []
        page.set_default_timeout(1000 * PATIENCE)
        page.on(
            "console",
            lambda message: (
                self.errors.append(message.text) if message.type == "error" else None
            ),
        )
        page.on("pageerror", lambda error: self.errors.append(f"thrown: {error}"))
        page.on("request", lambda request: self._same_host(request.url))

    def _same_host(self, url: str) -> None:
        if not url.startswith((self.server.address, "data:", "blob:")):
            self.errors.append(f"asked {url}")

    def open(
        self, state: dict[str, Any] | str | None = STATE, *, curves: int = 1
    ) -> None:
        if isinstance(state, str):
            text = state
        elif state:
            text = quote(json.dumps(state))
        else:
            text = ""
        self.page.goto("about:blank")
        self.page.goto(f"{self.server.address}/" + (f"#{text}" if text else ""))
        if curves:
            self.until(
                lambda: (
                    len(self.traces()) >= curves and "limit, " in self.text("#status")
                )
            )
            self.settle()

    def settle(self) -> None:
        """Wait until nothing is to come any more: no answer, no drawing, no change of
        the address.
        """
        self.until(lambda: self.page.get_attribute("#chart", "aria-busy") == "false")

    def resize(self, width: int, height: int) -> None:
        """Give the window another size, and wait until the figure has it."""
        self.page.set_viewport_size({"width": width, "height": height})
        self.page.evaluate(
            "() => new Promise((done) => requestAnimationFrame(() =>"
            " requestAnimationFrame(done)))"
        )
        self.settle()

    def reload(self) -> None:
        """Load the page again, once its address holds all that is shown, and wait for
        its last curve.
        """
        self.settle()
        self.page.reload()
        self.settle()

    def until(self, holds: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + PATIENCE
        while True:
            found = holds()
            if found:
                return found
            # then it never will
            thrown = any(error.startswith("thrown") for error in self.errors)
            assert time.monotonic() < deadline and not thrown, (
                self.text("#status"),
                self.text("#problem"),
                self.errors,
            )
            self.page.wait_for_timeout(50)

    def panels(self) -> list[dict[str, Any]]:
        """Return what is drawn: a panel for each variable with its axes, series,
        z-scores, marks or map.
        """
        found: list[dict[str, Any]] = json.loads(
            self.page.evaluate(
                "() => JSON.stringify(document.getElementById('chart').panels ?? [])"
            )
        )
        return found

    def traces(self) -> list[dict[str, Any]]:
        """Return all lines and dots that are drawn, panel by panel."""
        return [series for panel in self.panels() for series in panel["series"]]

    def axis_title(self) -> str:
        """Return what the horizontal axis says; nothing while there is no figure."""
        return "".join(
            panel["x"]["label"] for panel in self.panels()[:1] if "x" in panel
        )

    def text(self, selector: str) -> str:
        return str(self.page.inner_text(selector))

    def unfold(self, selector: str) -> None:
        """Open the fold a control lies in, once the controls are those of what is
        shown.
        """
        self.settle()
        self.page.eval_on_selector(
            selector, "(e) => e.closest('details')?.setAttribute('open', '')"
        )

    def enter(self, selector: str, value: str) -> None:
        self.unfold(selector)
        self.page.fill(selector, value)
        self.page.press(selector, "Tab")

    def saved(self, kind: str, folder: Path) -> Path:
        self.unfold(f'[data-file="{kind}"]')
        with self.page.expect_download() as waiting:
            self.page.click(f'[data-file="{kind}"]')
        path = folder / waiting.value.suggested_filename
        waiting.value.save_as(path)
        return path


@contextmanager
def new_page(
    browser: Any, server: Server, *, allowed: str = "nothing", **options: Any
) -> Iterator[Page]:
    """A page of its own, which must not log an error; `allowed` is part of those it
    may.
    """
    context = browser.new_context(
        **{
            "viewport": {"width": 1300, "height": 900},
            "color_scheme": "light",
            **options,
        }
    )
    made = Page(context.new_page(), server)
    yield made
    context.close()
    assert not [error for error in made.errors if allowed not in error]


def expected(**changes: Any) -> list[float]:
    scenario = gs.OneStep(
        **{
            name: value
            for name, value in {**SCENARIO, **changes}.items()
            if name != "family"
        }
    )
    values = gs.predict(scenario, samples_per_dim=np.linspace(0.5, 4.0, 20))[
        "test_error"
    ].values
    return [float(value) for value in values]


def test_the_curve_follows_the_slider_from_the_keyboard(page: Page) -> None:
    page.open()
    assert page.traces()[0]["y"] == expected()
    page.page.focus("#f-ridge-slider")
    for _ in range(12):
        page.page.keyboard.press("ArrowRight")
    ridge = float(page.page.input_value("#f-ridge"))
    assert ridge > 0.1
    page.until(lambda: page.traces()[0]["y"] == expected(ridge=ridge))
    assert page.page.get_attribute(
        "#f-ridge-slider", "aria-valuetext"
    ) == page.page.input_value("#f-ridge")
    page.page.check("#log-y")
    page.until(lambda: page.panels()[0]["y"]["log"])


def test_fields_of_a_part_follow_its_kind(page: Page) -> None:
    page.open()
    assert page.page.is_visible("#f-step\\.rate")
    page.page.select_option("#f-step", "planted")
    page.page.wait_for_selector("#f-step\\.alignment")
    assert not page.page.query_selector("#f-step\\.rate")
    page.enter("#f-step\\.alignment", "0.5")
    step = {"kind": "planted", "strength": 1.0, "bulk": 1.0, "alignment": 0.5}
    page.until(lambda: page.traces()[0]["y"] == expected(step=step))


def test_dots_stream_in_with_error_bars_z_scores_and_a_verdict(
    page: Page, tmp_path: Path
) -> None:
    page.open()
    page.page.click("#run")
    page.page.wait_for_selector("#agreement-box:not([hidden])")
    page.until(lambda: len(page.traces()) == 3)
    line, at_dim, dots = page.traces()
    (scores,) = page.panels()[0]["scores"]
    assert [series["kind"] for series in page.traces()] == ["line", "line", "dots"]
    # what the dots are held to
    assert (
        at_dim["label"].startswith("theory at d = ") and at_dim["width"] > line["width"]
    )
    assert "Compared with theory at d = " in page.text("#agreement")
    assert len(dots["y"]) == len(scores["y"]) == 5 and all(
        error > 0 for error in dots["errors"]
    )
    assert "test error" in page.text(
        "#agreement .verdict"
    ) and "test_error" not in page.text("#agreement")
    page.until(lambda: "finished" in page.text("#experiment-status"))
    text = page.saved("dots", tmp_path).read_text()
    assert (
        text.count("\n") == 16 and "theory at d = " in text and "test_error_z" in text
    )
    page.enter("#f-ridge", "0.3")  # another scenario: the dots belong to the old one
    page.until(lambda: len(page.traces()) == 1)


def test_an_experiment_can_be_stopped_and_its_dots_stay(page: Page) -> None:
    state = {
        **STATE,
        "study": {**study(), "experiment": {"dim": 400, "trials": 100, "seed": 0}},
    }
    page.open(state)
    page.page.click("#run")
    page.until(lambda: len(page.traces()) > 1)
    page.page.click("#stop")
    page.until(lambda: "stopped after" in page.text("#experiment-status"))
    assert page.traces()[-1]["kind"] == "dots"
    assert page.page.is_enabled("#run")


def test_the_state_survives_a_reload(page: Page) -> None:
    page.open()
    page.enter("#f-ridge", "0.37")
    page.page.select_option("#f-step", "none")
    page.unfold("#v-norm")
    page.page.check("#v-norm")
    page.page.check("#log-x")
    curve = page.until(
        lambda: (
            len(page.traces()) == 2
            and page.traces()[0]["y"] == expected(ridge=0.37, step={"kind": "none"})
        )
    )
    page.settle()
    before = page.traces()
    page.reload()
    assert curve and [trace["y"] for trace in page.traces()] == [
        trace["y"] for trace in before
    ]
    assert page.page.input_value("#f-ridge") == "0.37"
    assert page.page.is_checked("#log-x") and page.page.is_checked("#v-norm")


def test_a_panel_has_the_symbol_of_its_labels(page: Page) -> None:
    page.open()
    assert "E(y" in page.text(".panel-title") and "P(y" not in page.text(".panel-title")
    page.open({**STATE, "study": study(target="sign(z)", loss="logistic")})
    assert "P(y" in page.text(".panel-title") and "E(y" not in page.text(".panel-title")


def test_curves_are_kept_and_laid_over(page: Page) -> None:
    page.open()
    page.page.click("#pin")
    page.enter("#f-ridge", "1")
    page.until(
        lambda: len(page.traces()) == 2 and page.traces()[0]["y"] == expected(ridge=1.0)
    )
    assert page.traces()[1]["y"] == expected()
    page.reload()
    assert len(page.traces()) == 2
    page.page.click("#pinned [aria-label^=Remove]")
    page.until(lambda: len(page.traces()) == 1)


def test_downloads_are_what_is_shown(page: Page, tmp_path: Path) -> None:
    page.open()
    page.enter("#f-ridge", "0.2")
    page.until(lambda: page.traces()[0]["y"] == expected(ridge=0.2))
    tables = tomllib.loads(page.saved("toml", tmp_path).read_text())
    assert (
        tables["scenario"]["ridge"] == 0.2
        and tables["grid"]["samples_per_dim"]["num"] == 20
    )
    rows = page.saved("csv", tmp_path).read_text().splitlines()
    column = rows[0].split(",").index("test_error")
    assert [float(row.split(",")[column]) for row in rows[1:]] == expected(ridge=0.2)
    assert page.saved("png", tmp_path).read_bytes().startswith(b"\x89PNG")
    assert "<svg" in page.saved("svg", tmp_path).read_text()
    assert page.saved("pdf", tmp_path).read_bytes().startswith(b"%PDF")
    program = page.saved("script", tmp_path)
    assert (
        program.name.endswith("-trial.py")
        and "import giantstep" not in program.read_text()
    )
    compile(program.read_text(), "trial.py", "exec")
    code = page.saved("python", tmp_path)
    assert code.suffix == ".py" and "ridge = 0.2" in code.read_text()
    compile(code.read_text(), "figure.py", "exec")


VIEWS = {
    "curve": (study(), "test_error", "lines"),
    "spectrum": (
        {
            "scenario": SCENARIO,
            "what": "spectrum",
            "settings": {"x": np.linspace(0.05, 6.0, 60).tolist()},
        },
        "density",
        "lines",
    ),
    "map": (
        {
            **study(),
            "grid": {
                "samples_per_dim": {"start": 0.5, "stop": 4.0, "num": 10},
                "ridge": {"start": 0.01, "stop": 1.0, "num": 12, "scale": "log"},
            },
        },
        "test_error",
        "map",
    ),
}


@pytest.mark.parametrize("kind", VIEWS)
def test_the_view_follows_the_dimensions(page: Page, kind: str) -> None:
    tables, name, view = VIEWS[kind]
    page.open({**STATE, "study": tables, "variables": [name]}, curves=kind != "map")
    page.until(lambda: [panel["kind"] for panel in page.panels()] == [view])
    if kind == "map":
        page.until(lambda: np.shape(page.panels()[0]["map"]["z"]) == (12, 10))
        coloured = """() => { const canvas = document.querySelector('#chart canvas');
            const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
            const seen = new Set();
            for (let i = 0; i < pixels.length; i += 4) if (pixels[i + 3]) seen.add(pixels.slice(i, i + 3).join());
            return seen.size; }"""
        assert page.page.evaluate(coloured) > 30  # one for each height, about
    if kind == "spectrum":
        assert "x" in page.axis_title() and len(page.traces()[0]["x"]) == 60


def test_families_and_presets_are_picked_and_trajectories_drawn(page: Page) -> None:
    page.open(None)
    page.page.click("#story-skip")
    option = '#preset option[value="subspace-trajectory"]'
    page.page.wait_for_selector(option, state="attached", timeout=200_000)
    page.page.select_option("#preset", "subspace-trajectory")
    page.until(lambda: "updates made" in page.axis_title() and len(page.traces()) > 1)
    assert page.page.input_value("#family") == "subspace-clustering"
    page.settle()
    assert "this figure" in page.text("#theory") and "arXiv" in page.text("#theory")
    assert page.page.locator("#theory .formula").count() > 0
    page.page.select_option("#family", "one-step")
    page.until(lambda: "samples per dim" in page.axis_title())


# -- when something is wrong -----------------------------------------------------------


@pytest.fixture
def rough(page: Page) -> Iterator[Page]:
    """A page whose requests may be refused: Chromium logs those itself."""
    yield page
    page.errors = [
        error for error in page.errors if "Failed to load resource" not in error
    ]


def test_a_bad_value_is_said_beside_its_field_and_mended(rough: Page) -> None:
    rough.open()
    rough.enter("#f-ridge", "-1")
    rough.until(lambda: "at least 0" in rough.text("#problem"))
    assert rough.page.get_attribute("#f-ridge", "aria-invalid") == "true"
    assert rough.traces()[0]["y"] == expected()  # the last good curve stays
    rough.enter("#f-ridge", "0.5")
    rough.until(lambda: rough.traces()[0]["y"] == expected(ridge=0.5))
    rough.until(lambda: not rough.page.is_visible("#problem"))
    rough.enter("#f-target", "__import__('os')")
    rough.until(lambda: "cannot be used" in rough.text("#problem"))


def test_a_huge_grid_is_refused_and_the_page_lives_on(rough: Page) -> None:
    rough.open()
    rough.enter("#axis-0-num", "1000000")
    rough.until(lambda: "a whole number from 1 to" in rough.text("#problem"))
    rough.enter("#axis-0-num", "7")
    rough.until(
        lambda: (
            len(rough.traces()[0]["y"]) == 7 and not rough.page.is_visible("#problem")
        )
    )


@pytest.mark.parametrize(
    ("link", "words"),
    [
        ("%7Bbroken", "The link is broken"),
        (quote(json.dumps({"version": 1})), "holds no study"),
        (
            quote(json.dumps({**STATE, "study": {"scenario": {"family": "none"}}})),
            "no family",
        ),
        (
            quote(json.dumps({**STATE, "study": {**study(), "what": "all"}})),
            "does not answer",
        ),
        (quote(json.dumps({**STATE, "study": study(ridge="<b>x</b>")})), "ridge"),
    ],
)
def test_a_hand_edited_link_is_said_to_be_broken(
    rough: Page, link: str, words: str
) -> None:
    rough.open(link, curves=0)
    rough.until(lambda: words in rough.text("#problem"))
    assert not rough.page.query_selector("#problem b, .wrong b")  # a text, never HTML


LATE_END = """() => {
    const plain = window.fetch;
    let told = null;
    window.ended = 0;
    window.fetch = async (url, options) => {
        if (url !== '/api/limit') return plain(url, options);
        told ??= await (await plain(url, options)).text();
        const late = (stream) => setTimeout(() => { stream.close(); window.ended += 1; }, 600);
        const start = (stream) => { stream.enqueue(new TextEncoder().encode(told)); late(stream); };
        return new Response(new ReadableStream({ start }));
    };
}"""
"""From the second limit on: its line comes at once, the end of its stream 600 ms
later.
"""


def test_a_stream_that_ends_long_after_its_line_leaves_no_page_computing(
    page: Page,
) -> None:
    """It would catch a "computing" that is written over an answer which has come."""
    page.open()
    page.page.evaluate(LATE_END)
    for ridge in ("0.2", "0.3"):
        page.enter("#f-ridge", ridge)
        page.settle()
        assert page.text("#status").startswith("limit, 20 points")
    assert page.page.evaluate("() => window.ended") == 2


def test_a_wish_that_was_dropped_for_an_older_one_is_asked_again(rough: Page) -> None:
    """Requests may arrive in another order than they were sent; every one carries a
    larger number than the last.
    """
    wishes: list[int] = []

    def answer(route: Any) -> None:
        wishes.append(route.request.post_data_json["wish"])
        if len(wishes) == 2:
            route.fulfill(
                status=409,
                json={
                    "error": "A newer request took the place of this one.",
                    "stale": True,
                },
            )
        else:
            route.continue_()

    rough.page.route("**/api/limit", answer)
    rough.open()
    rough.enter("#f-ridge", "0.2")
    rough.until(lambda: rough.traces()[0]["y"] == expected(ridge=0.2))
    rough.settle()
    assert (
        len(wishes) == 3
        and wishes == sorted(set(wishes))
        and not rough.page.is_visible("#problem")
    )


@pytest.mark.parametrize(
    ("bounds", "value"),
    [
        ({}, 0.3),
        ({}, -2.0),
        ({"gt": 0}, 0.1),
        ({"ge": 0}, 0.0),
        ({"gt": 0, "lt": 1}, 0.5),
        ({"le": 1}, 0.5),
    ],
)
def test_sliders_stay_within_what_is_allowed(
    bounds: dict[str, float], value: float
) -> None:
    """A field without declared bounds keeps the sign of its value."""
    ends = slider_range({"type": "number", "bounds": bounds}, value)
    assert ends["min"] <= value <= ends["max"] and ends["min"] < ends["max"]
    allowed = {
        "gt": ends["min"].__gt__,
        "ge": ends["min"].__ge__,
        "lt": ends["max"].__lt__,
        "le": ends["max"].__le__,
    }
    assert all(allowed[name](bound) for name, bound in bounds.items())
    assert bounds or ends["min"] * ends["max"] > 0


def test_a_number_of_neurons_is_whole(page: Page) -> None:
    page.open()
    page.page.select_option("#family", "giant-steps")
    page.page.wait_for_selector("#f-width-slider")
    script = "(slider) => [Number(slider.min), Number(slider.step)]"
    # one for each value of the second layer
    assert page.page.eval_on_selector("#f-width-slider", script) == [
        2,
        1,
    ]


def test_a_broken_preset_is_said_to_be_broken(rough: Page) -> None:
    broken = [
        {
            "name": "bad",
            "title": "Bad",
            "family": "one-step",
            "studies": [],
            "error": "KeyError: 'x'",
        },
        {
            "name": "worse",
            "title": "Worse",
            "family": "one-step",
            "studies": [{"scenario": {"family": "one-step"}}],
        },
    ]
    rough.page.route(
        "**/api/presets", lambda route: route.fulfill(body=json.dumps(broken))
    )
    rough.open()
    rough.page.select_option("#preset", "bad")
    rough.until(lambda: "“Bad” is broken: KeyError" in rough.text("#problem"))
    rough.page.select_option("#preset", "worse")
    rough.until(lambda: "missing" in rough.text("#problem"))
    rough.page.select_option("#family", "one-step")
    rough.page.click("#question-errors")


def test_a_visit_is_small(page: Page) -> None:
    """Until its first curve a page loads less than half a megabyte, and with equations
    and presets less than 1.3.
    """
    page.open()
    page.page.wait_for_selector(".formula .katex")
    script = """() => [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
        .map((entry) => [entry.name, entry.encodedBodySize])"""
    page.until(
        lambda: any(
            "presets" in name and size for name, size in page.page.evaluate(script)
        )
    )
    loaded = page.page.evaluate(script)
    later = ("katex", "presets")  # both wait for the first curve
    assert (
        100_000
        < sum(size for name, size in loaded if not any(part in name for part in later))
        < 500_000
    )
    assert sum(size for _, size in loaded) < 1_300_000


# -- everybody -------------------------------------------------------------------------


def test_every_control_has_a_name_and_the_skip_link_comes_first(page: Page) -> None:
    page.open()
    nameless = page.page.evaluate(
        """() => [...document.querySelectorAll('input, select, button, progress')].filter((one) =>
            !(one.labels?.length || one.getAttribute('aria-label') || one.textContent.trim()))
            .map((one) => one.outerHTML)"""
    )
    assert nameless == []
    twice = page.page.evaluate(
        "() => { const ids = [...document.querySelectorAll('[id]')].map((one) =>"
        " one.id); return ids.filter((id, i) => ids.indexOf(id) !== i && id !=="
        " 'names'); }"
    )
    assert twice == []
    page.page.focus("body")
    page.page.keyboard.press("Tab")
    assert (
        page.page.evaluate("() => document.activeElement.textContent")
        == "Skip to the controls"
    )
    assert "test error over samples per dim" in (
        page.page.get_attribute("#chart", "aria-label") or ""
    )
    page.page.click("#numbers-box summary")
    page.until(lambda: page.page.locator("#numbers tbody tr").count() == 20)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_everything_without_scrolling_sideways(
    browser: Any, server: Server, scheme: str
) -> None:
    with new_page(
        browser, server, viewport={"width": 390, "height": 844}, color_scheme=scheme
    ) as page:
        page.open()
        assert page.page.evaluate("() => document.documentElement.scrollWidth") <= 390
        assert (
            page.page.evaluate("() => document.documentElement.dataset.theme") == scheme
        )
        page.page.click("#theme")
        assert (
            page.page.evaluate("() => document.documentElement.dataset.theme") != scheme
        )
