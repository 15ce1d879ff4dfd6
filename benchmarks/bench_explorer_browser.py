"""The explorer in a real browser: every family's default and every preset, from a
slider to the redraw.

For each family: the first curve after opening its link in a fresh browser context, the
bytes loaded until then, the time from a move of a slider to the end of the first frame
that shows other lines (median and 95th percentile of several moves, one after the
other), the time from the last move to the fine curve, and the CPU time of one move: of
the server with its workers, and of the browser with all that steers it. For each
preset: the first curve, the fine one, or what the page says instead. The promises, on
two idle cores: 100 ms in the median and 200 ms at the 95th percentile, a fine curve
within 1 s, a first curve within 1.5 s. What an earlier file says of a family stands
beside it where one is given.

    python benchmarks/bench_explorer_browser.py [families] [presets] [--only NAME...]
    [--before FILE] [--out FILE]
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

PORT = 8798
ADDRESS = f"http://127.0.0.1:{PORT}"
FLAGS = (
    "--headless --no-sandbox --disable-gpu --no-first-run"
    " --disable-background-networking".split()
)
MOVES = 15
PATIENCE = 25.0

DRAWN = """
window.drawn = () => (document.getElementById('chart')?.panels ?? [])
  .map(({ series, map, text }) => JSON.stringify([series.map((one) => one.y), map?.z, text])).join();
window.frames_shown = (holds) => new Promise((resolve) => {
  const after = new MessageChannel();
  after.port1.onmessage = () => (holds() ? resolve(performance.now()) : requestAnimationFrame(next));
  const next = () => after.port2.postMessage(0);
  requestAnimationFrame(next);
});
"""
"""What is on the screen (the values of lines and maps), and a promise of the end of the
first frame with something.

A message posted by a frame callback is taken after that frame was laid out and painted.
"""
WATCH = """
window.firstCurve = null;
window.frames_shown(() => window.drawn())
  .then((time) => { window.firstCurve = time; });
"""
LINKS = """async () => {
  const { firstState, stateOf } = await import('/page/state.js');
  const linkOf = (state) => `#${encodeURIComponent(JSON.stringify(state))}`;
  const read = async (url) => (await fetch(url)).json();
  const families = Object.fromEntries((await read('/api/families')).map((family) => [family.family, family]));
  const presets = await read('/api/presets');
  const links = { families: {}, presets: {} };
  for (const [name, family] of Object.entries(families)) links.families[name] = linkOf(firstState(family));
  for (const preset of presets) {
    const usable = preset.studies.length && !preset.error && !preset.terminal;
    const state = usable && stateOf(families[preset.family], preset.studies, { preset: preset.name });
    const instead = preset.error ?? `runs in the terminal: ${preset.command}`;
    links.presets[preset.name] = usable ? linkOf(state) : instead;
  }
  return links;
}"""
MOVE = """async ([share, patience]) => {
  const fields = ['ridge', 'noise', 'rate', 'snr', 'sparsity', 'samples_per_dim'];
  const wanted = fields.map((name) => document.getElementById(`f-${name}-slider`));
  const others = document.querySelectorAll('#controls input[type=range]');
  const slider = [...wanted, ...others].find((one) => one && !one.disabled);
  const before = window.drawn();
  const [low, high] = [Number(slider.min), Number(slider.max)];
  window.place = (window.place ?? Number(slider.value)) + share * Math.max(high - low, 50 * (Number(slider.step) || 0));
  const start = performance.now();
  slider.value = window.place;
  slider.dispatchEvent(new Event('input', { bubbles: true }));
  const shown = window.frames_shown(() => window.drawn() !== before);
  const late = new Promise((resolve) => setTimeout(resolve, 1000 * patience, null));
  const end = await Promise.race([shown, late]);
  return [slider.id, end && end - start];
}"""
SAID = (
    "() => [document.getElementById('status').textContent,"
    " document.getElementById('problem').textContent]"
)
BYTES = """() => [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
  .reduce((sum, entry) => sum + entry.transferSize, 0)"""


def cpu_seconds(root: int) -> float:
    """Return the CPU seconds of a process and all below it, the ended ones too."""
    parents = {}
    times = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            pid = int(folder.name)
            parents[pid], times[pid] = (
                int(fields[1]),
                sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK"),
            )
    own = {root}
    while grown := {pid for pid, parent in parents.items() if parent in own} - own:
        own |= grown
    return sum(times.get(pid, 0.0) for pid in own)


def wait_until_fine(page: Any, start: float) -> tuple[float | None, str]:
    """Return the seconds since `start` until the page shows a fine curve, or what it
    says instead.
    """
    while time.perf_counter() - start < PATIENCE:
        status, problem = page.evaluate(SAID)
        if status.startswith("limit,"):
            return time.perf_counter() - start, ""
        if problem:
            return None, problem
        if "coarse" in status and "being computed" not in status:
            return None, status
        page.wait_for_timeout(20)
    return None, "no fine curve in time"


def opened(browser: Any, link: str) -> tuple[Any, dict[str, Any]]:
    """Return a page on a link, and how it opened."""
    page = browser.new_context(viewport={"width": 1400, "height": 900}).new_page()
    page.add_init_script(DRAWN + WATCH)
    start = time.perf_counter()
    page.goto(f"{ADDRESS}/{link}")
    fine, said = wait_until_fine(page, start)
    if fine is not None:
        page.wait_for_function("() => window.firstCurve !== null")
    first = page.evaluate("() => window.firstCurve")
    about = {
        "first_s": None if first is None else first / 1e3,
        "fine_s": fine,
        "said": said,
    }
    return page, {**about, "bytes": page.evaluate(BYTES)}


def drag(page: Any, root: int) -> dict[str, Any]:
    """Return what moves of a slider cost: one after the other there and back, then a
    rest for the fine curve.
    """
    times = []
    slider = ""
    page.wait_for_selector("#controls input[type=range]")
    for _ in range(3):
        page.evaluate(MOVE, [0.02, PATIENCE])  # costs get known
        page.wait_for_timeout(100)
    before = cpu_seconds(root)
    all_before = cpu_seconds(os.getpid())
    for move in range(MOVES):
        slider, milliseconds = page.evaluate(
            MOVE, [(0.02 + 0.0007 * move) * (1 if move % 6 < 3 else -1), PATIENCE]
        )
        times.append(np.inf if milliseconds is None else milliseconds)
        page.wait_for_timeout(15)
    spent = (cpu_seconds(root) - before) / MOVES
    browser = (cpu_seconds(os.getpid()) - all_before) / MOVES - spent
    last = time.perf_counter()
    fine, said = wait_until_fine(page, last)
    middle, high = np.percentile(times, [50, 95])
    return {
        "slider": slider,
        "median_ms": middle,
        "p95_ms": high,
        "settled_s": fine,
        "cpu_ms": 1e3 * spent,
        "browser_ms": 1e3 * browser,
        "said": said,
    }


def earlier(file: Path | None) -> dict[str, str]:
    """Return what the first table of an earlier file says of each family: median, 95th
    percentile, first curve, MB.
    """
    known: dict[str, str] = {}
    for line in [] if file is None else file.read_text().splitlines():
        words = line.split()
        if len(words) >= 9 and words[1].endswith("-slider") and words[0] not in known:
            median = words[2]
            high = words[3]
            first = words[7]
            size = words[8]
            known[words[0]] = f"{median:>8}{high:>6}{first:>7}{size:>6}"
    return known


def report_families(
    browser: Any, links: dict[str, str], root: int, before: dict[str, str]
) -> list[str]:
    """Return the table of the families' defaults."""
    columns = f"{'median ms':>10}{'p95 ms':>9}{'CPU ms':>8}{'browser':>9}{'fine s':>8}{'first s':>9}{'MB':>7}"
    was = f"{'before:':>10} median   p95  first    MB" if before else ""
    rows = [f"{'family':<22}{'slider':<26}{columns}{was}"]
    print(rows[-1], flush=True)
    for name, link in links.items():
        page, opening = opened(browser, link)
        if opening["first_s"] is None:
            rows.append(f"{name:<22}{opening['said']}")
        else:
            moves = drag(page, root)
            if moves["settled_s"] is None:
                fine = "-"
            else:
                fine = f"{moves['settled_s']:.2f}"
            times = f"{moves['median_ms']:>10.0f}{moves['p95_ms']:>9.0f}"
            cells = (
                f"{times}{moves['cpu_ms']:>8.0f}{moves['browser_ms']:>9.0f}{fine:>8}"
            )
            opens = f"{opening['first_s']:>9.2f}{opening['bytes'] / 1e6:>7.2f}"
            was = f"{'':>9}{before[name]}" if name in before else ""
            rows.append(f"{name:<22}{moves['slider']:<26}{cells}{opens}{was}")
        print(rows[-1], flush=True)
        page.context.close()
    return rows


def report_presets(browser: Any, links: dict[str, str]) -> list[str]:
    """Return the table of the presets."""
    rows = [f"{'preset':<44}{'first s':>9}{'fine s':>9}{'MB':>7}  says"]
    print(rows[-1], flush=True)
    for name, link in links.items():
        if not link.startswith("#"):
            rows.append(f"{name:<44}{'-':>9}{'-':>9}{'-':>7}  {link}")
        else:
            page, about = opened(browser, link)
            first, fine = (
                "-" if about[key] is None else f"{about[key]:.2f}"
                for key in ("first_s", "fine_s")
            )
            size = f"{about['bytes'] / 1e6:.2f}"
            rows.append(
                f"{name:<44}{first:>9}{fine:>9}{size:>7}  {about['said'][:110]}".rstrip()
            )
            page.context.close()
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser()
    parser.add_argument("what", nargs="*", default=["families", "presets"])
    parser.add_argument(
        "--only", nargs="*", help="families and presets to measure; all if left out"
    )
    parser.add_argument(
        "--before", type=Path, help="an earlier file of this benchmark, to compare with"
    )
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    command = [
        sys.executable,
        "-m",
        "giantstep",
        "explore",
        "--no-browser",
        "--port",
        str(PORT),
    ]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    rows = [
        f"load of the machine before {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    ]
    try:
        assert server.stdout is not None
        server.stdout.readline()
        with sync_playwright() as playwright:
            path = os.environ.get("GIANTSTEP_CHROMIUM") or shutil.which("chromium")
            browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
            page = browser.new_page()
            page.goto(ADDRESS)
            page.set_default_timeout(60_000)
            found = page.evaluate(LINKS)
            links = {
                what: {
                    name: link
                    for name, link in known.items()
                    if asked.only is None or name in asked.only
                }
                for what, known in found.items()
            }
            page.close()
            if "families" in asked.what:
                rows += report_families(
                    browser, links["families"], server.pid, earlier(asked.before)
                )
            if "presets" in asked.what:
                rows += report_presets(browser, links["presets"])
            browser.close()
    finally:
        server.terminate()
        server.wait()
    rows.append(f"load of the machine after {os.getloadavg()[0]:.1f}")
    if asked.out is not None:
        asked.out.write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
