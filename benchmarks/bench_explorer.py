"""The explorer under load: clients that drag a slider, alone and beside a running
experiment.

Eight clients ask four times a second each for a one-step curve of 100 points (k = 1)
with a new ridge every time, over HTTP, as the page does. The promise is 100 ms at the
95th percentile. The plain alternative is the same call of `giantstep.predict` without a
server; the ratio is what the way through HTTP and a worker process costs.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np

import giantstep as gs

CLIENTS = 8
PER_SECOND = 4
SECONDS = 15
POINTS = 100
PORT = 8797
SCENARIO = {
    "family": "one-step",
    "activation": "relu",
    "target": "tanh(z)",
    "width_per_dim": 1.5,
    "samples_per_dim": 2.0,
    "ridge": 0.01,
    "second_layer": {"values": [1.0]},
    "step": {"kind": "maximal", "rate": 0.5},
}


def body(ridge: float, client: str) -> bytes:
    study = {
        "scenario": {**SCENARIO, "ridge": ridge},
        "grid": {"samples_per_dim": {"start": 0.3, "stop": 5.0, "num": POINTS}},
    }
    return json.dumps(
        {"client": client, "study": study, "variables": ["test_error", "train_error"]}
    ).encode()


def ask(
    connection: http.client.HTTPConnection, data: bytes, path: str = "/api/limit"
) -> bytes:
    connection.request("POST", path, data, {"Content-Type": "application/json"})
    response = connection.getresponse()
    text = response.read()
    if response.status >= 400:
        raise RuntimeError(text.decode())
    return text


def drag(number: int, start: float, seconds: float, latencies: list[float]) -> None:
    """Ask on a fixed beat; a late answer does not delay the beat's clock, so waiting
    counts.
    """
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=30)
    random = np.random.default_rng(number)
    for beat in range(int(seconds * PER_SECOND)):
        due = start + (beat + number / CLIENTS) / PER_SECOND
        time.sleep(max(0.0, due - time.perf_counter()))
        text = ask(
            connection, body(float(10 ** random.uniform(-3, 0)), f"client {number}")
        )
        latencies.append(time.perf_counter() - due)
        last = json.loads(text.splitlines()[-1])
        if len(last["result"]["test_error"]) != POINTS:
            raise RuntimeError("not the whole curve")


def load(seconds: float) -> np.ndarray:
    latencies: list[float] = []
    start = time.perf_counter() + 0.2
    threads = [
        threading.Thread(target=drag, args=(n, start, seconds, latencies))
        for n in range(CLIENTS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return 1e3 * np.array(latencies)


def report(name: str, latencies: np.ndarray) -> float:
    middle, high, worst = np.percentile(latencies, [50, 95, 100])
    print(
        f"{name}; load of the machine {os.getloadavg()[0]:.1f} on {os.cpu_count()}"
        " cores"
    )
    print(
        f"  {len(latencies)} answers, median {middle:.1f} ms, 95th percentile"
        f" {high:.1f} ms, worst {worst:.1f} ms"
    )
    return float(high)


def plain() -> float:
    """Return the milliseconds of the same curve by a call of the library in this
    process.
    """
    scenario = gs.OneStep(
        **{name: value for name, value in SCENARIO.items() if name != "family"}
    )
    samples = np.linspace(0.3, 5.0, POINTS)
    times = []
    for ridge in np.geomspace(1e-3, 1, 30):
        start = time.perf_counter()
        gs.predict(scenario, samples_per_dim=samples, ridge=float(ridge))
        times.append(time.perf_counter() - start)
    return 1e3 * float(np.median(times))


def experiment() -> str:
    """Start a long experiment, and return its name."""
    study: dict[str, Any] = json.loads(body(0.01, ""))["study"]
    study["experiment"] = {"dim": 600, "trials": 200, "seed": 0}
    data = json.dumps(
        {"client": "lab", "study": study, "dots": 12, "budget": 120}
    ).encode()
    answer = ask(
        http.client.HTTPConnection("127.0.0.1", PORT, timeout=30),
        data,
        "/api/experiment",
    )
    return str(json.loads(answer)["name"])


def listen(name: str) -> None:
    """Keep an experiment running by listening to it."""
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=120)
    connection.request("GET", f"/api/experiment/{name}")
    with contextlib.suppress(http.client.IncompleteRead):  # the server ends first
        connection.getresponse().read()


def main() -> None:
    alone = plain()
    print(f"gs.predict, {POINTS} points, k = 1, in process: median {alone:.1f} ms")
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
    try:
        assert server.stdout is not None
        server.stdout.readline()
        first = http.client.HTTPConnection("127.0.0.1", PORT, timeout=120)
        start = time.perf_counter()
        for ridge in (0.5, 0.02, 0.1, 0.2):
            ask(first, body(ridge, "first"))
        print(
            f"first answers after {time.perf_counter() - start:.1f} s (workers load"
            " everything once)"
        )
        load(2.0)
        high = report(
            f"{CLIENTS} clients, {PER_SECOND} times a second each", load(SECONDS)
        )
        print(
            f"  95th percentile over the call in process: {high / alone:.1f} times; the"
            " promise is 100 ms"
        )
        name = experiment()
        threading.Thread(target=listen, args=(name,), daemon=True).start()
        time.sleep(2.0)
        report("the same beside a running experiment", load(SECONDS))
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
