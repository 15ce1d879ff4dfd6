"""The explorer under load: pages opened one after the other while others compute, and
random requests, eight at a time.

A page counts as stuck where its first story, its controls and its status line are not
there within a minute. Every request must be answered, and none with a 500. The memory
of the server and of all its workers is measured meanwhile; it must not grow without
end. `--busy` starts processes that only keep the cores busy.

    python benchmarks/bench_explorer_soak.py [--openings 200] [--requests 10000] [--busy
    4]
"""

from __future__ import annotations

import argparse
import copy
import json
import multiprocessing
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import numpy as np
import psutil

FLAGS = (
    "--headless --no-sandbox --disable-gpu --no-first-run"
    " --disable-background-networking".split()
)
PATIENCE = 60.0
"""Seconds after which a page that is not there counts as stuck."""
AT_ONCE = 8
LARGEST = 4.0
"""GiB that the server and all its workers may take together: one for each of up to four
quick workers.
"""
OPENED = """() => document.getElementById('chart')?.panels?.length && document.getElementById('controls').innerHTML
  && document.getElementById('chart').getAttribute('aria-busy') === 'false'
  && /^(limit|coarse)/.test(document.getElementById('status').textContent)"""
JUNK: tuple[Any, ...] = (
    None,
    "",
    "inf",
    "z1*z2",
    "<b>",
    -1,
    0,
    1e9,
    2.5,
    [],
    [1, 2],
    [[1.0]],
    {},
    {"kind": "x"},
    True,
)
PATHS = (
    "limit",
    "controls",
    "export/toml",
    "export/python",
    "export/script",
    "sensitivities",
    "optimum",
)


def keep_busy() -> None:
    """Keep a core busy until this process is ended."""
    while True:
        sum(range(10_000))


def memory(server: int) -> float:
    """Return the GiB that a server and all its workers take, shared pages counted once
    for each process.
    """
    used = 0
    for process in (
        psutil.Process(server),
        *psutil.Process(server).children(recursive=True),
    ):
        try:
            used += process.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return used / 2**30


def open_pages(address: str, count: int) -> tuple[int, list[float]]:
    """Open pages, every third left before it is there; return how many got stuck, and
    the seconds of the others.
    """
    from playwright.sync_api import Error, sync_playwright

    stuck = 0
    seconds = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=FLAGS
        )
        for number in range(count):
            context = browser.new_context()
            page = context.new_page()
            begun = time.perf_counter()
            page.goto(address)
            if number % 3 == 2:
                page.wait_for_timeout(random.uniform(0.0, 500.0))
            else:
                try:
                    page.wait_for_function(OPENED, timeout=1000 * PATIENCE)
                    seconds.append(time.perf_counter() - begun)
                except Error:
                    stuck += 1
                    print(
                        "stuck:",
                        page.inner_text("#status"),
                        page.inner_text("#problem"),
                        flush=True,
                    )
            context.close()
        browser.close()
    return stuck, seconds


def random_request(
    rng: random.Random, studies: list[dict[str, Any]]
) -> tuple[str, dict[str, Any]]:
    """Return a path and a body: a study of some family with a few of its values
    spoilt.
    """
    tables = json.loads(json.dumps(rng.choice(studies)))
    for _ in range(rng.randrange(3)):
        table = rng.choice(
            [tables, *(inner for inner in tables.values() if isinstance(inner, dict))]
        )
        table[rng.choice([*table, "nothing"])] = copy.deepcopy(rng.choice(JUNK))
    if isinstance(tables.get("grid"), dict):
        tables["grid"] = {
            name: rng.choice([values, [0.5, 1.0]])
            for name, values in tables["grid"].items()
        }
    body = {
        "study": tables,
        "studies": [tables],
        "variable": rng.choice(["test_error", "mse", 3]),
    }
    return f"/api/{rng.choice(PATHS)}", {
        **body,
        "client": f"soak {rng.randrange(50)}",
        "variables": ["test_error"],
    }


def send_requests(
    address: str, server: int, count: int
) -> tuple[Counter[int], float, float]:
    """Send random requests; return how often each status came, the slowest answer, and
    the largest memory.
    """
    rng = random.Random(0)
    largest = 0.0
    with httpx.Client(base_url=address, timeout=120) as client:
        families = client.get("/api/families").json()
        studies = [
            question["first"]["study"]
            for family in families
            for question in family["questions"].values()
        ]

        def send(asked: tuple[str, dict[str, Any]]) -> tuple[int, float]:
            begun = time.perf_counter()
            status = client.post(asked[0], json=asked[1]).status_code
            if status == 500:
                print("500:", json.dumps(asked)[:2000], flush=True)
            return status, time.perf_counter() - begun

        answers: list[tuple[int, float]] = []
        with ThreadPoolExecutor(AT_ONCE) as pool:
            while len(answers) < count:
                few = [
                    random_request(rng, studies)
                    for _ in range(min(100, count - len(answers)))
                ]
                answers += pool.map(send, few)
                largest = max(largest, memory(server))
    return (
        Counter(status for status, _ in answers),
        max(seconds for _, seconds in answers),
        largest,
    )


def main() -> None:
    """Run both, print what was seen, and end with 1 where a page got stuck, a request
    failed or memory grew.
    """
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--openings", type=int, default=200)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument(
        "--busy",
        type=int,
        default=4,
        help="processes that keep the cores busy while pages open",
    )
    options = parser.parse_args()
    command = [sys.executable, "-m", "giantstep", "explore", "--no-browser"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    busy = [
        multiprocessing.Process(target=keep_busy, daemon=True)
        for _ in range(options.busy)
    ]
    bad = False
    try:
        assert running.stdout is not None
        address = running.stdout.readline().split()[4].rstrip(";")
        if options.openings:
            for process in busy:
                process.start()
            stuck, seconds = open_pages(address, options.openings)
            for process in busy:
                process.terminate()
            middle, most = np.percentile(seconds, [50, 95])
            print(
                f"{options.openings} openings, {stuck} stuck; {middle:.1f} s in the"
                f" median, {most:.1f} s at 95%",
                flush=True,
            )
            bad |= stuck > 0
        if options.requests:
            statuses, slowest, largest = send_requests(
                address, running.pid, options.requests
            )
            print(
                f"{options.requests} requests by status:"
                f" {dict(sorted(statuses.items()))}; slowest {slowest:.1f} s"
            )
            print(
                f"memory at most {largest:.2f} GiB, {memory(running.pid):.2f} at"
                " the end"
            )
            bad |= statuses[500] > 0 or largest > LARGEST
    finally:
        running.terminate()
        running.communicate(timeout=60)
    sys.exit(int(bad))


if __name__ == "__main__":
    main()
