"""What a sweep costs beside the work itself, and how it scales.

    python benchmarks/bench_sweep.py                     # engines, store, limits, experiments, 1 -> 2 workers
    python benchmarks/bench_sweep.py --quick             # the same, smaller
    python benchmarks/bench_sweep.py --device cuda OUT   # 15 learning curves of 20 points at p = 16384, on a GPU

Prints the overhead per task of each engine (a task that does nothing, against
`simulate`), the rate at which the store takes results, a limit sweep of 10,000 points
against one call of `predict`, an experiment sweep of 200 tasks against `simulate`, its
time with 1 and 2 workers, and what reading it all back costs.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import giantstep as gs
from giantstep.core.scenario.family import Question, Variable
from giantstep.core.scenario.fields import Number, field
from giantstep.core.scenario.model import Scenario
from giantstep.tools.sweeps.store import Ask, Point, Row, Store


class Nothing(Scenario):
    """A trial that takes no time: what is left is what a sweep costs."""

    family: ClassVar[str] = "bench-nothing"
    title: ClassVar[str] = "Nothing"
    questions: ClassVar[dict[str, Question]] = {
        "value": Question("a number", (Variable("value", (), "v", "a number"),))
    }
    level: Number = field("l", "a number", default=1.0)
    pause: Number = field("w", "seconds to wait", default=0.0)

    def trial(
        self, points: Any, what: str, dim: int, draws: Any, settings: Any
    ) -> dict[str, np.ndarray]:
        """Return the level."""
        time.sleep(self.pause)
        return {"value": points["level"]}

    def prepare(self, points: Any, what: str, settings: Any) -> dict[str, Any]:
        """Leave the settings alone."""
        return dict(settings)


def clock(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def spent() -> float:
    """Return the CPU seconds of this process and of its workers that have ended."""
    used = [
        resource.getrusage(who)
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    ]
    return sum(one.ru_utime + one.ru_stime for one in used)


def clocks(call: Callable[[], object]) -> tuple[float, float]:
    """Return seconds and CPU seconds, those of workers included."""
    before = spent()
    seconds = clock(call)
    return seconds, spent() - before


def network() -> gs.OneStep:
    return gs.OneStep(
        activation="relu",
        target="tanh(z)",
        ridge=0.01,
        width_per_dim=1.5,
        samples_per_dim=1.0,
        second_layer=gs.Vocabulary([1, -1], [0.9, 0.1]),
        step=gs.PlantedSpike(1.0, alignment=0.5),
    )


def engines(folder: Path, tasks: int) -> None:
    settings: dict[str, Any] = {"dim": 2, "trials": 1}
    levels = np.arange(1.0, tasks + 1)
    gs.simulate(Nothing(), level=levels[:2], **settings)  # imports
    plain = clock(lambda: gs.simulate(Nothing(), level=levels, **settings)) / tasks
    print(
        f"a task that does nothing, {tasks} of them; `simulate` takes {1e3 * plain:.3f}"
        " ms each"
    )
    for engine, workers in (
        ("local", 1),
        ("processes", 1),
        ("processes", 2),
        ("dask", 1),
        ("dask", 2),
    ):
        times: list[float] = []
        busy: list[float] = []
        began = time.perf_counter()
        gs.sweep(
            Nothing(),
            store=folder / f"{engine}{workers}.db",
            engine=engine,
            workers=workers,
            level=levels,
            progress=lambda *words, t=times, b=busy: (
                t.append(time.perf_counter()),
                b.append(time.process_time()),
            ),
            **settings,
        )
        start = times[1] - began
        each, own = ((clocks[-1] - clocks[1]) / (tasks - 1) for clocks in (times, busy))
        print(
            f"  {engine:9} {workers} workers: {1e3 * each:7.3f} ms a task,"
            f" {1e3 * (each - plain):.3f} ms above `simulate` ({1e3 * own:.3f} ms of"
            f" this process's CPU); first result after {start:.2f} s"
        )


def waiting(folder: Path, tasks: int, pause: float = 0.1) -> None:
    """Time tasks that only wait: they need no core, so a pool that keeps its workers
    busy halves the time with two.
    """
    took = {}
    for workers in (1, 2, 4):
        times: list[float] = []
        gs.sweep(
            Nothing(pause=pause),
            store=folder / f"waiting{workers}.db",
            engine="processes",
            workers=workers,
            level=np.arange(1.0, tasks + 1),
            dim=2,
            trials=1,
            progress=lambda *words, t=times: t.append(time.perf_counter()),
        )
        took[workers] = (times[-1] - times[4]) / (len(times) - 5)
    shown = ", ".join(
        f"{workers} workers {1e3 * each:.1f} ms" for workers, each in took.items()
    )
    gain = took[1] / took[2]
    print(
        f"tasks that wait {1e3 * pause:.0f} ms and need no core: {shown} a task; 1 -> 2"
        f" workers: {gain:.2f} times"
    )


def store_rate(folder: Path, results: int) -> None:
    ask = Ask("bench", "value", "experiment", 1, {})
    values = {
        "test_error": np.float64(0.3),
        "theta": np.arange(4.0),
        "Q": np.arange(16.0).reshape(4, 4),
    }
    for together in (1, 250):
        rows = [
            Row(Point(f"{together} {place}", "{}", 10.0), 0, values)
            for place in range(results)
        ]
        with Store(folder / f"rate{together}.db") as store:
            start = time.perf_counter()
            for place in range(0, results, together):
                store.put(ask, rows[place : place + together])
            written = time.perf_counter()
            store.get([row.point for row in rows])
            seconds = written - start
            reading = time.perf_counter() - written
        size = (folder / f"rate{together}.db").stat().st_size / results
        print(
            f"store: {results / seconds:8.0f} results a second written, {together} a"
            f" transaction; {results / reading:.0f} a second read and checked;"
            f" {size:.0f} bytes each"
        )


def limits(folder: Path, side: int) -> None:
    grid = {
        "ridge": np.geomspace(1e-3, 1, side),
        "samples_per_dim": np.linspace(0.3, 5, side),
    }
    s = network()
    predicted, plain = min(
        clocks(lambda: gs.predict(s, grid, progress=False)) for _ in range(2)
    )
    store = folder / "limits.db"
    first, own = clocks(
        lambda: gs.sweep(s, grid, source="limit", store=store, progress=False)
    )
    again = clock(
        lambda: gs.sweep(s, grid, source="limit", store=store, progress=False)
    )
    print(
        f"limit sweep of {side * side} points: {first:.2f} s ({own:.2f} s of CPU), one"
        f" call of `predict` {predicted:.2f} s ({plain:.2f} s of CPU): ratio"
        f" {first / predicted:.2f}, of CPU {own / plain:.2f}; read back in"
        f" {again:.2f} s"
    )


def experiments(folder: Path, tasks: int, dim: int) -> None:
    grid = {
        "step.alignment": np.linspace(0.05, 0.95, tasks // 10),
        "samples_per_dim": np.linspace(0.5, 3, 10),
    }
    s = network()
    settings = {"dim": dim, "trials": 10, "progress": False}
    simulated, plain = clocks(lambda: gs.simulate(s, grid, **settings))
    took = {}
    for engine, workers in (("local", 1), ("processes", 1), ("processes", 2)):
        store = folder / f"experiment-{engine}{workers}.db"
        took[engine, workers] = clocks(
            lambda engine=engine, workers=workers, store=store: gs.sweep(
                s,
                grid,
                store=store,
                engine=engine,
                workers=workers,
                threads=1,
                **settings,
            )
        )
    again = clock(lambda: gs.sweep(s, grid, store=store, **settings))
    print(
        f"experiment sweep of {tasks} tasks (10 points each) at d = {dim}: `simulate`"
        f" {simulated:.2f} s ({plain:.2f} s of CPU)"
    )
    for (engine, workers), (seconds, own) in took.items():
        print(
            f"  {engine:9} {workers} workers {seconds:6.2f} s (ratio to `simulate`"
            f" {seconds / simulated:.2f}), {own:.2f} s of CPU (ratio"
            f" {own / plain:.2f}), {own / seconds:.2f} cores in use"
        )
    gain = took["processes", 1][0] / took["processes", 2][0]
    print(
        f"  1 -> 2 workers: {gain:.2f} times as fast (load now"
        f" {os.getloadavg()[0]:.1f}); read back {again:.2f} s"
    )


def learning_curves(out: Path, device: str, p: int, repeats: int = 5) -> None:
    """Sweep 15 learning curves of 20 points and compare with the float64 matrix
    products they cannot avoid.
    """
    from giantstep.core.lab import namespace, synchronize

    xp = namespace(device)
    dim = round(p / 1.5)
    rows = 8192 if device != "cpu" else 1024
    a = xp.ones((rows, dim))
    b = xp.ones((dim, p))
    product = a @ b
    synchronize(xp)
    start = time.perf_counter()
    for _ in range(10):
        xp.matmul(a, b, out=product)
    synchronize(xp)
    ceiling = 10 * 2 * rows * dim * p / (time.perf_counter() - start) / 1e12
    del a, b, product
    ratios = np.linspace(0.1, 2.5, 20) * p / dim
    grid = {"step.alignment": [0.2, 0.5, 0.8], "samples_per_dim": ratios}
    store = out / f"learning_curves_{p}.db"
    settings = {
        "dim": dim,
        "trials": repeats,
        "device": device,
        "engine": "local",
        "store": store,
    }
    # warm up
    gs.simulate(
        network(), dim=dim, trials=1, device=device, samples_per_dim=ratios[[0, -1]]
    )
    seconds = clock(lambda: gs.sweep(network(), grid, **settings))
    again = clock(lambda: gs.sweep(network(), grid, **settings))
    sizes = np.rint(ratios * dim)
    n = float(sizes.max())
    test = 10_000
    products = 2 * n * dim * p + 2 * n * p * p + 2 * test * dim * p
    solves = float(np.sum(np.minimum(sizes, p) ** 3) / 3)
    curves = 3 * repeats
    report = {
        "p": p,
        "dim": dim,
        "curves": curves,
        "points_per_curve": len(ratios),
        "gemm_ceiling_tflops": ceiling,
        "seconds": seconds,
        "seconds_per_curve": seconds / curves,
        "products_fraction_of_ceiling": curves * products / seconds / 1e12 / ceiling,
        "products_and_solves_fraction_of_ceiling": (
            curves * (products + solves) / seconds / 1e12 / ceiling
        ),
        "read_back_seconds": again,
    }
    print(json.dumps(report, indent=1), flush=True)
    (out / "sweep_learning_curves.json").write_text(json.dumps(report, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "out", nargs="?", type=Path, help="folder for the report of --device"
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--width", type=int, default=16384)
    parser.add_argument("--quick", action="store_true")
    names = ("engines", "waiting", "store", "limits", "experiments")
    parser.add_argument(
        "--only", action="append", choices=names, help="this part; may be repeated"
    )
    options = parser.parse_args()
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        learning_curves(options.out, options.device, options.width)
        return
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        parts: dict[str, Callable[[], None]] = {
            "engines": lambda: engines(folder, 100 if options.quick else 300),
            "waiting": lambda: waiting(folder, 25 if options.quick else 50),
            "store": lambda: store_rate(folder, 500 if options.quick else 2000),
            "limits": lambda: limits(folder, 30 if options.quick else 100),
            "experiments": lambda: experiments(
                folder, 40 if options.quick else 200, 100
            ),
        }
        for part in options.only or parts:
            parts[part]()


if __name__ == "__main__":
    main()
