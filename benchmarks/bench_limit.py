"""How fast the one-step limit is, as ratios to the plain alternative.

    python benchmarks/bench_limit.py

- 2,500 grid points in one `predict`, k = 1 and k = 4, on one core;
- the same equations point by point, by `scipy.integrate.quad` and damping, closed-form
  moments given;
- the exact limit after a finite batch, 100 points, against plain iteration of its
  equations;
- CPU seconds of `import giantstep` and of one point through the command line.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy import integrate, special

import giantstep as gs

SOURCE = Path(gs.__file__).parents[1]
FOUR = gs.Vocabulary([1, -0.5, 1.5, -2], [0.7, 0.1, 0.1, 0.1])


def scenario(second_layer: gs.Vocabulary) -> gs.OneStep:
    return gs.OneStep(
        activation="relu",
        target="tanh",
        width_per_dim=1.2,
        samples_per_dim=1.5,
        ridge=0.3,
        second_layer=second_layer,
        step=gs.PlantedSpike(strength=1.0, alignment=0.5),
    )


def cpu_seconds(task: Callable[[], object], repeats: int = 3) -> float:
    """Return the CPU seconds of the fastest of a few runs."""
    best = np.inf
    for _ in range(repeats):
        start = time.process_time()
        task()
        best = min(best, time.process_time() - start)
    return best


def points_per_second(second_layer: gs.Vocabulary) -> float:
    """Return the points a second of a 50 x 50 grid in (samples_per_dim, ridge)."""
    grid = {
        "samples_per_dim": np.linspace(0.3, 5, 50),
        "ridge": np.geomspace(1e-3, 1, 50),
    }
    gs.predict(scenario(second_layer), grid, progress=False)
    return 2500 / cpu_seconds(
        lambda: gs.predict(scenario(second_layer), grid, progress=False)
    )


def point_by_point(
    alpha: float, beta: float, ridge: float, gamma: float = 0.5
) -> float:
    """Return the test error of one ReLU/tanh point (u = s = 1) by adaptive quadrature
    and damped iteration.

    The conditional moments of ReLU are in closed form, those of the target are
    tabulated once, so that the comparison is between the ways to solve the equations.
    """
    rho = np.sqrt(1 - gamma**2)
    z, w = np.polynomial.hermite_e.hermegauss(60)
    w /= w.sum()
    r = alpha / beta

    def moments(x: float) -> tuple[float, float, float]:
        P = special.ndtr(x)
        f = np.exp(-x * x / 2) / np.sqrt(2 * np.pi)
        mean = x * P + f
        return mean, P, (x * x + 1) * P + x * f - mean**2 - P**2

    def target(x: float) -> tuple[float, float, float]:
        g = np.tanh(gamma * x + rho * z)
        return float(w @ g), float(w @ (z * g)), float(w @ g**2)

    def mean(f: Callable[[float], float]) -> float:
        return integrate.quad(
            lambda x: np.exp(-x * x / 2) / np.sqrt(2 * np.pi) * f(x),
            -9,
            9,
            epsabs=1e-11,
            epsrel=1e-9,
            limit=200,
        )[0]

    def solve(
        update: Callable[[np.ndarray], np.ndarray],
        start: list[float],
        damping: float = 0.5,
    ) -> np.ndarray:
        x = np.array(start)
        for _ in range(2000):
            new = update(x)
            if np.max(np.abs(new / x - 1)) < 1e-9:
                return new
            x = damping * x + (1 - damping) * new
        raise RuntimeError("no convergence")

    def denominator(V: np.ndarray, x: float) -> float:
        _, slope, noise = moments(x)
        return 1 + slope**2 * V[0] + noise * V[1]

    def first_order(V: np.ndarray) -> np.ndarray:
        Vh1 = r * mean(lambda x: moments(x)[1] ** 2 / denominator(V, x))
        Vh2 = r * mean(lambda x: moments(x)[2] / denominator(V, x))
        D = ridge + Vh2
        R = beta / D
        for _ in range(500):
            R = 0.5 * R + 0.5 * beta / (D + Vh1 / (1 + Vh1 * R))
        return np.array([R / (1 + R * Vh1), R]) / beta

    V = solve(first_order, [1 / ridge, 1 / ridge])
    Vh1 = r * mean(lambda x: moments(x)[1] ** 2 / denominator(V, x))
    S, R = beta * V
    psih = r * mean(lambda x: moments(x)[1] * target(x)[1] / denominator(V, x))
    psi = S * psih
    B = [lambda x: moments(x)[0], lambda x: x * moments(x)[1]]
    overlap = [
        [r * mean(lambda x, f=f, g=g: f(x) * g(x) / denominator(V, x)) for g in B]
        for f in B
    ]
    right = [
        r * mean(lambda x, f=f: f(x) * target(x)[0] / denominator(V, x)) for f in B
    ]
    theta, t = np.linalg.solve(np.array(overlap) + np.diag([0, 1 / R]), right)

    def residual(Q: np.ndarray, x: float) -> float:
        _, slope, noise = moments(x)
        h, h1, hh = target(x)
        c = theta * B[0](x) + t * B[1](x)
        return (
            hh
            - 2 * c * h
            + c * c
            - 2 * h1 * psi * slope
            + Q[0] * slope**2
            + Q[1] * noise
        )

    g = Vh1 / (1 + Vh1 * R)

    def second_order(Q: np.ndarray) -> np.ndarray:
        A = (
            r
            * mean(
                lambda x: moments(x)[1] ** 2 * residual(Q, x) / denominator(V, x) ** 2
            )
            + beta * psih**2
        )
        e = (
            r * mean(lambda x: moments(x)[2] * residual(Q, x) / denominator(V, x) ** 2)
            + beta * t**2 / R**2
        )
        change = R**2 / beta * (e + (1 - S * Vh1) ** 2 * A) / (1 - R**2 / beta * g**2)
        return np.array([S**2 * A + S**2 * change / R**2, change]) / beta

    Q = solve(second_order, [1.0, 1.0])
    return mean(lambda x: residual(Q, x))


def finite_batch_network(second_layer: gs.Vocabulary) -> gs.OneStep:
    return gs.OneStep(
        activation="relu",
        target="tanh",
        width_per_dim=1.5,
        samples_per_dim=1.5,
        ridge=0.01,
        second_layer=second_layer,
        step=gs.MaximalStep(rate=2.0, batch_per_dim=2.0),
    )


def plain_finite_batch(s: gs.OneStep) -> int:
    """Iterate the first-order equations of a finite batch as they stand, one point;
    return the number of sweeps.
    """
    from giantstep.core.readout import Equations, first_order
    from giantstep.core.readout.chain import ChainState
    from giantstep.problems.network.describe import describe
    from giantstep.problems.network.follow import follow
    from giantstep.problems.network.problem import share_points

    network = s.network(1)
    points = network.point() | {"dim": np.array([np.inf])}
    (share,) = share_points(network, points, np.array([0]))
    *_, moment = follow(share.problem, "exact", {})
    (seen,) = describe(moment.problem, moment.layer)
    features, (bulk,) = seen.features, seen.bulks
    width = points["width_per_dim"]
    ratio = points["samples_per_dim"] / points["width_per_dim"]
    equations = Equations.of_ridge(
        features, ratio, width, points["readout.ridge"], bulk
    )
    V, response = first_order.cold_start(equations)
    response = first_order.respond(equations, V, response)
    for sweep in range(1, 5000):
        Vh1, Vh2 = features.moments(equations.node_weights(equations.b[:, None] + V))
        D = equations.a[:, None] + Vh2
        R = response.R
        blocks = response.g
        for _ in range(15):
            state = ChainState.at(equations.bulk, blocks, R, Vh1)
            blocks = state.image
            R = equations.block_width / (D + state.diagonal_CW / R)
        response = first_order.Response(
            R, state.response, blocks, Vh1, D, equations.block_width
        )
        new = first_order.variance_function(equations, response)
        change = np.max(np.abs(new - V) / (equations.b + V))
        V = new
        if change < 1e-12:
            return sweep
    raise RuntimeError("no convergence")


def finite_batch() -> None:
    batches = np.geomspace(0.3, 100, 100)
    for k, vocabulary, target in ((1, gs.Vocabulary([1.0]), 10), (4, FOUR, 100)):
        s = finite_batch_network(vocabulary)
        fast = cpu_seconds(
            lambda s=s: gs.predict(s, step__batch_per_dim=batches, progress=False)
        ) / len(batches)
        slow = cpu_seconds(lambda s=s: plain_finite_batch(s), repeats=2)
        print(
            f"finite batch, k = {k}: {1e3 * fast:.1f} ms a point in a batch of 100"
            f" (target {target}); plain iteration of the first-order equations alone,"
            f" point by point, takes {slow / fast:.0f} times as long"
        )


def subprocess_seconds(*command: str) -> float:
    """Return the CPU seconds of a command of its own."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    subprocess.run(
        [sys.executable, *command],
        check=True,
        env=environment,
        stdout=subprocess.DEVNULL,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def command_line_seconds() -> float | None:
    """Return the CPU seconds of one point through the command line, or None where there
    is none yet.
    """
    import tempfile

    try:
        import giantstep.faces.cli  # noqa: F401
    except ImportError:
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "point.toml"
        path.write_text(
            '[scenario]\nfamily = "one-step"\nactivation = "relu"\ntarget ='
            ' "tanh(z)"\nwidth_per_dim = 1.5\nsamples_per_dim = 2.0\nridge ='
            " 0.01\nsecond_layer = { values = [1.0] }\n"
        )
        program = "import sys; from giantstep.faces.cli import main; sys.exit(main())"
        return min(
            subprocess_seconds("-c", program, "predict", str(path)) for _ in range(3)
        )


def main() -> None:
    one = points_per_second(gs.Vocabulary([1.0]))
    four = points_per_second(FOUR)
    print(f"k = 1: {one:8.0f} points/s on one core (target 2000)")
    print(f"k = 4: {four:8.0f} points/s on one core (target 1000)")
    points = [(0.5, 1.2, 0.3), (1.5, 1.2, 0.1), (4.0, 1.2, 0.03)]
    start = time.process_time()
    plain = [point_by_point(*point) for point in points]
    slow = (time.process_time() - start) / len(points)
    exact = [
        float(
            gs.predict(
                scenario(gs.Vocabulary([1.0])),
                samples_per_dim=a,
                width_per_dim=b,
                ridge=ridge,
                progress=False,
            )["test_error"]
        )
        for a, b, ridge in points
    ]
    gap = np.max(np.abs(np.array(plain) / exact - 1))
    print(
        f"scipy.integrate.quad and damping: {slow:.2f} s a point, {slow * one:.0f}"
        " times slower (target 1000)"
    )
    print(f"  and the same answer to {gap:.0e}")
    finite_batch()
    importing = min(subprocess_seconds("-c", "import giantstep") for _ in range(3))
    bare = min(subprocess_seconds("-c", "import numpy") for _ in range(3))
    print(f"import giantstep: {importing:.2f} s CPU (import numpy: {bare:.2f} s)")
    command = command_line_seconds()
    print(
        "giantstep predict, one point: "
        + ("no command line yet" if command is None else f"{command:.2f} s CPU")
    )


if __name__ == "__main__":
    main()
