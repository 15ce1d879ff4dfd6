"""Clustering with few active features: message passing against scikit-learn's methods, accuracy and time in one run.

Run ``python benchmarks/bench_clustering.py [--seeds 3] [--rows easy|sparse|fails]``. Data: n = 2000, d = 1000,
exactly s active features, balanced clusters, unit noise; ratio = snr over the threshold k/sqrt(n/d) of spectral and
message-passing methods. AMP learns all parameters (noise, snr, s, sizes of clusters) from the data. Its rivals are
helped: diagonal thresholding is told s, sparse PCA gets the penalty with which its first component has s entries
(found beforehand, not timed). "theory" is state evolution of AMP without knowledge, "Bayes" the best possible. At the
end: the time of one sweep against its two matrix products (goal: at least 60% of their rate).
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA, SparsePCA

from giantstep.estimators import AMPClustering
from giantstep.families.subspace_clustering.amp import amp
from giantstep.lab.algebra import multiply

N, D = 2000, 1000
ROWS = {
    "easy": [(2, 10, 1.5), (2, 100, 1.2), (2, 100, 1.5), (3, 50, 1.5)],  # above the threshold
    "sparse": [(2, 3, 0.5), (2, 10, 0.5), (2, 3, 0.8), (2, 10, 0.8), (2, 30, 0.8)],  # below it, few active features
    "fails": [(2, 30, 0.5), (2, 100, 0.8), (2, 1000, 0.9)],  # AMP finds nothing and says so (0.5)
}
Method = Callable[[np.ndarray, int, int, int], np.ndarray]


def data(k: int, s: int, ratio: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw data and labels, with V^T V = s on the s active features."""
    rng = np.random.default_rng([seed, k, s])
    snr = ratio * k / np.sqrt(N / D)
    labels = rng.permutation(np.arange(N) % k)
    V = rng.standard_normal((s, k))
    left, _, right = np.linalg.svd(V - V.mean(axis=1, keepdims=True), full_matrices=False)
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


def kmeans(scores: np.ndarray, k: int, seed: int) -> np.ndarray:
    labels: np.ndarray = KMeans(k, n_init=4, random_state=seed).fit_predict(scores)
    return labels


def by_amp(X: np.ndarray, k: int, s: int, seed: int) -> np.ndarray:
    labels: np.ndarray = AMPClustering(k, noise_level="common", random_state=seed).fit_predict(X)
    return labels


def by_pca(X: np.ndarray, k: int, s: int, seed: int) -> np.ndarray:
    return kmeans(PCA(k - 1, svd_solver="covariance_eigh").fit_transform(X), k, seed)


def by_thresholding(X: np.ndarray, k: int, s: int, seed: int) -> np.ndarray:
    kept = X[:, np.argsort(X.var(axis=0))[-max(s, k) :]]
    return kmeans(PCA(k - 1, svd_solver="covariance_eigh").fit_transform(kept), k, seed)


def by_kmeans(X: np.ndarray, k: int, s: int, seed: int) -> np.ndarray:
    return kmeans(X, k, seed)


def penalty(X: np.ndarray, s: int) -> float:
    """Return the penalty at which the first sparse component has s entries (the rank-one problem, by bisection)."""
    Y = X - X.mean(axis=0)
    first = np.linalg.svd(Y, full_matrices=False)[0][:, 0]
    low, high = 0.0, float(np.abs(Y.T @ first).max())
    for _ in range(18):
        g = 0.5 * (low + high)
        u = first
        for _ in range(40):
            v = Y.T @ u
            v = np.sign(v) * np.maximum(np.abs(v) - g, 0)
            if not v.any():
                break
            u = Y @ v / np.linalg.norm(Y @ v)
        low, high = (g, high) if np.count_nonzero(v) > s else (low, g)
    return 0.5 * (low + high)


def by_sparse_pca(X: np.ndarray, k: int, s: int, seed: int) -> np.ndarray:
    model = SparsePCA(k - 1, alpha=PENALTY[id(X)], ridge_alpha=1e-3, random_state=seed)
    return kmeans(model.fit_transform(X), k, seed)


PENALTY: dict[int, float] = {}
"""The penalty of sparse PCA for the data at hand."""
METHODS: dict[str, Method] = {
    "AMP": by_amp,
    "PCA": by_pca,
    "SparsePCA": by_sparse_pca,
    "thresholding": by_thresholding,
    "KMeans": by_kmeans,
}


def theory(k: int, s: int, ratio: float) -> tuple[float, float]:
    """Return the accuracy of AMP and of the Bayes estimator in the limit."""
    import giantstep as gs

    scenario = gs.SubspaceClustering(clusters=k, samples_per_dim=N / D, sparsity=s / D, snr=1.0)
    accuracy = gs.predict(scenario, snr=ratio * scenario.threshold)["accuracy"]
    return float(accuracy.sel(branch="uninformed")), float(accuracy.sel(branch="bayes"))


def race(rows: list[tuple[int, int, float]], seeds: int, skip: set[str]) -> None:
    names = [name for name in METHODS if name not in skip]
    print(f"accuracy (seconds), mean of {seeds} data sets, n = {N}, d = {D}")
    print(f"{'k':>2} {'s':>5} {'ratio':>5} {'theory':>7} {'Bayes':>6} " + " ".join(f"{name:>14}" for name in names))
    for k, s, ratio in rows:
        scores: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
        for seed in range(seeds):
            X, truth = data(k, s, ratio, seed)
            PENALTY.clear()
            if "SparsePCA" in names:
                PENALTY[id(X)] = penalty(X, s)
            for name in names:
                start = time.perf_counter()
                labels = METHODS[name](X, k, s, seed)
                scores[name].append((accuracy(labels, truth), time.perf_counter() - start))
        means = {name: np.mean(pairs, axis=0) for name, pairs in scores.items()}
        cells = " ".join(f"{means[name][0]:>7.3f} ({means[name][1]:4.2f})" for name in names)
        uninformed, best = theory(k, s, ratio)
        print(f"{k:>2} {s:>5} {ratio:>5} {uninformed:>7.3f} {best:>6.3f} {cells}", flush=True)


def rate(k: int, sweeps: int = 60) -> float:
    """Return the time of the two products of a sweep, the faster of GEMM and p times GEMV, over that of the sweep.

    The best of many on both sides, taken in turns: other programs disturb both.
    """
    X, _ = data(k, 50, 1.5, 0)
    rng = np.random.default_rng(0)
    U, V = rng.standard_normal((N, k - 1)), rng.standard_normal((D, k - 1))
    columns = [(np.ascontiguousarray(U[:, c]), np.ascontiguousarray(V[:, c])) for c in range(k - 1)]
    sweep, products = [], []
    for _ in range(4):
        ticks: list[float] = []

        def tick(_: object, ticks: list[float] = ticks) -> None:
            ticks.append(time.perf_counter())

        known = {"clusters": k, "sparsity": 0.05, "snr": 3.0, "learn": True, "start": 0.1 * U}
        amp(X, max_iterations=sweeps, tolerance=1e-300, observe=tick, **known)
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
        f"k = {k}: one sweep {1e3 * min(sweep):.2f} ms, its two products {1e3 * min(products):.2f} ms: "
        f"{share:.0%} of their rate (goal 60%)"
    )
    return share


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--rows", choices=[*ROWS, "all"], default="all")
    parser.add_argument("--skip", nargs="*", default=[], choices=list(METHODS))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    chosen = [row for name, rows in ROWS.items() if options.rows in (name, "all") for row in rows]
    race(chosen, options.seeds, set(options.skip))
    for k in (2, 3, 5, 10):
        rate(k)


if __name__ == "__main__":
    main()
