"""Learning curves of given features: `gs.forecast` against scikit-learn, on many rows,
and how often "good" was wrong.

Run ``python benchmarks/bench_forecast.py [speed] [large] [calibration] [classes]`` (all
if none is named).

speed: digits, 500 random ReLU features, ten outputs, 12 sizes times 8 ridges.
scikit-learn's `learning_curve` with 10 splits, and the forecast, both against fits to
30 random subsets a size. Goal: 15 times faster. large: 60,000 rows of 2048 features in
a memory map of single precision: time and peak memory. Goals: 15 s, 3 GiB. calibration:
data made at run time, most of which forecast section 14 does not have: universes of N
rows of one law, the truth from fits to fresh rows. Prints the error of the mean
forecast, how often single forecasts are within two total standard errors, the verdicts,
and how often a verdict "good" went with a method error above 5 and 10 %. classes: the
same for the misclassified share.
"""

from __future__ import annotations

import argparse
import math
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import giantstep as gs
from giantstep.core.base.types import Array, Floats
from giantstep.tools.data.forecasts.experiment import solve_ridges


def fit_ridges(
    features: Floats, labels: Floats, ridges: Floats
) -> tuple[Floats, Floats]:
    """Return coefficients (p, ridges, R) and intercepts (ridges, R) of fits to rows."""
    mean = features.mean(axis=0)
    intercept = labels.mean(axis=0)
    solutions = solve_ridges(features - mean, labels - intercept, ridges)
    return solutions, intercept - np.einsum("p,plr->lr", mean, solutions)


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Return the CPU time of a call, and its answer."""
    start = time.process_time()
    answer = call()
    return time.process_time() - start, answer


# -- speed -----------------------------------------------------------------------------


def digits_features() -> tuple[Floats, Array]:
    from sklearn.datasets import load_digits

    pixels, digit = load_digits(return_X_y=True)
    pixels = (pixels - pixels.mean(axis=0)) / pixels.std()
    weights = np.random.default_rng(0).standard_normal((64, 500)) / 8
    return np.maximum(pixels @ weights, 0.0), digit


def subset_errors(
    features: Floats, labels: Floats, size: int, ridges: Floats, subsets: int
) -> Floats:
    """Return the mean squared test errors of fits to random subsets, (subsets,
    ridges).
    """
    errors = []
    for trial in range(subsets):
        order = np.random.default_rng([size, trial]).permutation(len(features))
        train = order[:size]
        test = order[size:]
        weights, offset = fit_ridges(features[train], labels[train], ridges)
        fitted = np.tensordot(features[test], weights, axes=1) + offset
        errors.append(
            np.mean(np.sum((fitted - labels[test][:, None]) ** 2, axis=2), axis=0)
        )
    return np.array(errors)


def speed() -> None:
    from sklearn.linear_model import Ridge
    from sklearn.model_selection import ShuffleSplit, learning_curve

    features, digit = digits_features()
    labels = np.eye(10)[digit]
    sizes = np.unique(np.geomspace(60, 1600, 12).astype(int))
    ridges = np.geomspace(0.1, 100, 8)
    grid = {"samples": sizes, "ridge": ridges, "trials": 0}
    # imports are not counted
    gs.forecast(features[:100], labels[:100], task="regression", samples=[50], trials=0)
    own, table = timed(lambda: gs.forecast(features, labels, task="regression", **grid))
    with_errors, _ = timed(lambda: gs.forecast(features, digit, **grid))
    with_trials, _ = timed(
        lambda: gs.forecast(features, digit, samples=sizes, ridge=ridges)
    )

    def usual() -> Floats:
        columns = []
        for ridge in ridges:
            cv = ShuffleSplit(10, train_size=int(sizes[-1]), random_state=0)
            _, _, scores = learning_curve(
                Ridge(alpha=ridge),
                features,
                labels,
                train_sizes=sizes,
                cv=cv,
                scoring="neg_mean_squared_error",
            )
            columns.append(-10 * scores.mean(axis=1))
        return np.stack(columns, axis=1)

    theirs, curve = timed(usual)
    print(
        f"speed: digits, 500 ReLU features, ten outputs, {table['mse'].size} points;"
        " errors against 30 subsets a size"
    )
    truth = np.stack(
        [
            subset_errors(features, labels, int(size), ridges, 30).mean(axis=0)
            for size in sizes
        ]
    )
    rows = (
        ("gs.forecast, squared errors with error bars", own, table["mse"].values[0]),
        ("  without rows: (4) of the same table", math.nan, table["gcv"].values),
        ("sklearn learning_curve, 10 splits", theirs, curve),
    )
    for name, seconds, values in rows:
        error = np.abs(values / truth - 1)
        took = "" if math.isnan(seconds) else f"{seconds:6.2f} s"
        print(
            f"  {name:46s}{took:>9s}  median {np.median(error):.1%}, 95 %"
            f" {np.quantile(error, 0.95):.1%}"
        )
    print(f"  gs.forecast with the misclassified share       {with_errors:6.2f} s")
    print(f"  gs.forecast with that and 8 trials at each n   {with_trials:6.2f} s")
    print(f"  ratio to learning_curve {theirs / own:.0f} (goal 15)")


# -- many rows -------------------------------------------------------------------------


def make_large(folder: Path, rows: int, columns: int) -> None:
    """Write ReLU features of Gaussian inputs, and ten classes, block by block."""
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((40, columns)).astype(np.float32) / 6
    teacher = rng.standard_normal((40, 10)).astype(np.float32)
    features = np.lib.format.open_memmap(
        folder / "x.npy", mode="w+", dtype=np.float32, shape=(rows, columns)
    )
    classes = np.empty(rows, dtype=np.int64)
    for start in range(0, rows, 4096):
        inputs = rng.standard_normal((min(4096, rows - start), 40), dtype=np.float32)
        features[start : start + 4096] = np.maximum(inputs @ weights, 0)
        classes[start : start + 4096] = np.argmax(
            inputs @ teacher + rng.standard_normal((len(inputs), 10)), axis=1
        )
    features.flush()
    np.save(folder / "y.npy", classes)


def run_large(folder: Path, trials: int) -> None:
    """Forecast the stored features; print wall time and peak memory of this process."""
    features = np.load(folder / "x.npy", mmap_mode="r")
    classes = np.load(folder / "y.npy")
    start = time.perf_counter()
    start_cpu = time.process_time()
    table = gs.forecast(features, classes, trials=trials)
    took = time.perf_counter() - start
    took_cpu = time.process_time() - start_cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    verdict = table.attrs["trust"].partition(" (")[0]
    print(
        f"  {trials} trials: {took:6.1f} s ({took_cpu:.1f} s of CPU), peak memory"
        f" {peak:.2f} GiB; {verdict}",
        flush=True,
    )


def large(rows: int = 60000, columns: int = 2048) -> None:
    print(
        f"large: {rows} rows, {columns} features in a memory map (single precision),"
        " ten classes, 108 points"
    )
    with tempfile.TemporaryDirectory() as folder:
        make_large(Path(folder), rows, columns)
        for trials in (0, 8):
            code = (
                f"import bench_forecast as b; b.run_large(b.Path({folder!r}), {trials})"
            )
            subprocess.run(
                [sys.executable, "-c", code], cwd=Path(__file__).parent, check=True
            )


# -- calibration -----------------------------------------------------------------------

Law = Callable[[np.random.Generator, int], tuple[Floats, Floats]]


def relu_of(
    inputs: int, width: int, target: Callable[[Floats], Floats], noise: float
) -> Law:
    weights = np.random.default_rng(1).standard_normal((inputs, width)) / math.sqrt(
        inputs
    )

    def draw(rng: np.random.Generator, rows: int) -> tuple[Floats, Floats]:
        x = rng.standard_normal((rows, inputs))
        return np.maximum(x @ weights, 0), target(x) + noise * rng.standard_normal(rows)

    return draw


def heavy_columns(rng: np.random.Generator, rows: int) -> tuple[Floats, Floats]:
    x = np.clip(rng.standard_t(3, (rows, 80)), -30, 30)
    return x, x @ np.arange(1, 81.0) ** -0.7 + rng.standard_normal(rows)


def growing_noise(rng: np.random.Generator, rows: int) -> tuple[Floats, Floats]:
    x = rng.standard_normal((rows, 60))
    return x, x[:, 0] + x[:, 1] + (0.3 + np.abs(x[:, 2])) * rng.standard_normal(rows)


def two_moods(rng: np.random.Generator, rows: int) -> tuple[Floats, Floats]:
    """Return rows of two kinds, a tenth of them four times as long: uneven
    leverages.
    """
    x = (
        rng.standard_normal((rows, 100))
        * np.where(rng.random(rows) < 0.1, 4.0, 1.0)[:, None]
    )
    return x, x @ np.arange(1, 101.0) ** -1.0 + rng.standard_normal(rows)


def counts(rng: np.random.Generator, rows: int) -> tuple[Floats, Floats]:
    rate = np.exp(
        rng.standard_normal((rows, 5))
        @ np.random.default_rng(2).standard_normal((5, 120))
        / 3
    )
    words = np.log1p(rng.poisson(rate))
    return words, words[:, :10].sum(axis=1) / 4 + rng.standard_normal(rows)


def images(rng: np.random.Generator, rows: int) -> tuple[Floats, Floats]:
    """Return smooth random fields on a 12 x 12 grid; the label is their energy in one
    corner.
    """
    k = np.hypot(*np.meshgrid(np.fft.fftfreq(12), np.fft.fftfreq(12)))
    field = np.fft.ifft2(
        np.fft.fft2(rng.standard_normal((rows, 12, 12))) / (0.1 + k)
    ).real
    return field.reshape(rows, -1), np.log(
        np.mean(field[:, :5, :5] ** 2, axis=(1, 2))
    ) + 0.3 * rng.standard_normal(rows)


def mixture(rng: np.random.Generator, rows: int) -> tuple[Floats, Floats]:
    kind = rng.integers(0, 6, rows)
    centres = np.random.default_rng(3).standard_normal((6, 70)) * 0.5
    x = centres[kind] + rng.standard_normal((rows, 70))
    return x, np.sin(2.0 * kind) + 0.3 * x[:, 0] + 0.3 * rng.standard_normal(rows)


def fourier_friedman(rng: np.random.Generator, rows: int) -> tuple[Floats, Floats]:
    x = rng.random((rows, 10))
    first = (
        10 * np.sin(np.pi * x[:, 0] * x[:, 1])
        + 20 * (x[:, 2] - 0.5) ** 2
        + 10 * x[:, 3]
        + 5 * x[:, 4]
    )
    fixed = np.random.default_rng(4)
    phase = x @ fixed.standard_normal((10, 300)) * 2 + fixed.uniform(0, 2 * np.pi, 300)
    return np.cos(phase), first + rng.standard_normal(rows)


def sparse_uncorrelated(rng: np.random.Generator, rows: int) -> tuple[Floats, Floats]:
    x = rng.standard_normal((rows, 50))
    return x, x[:, 0] + 2 * x[:, 1] - 2 * x[:, 2] - 1.5 * x[:, 3] + rng.standard_normal(
        rows
    )


def heavy_noise(rng: np.random.Generator, rows: int) -> tuple[Floats, Floats]:
    x = rng.standard_normal((rows, 60))
    return x, x[:, :10].sum(axis=1) / 3 + rng.standard_t(3, rows)


def low_rank(rng: np.random.Generator, rows: int) -> tuple[Floats, Floats]:
    fixed = np.random.default_rng(5)
    x = rng.standard_normal((rows, 20)) @ fixed.standard_normal(
        (20, 200)
    ) / 4 + 0.5 * rng.standard_normal((rows, 200))
    return x, x[:, :10].sum(axis=1) + rng.standard_normal(rows)


OF_THE_PAGE: dict[str, tuple[Law, int]] = {
    "friedman1, Fourier": (fourier_friedman, 400),
    "sparse_uncorrelated": (sparse_uncorrelated, 200),
    "label noise t_3": (heavy_noise, 300),
    "regression, rank 20": (low_rank, 250),
}
"""Laws like those of forecast section 14, which has -8..+1, -1..0, -2..+1, -1..+1 % for
n < N.
"""
LAWS: dict[str, tuple[Law, int]] = {
    "ReLU features of a product": (
        relu_of(12, 200, lambda x: x[:, 0] * x[:, 1], 0.3),
        300,
    ),
    "ReLU features, p > N": (
        relu_of(20, 500, lambda x: np.tanh(x[:, 0]) + x[:, 1] ** 2, 0.5),
        250,
    ),
    "ReLU features of a step": (
        relu_of(8, 100, lambda x: np.sign(x[:, 0] - 0.5), 0.2),
        400,
    ),
    "columns t_3": (heavy_columns, 300),
    "noise that grows": (growing_noise, 240),
    "a tenth of the rows long": (two_moods, 300),
    "log counts": (counts, 300),
    "smooth images": (images, 300),
    "six clusters": (mixture, 280),
}


def ridges_for(features: Floats) -> Floats:
    """Return ridges at which 95, 75 and 40 % of min(N, p) degrees of freedom are
    used.
    """
    squares = np.linalg.svd(features - features.mean(axis=0), compute_uv=False) ** 2
    smaller = min(features.shape)
    grid = np.geomspace(1e-6, 1e3, 400) * squares.mean()
    used = np.array([np.sum(squares / (squares + ridge)) for ridge in grid]) / smaller
    return np.sort(
        [grid[np.argmin(np.abs(used - share))] for share in (0.95, 0.75, 0.4)]
    )


def truth_of(
    law: Law, sizes: list[int], ridges: Floats, repeats: int
) -> tuple[Floats, Floats]:
    """Return the mean squared error of fits to fresh rows on fresh rows, (sizes,
    ridges), and its standard error.
    """
    rng = np.random.default_rng(99)
    curve = []
    spread = []
    for size in sizes:
        errors = []
        for _ in range(repeats):
            x, y = law(rng, size)
            test, labels = law(rng, 1500)
            weights, offset = fit_ridges(x, y[:, None], ridges)
            fitted = np.tensordot(test, weights, axes=1)[..., 0] + offset[:, 0]
            errors.append(np.mean((fitted - labels[:, None]) ** 2, axis=0))
        curve.append(np.mean(errors, axis=0))
        spread.append(np.std(errors, axis=0) / math.sqrt(repeats))
    return np.array(curve), np.array(spread)


def universes(
    law: Law, count: int, sizes: list[int], ridges: Floats, number: int, trials: int
) -> Iterator[gs.forecast]:
    for universe in range(number):
        x, y = law(np.random.default_rng([7, universe]), count)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", gs.GiantstepWarning)
            yield gs.forecast(
                x,
                y,
                ridge=ridges,
                samples=sizes,
                trials=trials,
                task="regression",
                seed=universe,
            )


def calibration(number: int = 24, repeats: int = 40, trials: int = 8) -> None:
    """Print the table; for n < N the truth is the experiment on the same rows, else
    fits to fresh rows.
    """
    print(
        f"calibration: {number} universes of N rows each, n = N/8 to 4N, three ridges;"
        f" truth at n >= N: {repeats} fits"
    )
    print(
        "  error of the mean forecast in %: n < N (same rows), N, n > N (+- noise); |z|"
        " < 2; good/fair/bad in %"
    )
    for title, laws in (
        ("like forecast section 14", OF_THE_PAGE),
        ("of our own", LAWS),
    ):
        print(f"  {title}:")
        _calibrate(laws, number, repeats, trials)


def _calibrate(
    laws: dict[str, tuple[Law, int]], number: int, repeats: int, trials: int
) -> None:
    good_points: list[tuple[float, float]] = []
    given = total = 0
    for name, (law, count) in laws.items():
        sizes = [count // 8, count // 4, count // 2, count, 2 * count, 4 * count]
        ridges = ridges_for(law(np.random.default_rng(0), count)[0])
        truth, noise = truth_of(law, sizes, ridges, repeats)
        tables = list(universes(law, count, sizes, ridges, number, trials))
        values = np.stack([t["mse"].sel(source="limit").values for t in tables])
        real = np.stack([t["mse"].sel(source="experiment").values for t in tables])
        spread = np.stack(
            [t["mse_se_total"].sel(source="limit").values for t in tables]
        )
        # by ridge, at n = N/2
        verdicts = np.stack([t["mse_verdict"].values[2] for t in tables])
        known = np.isfinite(values).all(axis=0)  # the rows determine these points
        mean = np.where(known, values.mean(axis=0), np.nan)
        same_rows = np.arange(6)[:, None] < 3
        bias = np.where(same_rows, mean / real.mean(axis=0), mean / truth) - 1
        on_same = np.std(values / real, axis=0) / math.sqrt(number)
        doubt = np.where(
            same_rows,
            on_same,
            np.hypot(values.std(axis=0) / math.sqrt(number), noise) / truth,
        )
        accuracy = np.nanmedian(doubt[3:])
        inside = np.mean(
            (np.abs(values - truth) < 2 * np.hypot(spread, noise))[:, known]
        )
        shares = [
            np.mean(verdicts == verdict) for verdict in ("good", "fair", "do not trust")
        ]
        for ridge in range(len(ridges)):
            times = int(np.sum(verdicts[:, ridge] == "good"))
            chosen = known[:, ridge]
            good_points += [
                (abs(b), d) for b, d in zip(bias[chosen, ridge], doubt[chosen, ridge])
            ] * times
            given = given + times
            total = total + number
        ranges = [
            f"{100 * np.nanmin(part):+.0f}..{100 * np.nanmax(part):+.0f}"
            for part in (bias[:3], bias[3:4], bias[4:])
        ]
        columns = "".join(f"{text:>10s}" for text in ranges)
        percent = "/".join(f"{100 * share:.0f}" for share in shares)
        print(
            f"  {name:28s}{columns}  (+- {100 * accuracy:.0f}){inside:6.0%}  {percent}",
            flush=True,
        )
    error, doubt = np.array(good_points).T
    beyond, surely, far = (
        np.mean(share)
        for share in (error > 0.05, error - 2 * doubt > 0.05, error > 0.10)
    )
    said = f"{given} times of {total} ({given / total:.0%})"
    print(
        f'  "good" was said {said}; of its {len(error)} points {beyond:.1%} have a'
        " method error"
    )
    print(
        f"  above 5 % ({surely:.1%} by more than twice the noise of the truth),"
        f" {far:.1%} above 10 %"
    )


def two_halves(rng: np.random.Generator, rows: int) -> tuple[Floats, Array]:
    x, y = relu_of(10, 120, lambda x: x[:, 0] + x[:, 1] * x[:, 2], 0.5)(rng, rows)
    return x, (y > 0.5).astype(int)


def four_clouds(rng: np.random.Generator, rows: int) -> tuple[Floats, Array]:
    kind = rng.integers(0, 4, rows)
    centres = np.random.default_rng(6).standard_normal((4, 60)) * 0.35
    return (
        centres[kind]
        + rng.standard_normal((rows, 60))
        * np.array([0.7, 0.9, 1.1, 1.3])[kind][:, None],
        kind,
    )


def rare_class(rng: np.random.Generator, rows: int) -> tuple[Floats, Array]:
    kind = rng.choice(3, rows, p=[0.6, 0.3, 0.1])
    x = rng.standard_normal((rows, 80))
    x[:, :3] += 1.5 * np.eye(3)[kind]
    return np.tanh(x), kind


def classes(number: int = 16, repeats: int = 30) -> None:
    """Print the error of the mean forecast of the misclassified share, and how often it
    is within two se_total.
    """
    print(
        f"classes: misclassified share, {number} universes of 300 rows, n = 37 to 1200;"
        f" truth: {repeats} fresh fits"
    )
    sizes = [37, 75, 150, 300, 600, 1200]
    ridge = np.array([10.0])
    for name, law in (
        ("two classes, ReLU", two_halves),
        ("four clouds", four_clouds),
        ("a class of 10 %", rare_class),
    ):
        tables = []
        for universe in range(number):
            x, y = law(np.random.default_rng([8, universe]), 300)
            tables.append(gs.forecast(x, y, ridge=ridge, samples=sizes, seed=universe))
        values = np.stack([t["error"].sel(source="limit").values[:, 0] for t in tables])
        spread = np.stack(
            [t["error_se_total"].sel(source="limit").values[:, 0] for t in tables]
        )
        truth = np.array(
            [
                np.mean(
                    [
                        _wrong_share(law, size, ridge, repeat)
                        for repeat in range(repeats)
                    ]
                )
                for size in sizes
            ]
        )
        bias = 100 * (values.mean(axis=0) / truth - 1)
        inside = np.mean(np.abs(values - truth) < 2 * spread, axis=0)
        numbers = (
            "".join(f"{b:+6.0f}" for b in bias),
            "".join(f"{share:6.0%}" for share in inside),
        )
        print(
            f"  {name:20s} error in %{numbers[0]}   within 2 se_total{numbers[1]}",
            flush=True,
        )


def _wrong_share(law: Any, size: int, ridge: Floats, repeat: int) -> float:
    rng = np.random.default_rng([9, size, repeat])
    (x, y), (test, truth) = law(rng, size), law(rng, 2000)
    weights, offset = fit_ridges(x, np.eye(y.max() + 1)[y], ridge)
    return float(np.mean(np.argmax(test @ weights[:, 0] + offset[0], axis=1) != truth))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "parts",
        nargs="*",
        choices=["speed", "large", "calibration", "classes", []],
        help="which parts to run",
    )
    given = parser.parse_args()
    for name in given.parts or ["speed", "large", "calibration", "classes"]:
        if name == "large":
            large()
        else:
            {"speed": speed, "calibration": calibration, "classes": classes}[name]()


if __name__ == "__main__":
    main()
