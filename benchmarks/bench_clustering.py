"""Clustering with few active features: message passing against scikit-learn's methods,
accuracy and time in one run.

Run ``python benchmarks/bench_clustering.py [--seeds 3] [--rows easy|sparse|fails]
[--noise RUNS]``. Data: n = 2000, d = 1000, exactly s active features, balanced
clusters, unit noise; ratio = snr over the threshold k/sqrt(n/d) of spectral and
message-passing methods. AMP learns all parameters (noise, snr, s, sizes of clusters)
from the data. Its rivals are helped: diagonal thresholding is told s, sparse PCA gets
the penalty with which its first component has s entries (found beforehand, not timed).
"theory" is state evolution of AMP without knowledge, "Bayes" the best possible. At the
end: the time of one sweep against its two matrix products (goal: at least 60% of their
rate), and that of a phase diagram. ``--noise`` counts false alarms in pure noise
instead.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.stats import beta
from sklearn.cluster import KMeans
from sklearn.decomposition import SparsePCA

from giantstep.core.lab.algebra import multiply
from giantstep.estimators import AMPClustering
from giantstep.problems.subspace_clustering.amp import amp
from giantstep.problems.subspace_clustering.mixture import ClusterMixture
from giantstep.problems.subspace_clustering.rivals import (
    RIVALS,
    rival_labels,
    sparse_penalty,
)

N = 2000
D = 1000
ROWS = {
    "easy": [
        (2, 10, 1.5),
        (2, 100, 1.2),
        (2, 100, 1.5),
        (3, 50, 1.5),
    ],  # above the threshold
    "sparse": [
        (2, 3, 0.5),
        (2, 10, 0.5),
        (2, 3, 0.8),
        (2, 10, 0.8),
        (2, 30, 0.8),
    ],  # below it, few active features
    "fails": [
        (2, 30, 0.5),
        (2, 100, 0.8),
        (2, 1000, 0.9),
    ],  # AMP finds nothing and says so (0.5)
}
Method = Callable[[np.ndarray, int, int, int], np.ndarray]


def data(k: int, s: int, ratio: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw data and labels, with V^T V = s on the s active features."""
    rng = np.random.default_rng([seed, k, s])
    snr = ratio * k / np.sqrt(N / D)
    labels = rng.permutation(np.arange(N) % k)
    V = rng.standard_normal((s, k))
    left, _, right = np.linalg.svd(
        V - V.mean(axis=1, keepdims=True), full_matrices=False
    )
    V = np.sqrt(s) * left[:, : k - 1] @ right[: k - 1]
    X = rng.standard_normal((N, D))
    X[:, rng.permutation(D)[:s]] += np.sqrt(snr / s) * V.T[labels]
    return X, labels


def accuracy(labels: np.ndarray, truth: np.ndarray) -> float:
    """Return the share of right labels under the best relabelling."""
    size = max(labels.max(), truth.max()) + 1
    table = np.zeros((size, size))
    np.add.at(table, (labels, truth), 1)
    return float(table[linear_sum_assignment(-table)].sum() / len(truth))


def by_amp(X: np.ndarray, k: int, s: int, seed: int) -> np.ndarray:
    labels: np.ndarray = AMPClustering(
        k, noise_level="common", random_state=seed
    ).fit_predict(X)
    return labels


def rival(name: str) -> Method:
    """Return a rival as a method; sparse PCA gets a penalty found beforehand, not
    timed.
    """

    def method(X: np.ndarray, k: int, s: int, seed: int) -> np.ndarray:
        if name != "sparse-pca":
            return rival_labels(X, k, name, active=s, seed=seed)
        model = SparsePCA(
            k - 1, alpha=PENALTY[id(X)], ridge_alpha=1e-3, random_state=seed
        )
        labels: np.ndarray = KMeans(k, n_init=4, random_state=seed).fit_predict(
            model.fit_transform(X)
        )
        return labels

    return method


PENALTY: dict[int, float] = {}
"""The penalty of sparse PCA for the data at hand."""
METHODS: dict[str, Method] = {"amp": by_amp, **{name: rival(name) for name in RIVALS}}


def theory(k: int, s: int, ratio: float) -> tuple[float, float]:
    """Return the accuracy of AMP and of the Bayes estimator in the limit."""
    import giantstep as gs

    scenario = gs.SubspaceClustering(
        clusters=k, samples_per_dim=N / D, sparsity=s / D, snr=1.0
    )
    accuracy = gs.predict(scenario, snr=ratio * scenario.threshold)["accuracy"]
    return float(accuracy.sel(branch="uninformed")), float(accuracy.sel(branch="bayes"))


def race(rows: list[tuple[int, int, float]], seeds: int, skip: set[str]) -> None:
    names = [name for name in METHODS if name not in skip]
    print(f"accuracy (seconds), mean of {seeds} data sets, n = {N}, d = {D}")
    print(
        f"{'k':>2} {'s':>5} {'ratio':>5} {'theory':>7} {'Bayes':>6} "
        + " ".join(f"{name:>14}" for name in names)
    )
    for k, s, ratio in rows:
        scores: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
        for seed in range(seeds):
            X, truth = data(k, s, ratio, seed)
            PENALTY.clear()
            if "sparse-pca" in names:
                PENALTY[id(X)] = sparse_penalty(X, s)
            for name in names:
                start = time.perf_counter()
                labels = METHODS[name](X, k, s, seed)
                scores[name].append(
                    (accuracy(labels, truth), time.perf_counter() - start)
                )
        means = {name: np.mean(pairs, axis=0) for name, pairs in scores.items()}
        cells = " ".join(
            f"{means[name][0]:>7.3f} ({means[name][1]:4.2f})" for name in names
        )
        uninformed, best = theory(k, s, ratio)
        print(
            f"{k:>2} {s:>5} {ratio:>5} {uninformed:>7.3f} {best:>6.3f} {cells}",
            flush=True,
        )


def rate(k: int, sweeps: int = 60) -> float:
    """Return the time of the two products of a sweep, the faster of GEMM and p times
    GEMV, over that of the sweep.

    The best of many on both sides, taken in turns: other programs disturb both.
    """
    X, _ = data(k, 50, 1.5, 0)
    rng = np.random.default_rng(0)
    U = rng.standard_normal((N, k - 1))
    V = rng.standard_normal((D, k - 1))
    columns = [
        (np.ascontiguousarray(U[:, c]), np.ascontiguousarray(V[:, c]))
        for c in range(k - 1)
    ]
    sweep = []
    products = []
    for _ in range(4):
        ticks: list[float] = []

        def tick(_: object, ticks: list[float] = ticks) -> None:
            ticks.append(time.perf_counter())

        settings = {
            "max_iterations": sweeps,
            "tolerance": 1e-300,
            "learn": ("sparsity", "snr"),
        }
        amp(
            X,
            ClusterMixture(clusters=k, sparsity=0.05, snr=3.0),
            0.1 * U,
            **settings,
            observe=tick,
        )
        sweep += list(np.diff(ticks))
        for _ in range(sweeps // 2):
            begin = time.perf_counter()
            multiply(X.T, U, np), multiply(X, V, np)
            middle = time.perf_counter()
            for u, v in columns:
                X.T @ u, X @ v
            products += [middle - begin, time.perf_counter() - middle]
    share = min(products) / min(sweep)
    print(
        f"k = {k}: one sweep {1e3 * min(sweep):.2f} ms, its two products"
        f" {1e3 * min(products):.2f} ms: {share:.0%} of their rate (goal 60%)"
    )
    return share


LAWS: dict[str, Callable[[np.random.Generator, tuple[int, int]], np.ndarray]] = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "Student t, 5": lambda rng, shape: rng.standard_t(5, shape),
    "Student t, 3": lambda rng, shape: rng.standard_t(3, shape),
    "Student t, 1.5": lambda rng, shape: rng.standard_t(1.5, shape),
    "exponential": lambda rng, shape: rng.exponential(size=shape),
    "binary, 0.5": lambda rng, shape: 1.0 * (rng.random(shape) < 0.5),
    "binary, 0.05": lambda rng, shape: 1.0 * (rng.random(shape) < 0.05),
    "Poisson, 1": lambda rng, shape: 1.0 * rng.poisson(1.0, shape),
    "unequal units": lambda rng, shape: (
        rng.standard_normal(shape) * np.exp(2 * rng.standard_normal(shape[1]))
    ),
}


def alarms(runs: int) -> None:
    """Count false alarms of the estimator, default settings, in noise of many laws and
    shapes.
    """
    print(
        f"false alarms of AMPClustering (level 1%), {runs} fits each with k = 2, 3 and"
        " chosen among 2..4"
    )
    for shape in ((200, 100), (60, 150), (50, 5), (20, 50)):
        total = 0
        for name, law in LAWS.items():
            chances = []
            for seed in range(runs):
                X = law(np.random.default_rng([seed, *shape]), shape)
                number: int | str = (2, 3, "auto")[seed % 3]
                chances.append(
                    AMPClustering(number, max_clusters=4, random_state=0)
                    .fit(X)
                    .p_value_
                )
            found = int(np.sum(np.array(chances) <= 0.01))
            total += found
            print(
                f"{shape[0]:>4} x {shape[1]:<4} {name:<15} {found:>3} of {runs},"
                f" smallest p {min(chances):.2g}",
                flush=True,
            )
        count = runs * len(LAWS)
        print(
            f"    all laws: {total} of {count}, 95% upper bound"
            f" {beta.ppf(0.95, total + 1, count - total):.2%}"
        )


def diagram() -> None:
    """Time a phase diagram of 50 x 50 points."""
    import giantstep as gs

    base = gs.SubspaceClustering(clusters=2, samples_per_dim=2.0, sparsity=0.1, snr=1.0)
    start = time.process_time()
    gs.predict(
        base, sparsity=np.linspace(0.01, 0.35, 50), snr=np.linspace(0.02, 2.1, 50)
    )
    print(
        f"phase diagram of 50 x 50 points: {time.process_time() - start:.1f} CPU"
        " seconds (goal 60)"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--rows", choices=[*ROWS, "all"], default="all")
    parser.add_argument("--skip", nargs="*", default=[], choices=list(METHODS))
    parser.add_argument(
        "--noise", type=int, metavar="RUNS", help="count false alarms in noise instead"
    )
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.noise:
        alarms(options.noise)
        return
    chosen = [
        row
        for name, rows in ROWS.items()
        if options.rows in (name, "all")
        for row in rows
    ]
    race(chosen, options.seeds, set(options.skip))
    for k in (2, 3, 5, 10):
        rate(k)
    diagram()


if __name__ == "__main__":
    main()
