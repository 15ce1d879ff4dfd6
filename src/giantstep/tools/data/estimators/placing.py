"""Where a dataset lies in the phase diagram of clustering: easy, hard or impossible."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from giantstep.core.base.columns import warn_of_constant
from giantstep.core.base.errors import InputError
from giantstep.core.base.jsondata import json_data
from giantstep.core.base.types import Floats
from giantstep.core.run.verbs import predict
from giantstep.core.scenario.checks import check_whole
from giantstep.problems.subspace_clustering.scenario import (
    MOST_CLUSTERS,
    SubspaceClustering,
)
from giantstep.tools.data.estimators.detection import FALSE_ALARM
from giantstep.tools.data.estimators.fitting import (
    Options,
    fit_clusters,
    numbers_to_try,
)
from giantstep.tools.data.estimators.matrices import check_finite
from giantstep.tools.figures.style import (
    BLACK,
    BLUE,
    GREY,
    VERMILION,
    new_figure,
    plain_log_ticks,
    style,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_VERDICTS = {
    "impossible": "impossible",
    "hard": "hard",
    "suboptimal": "easy",
    "optimal": "easy",
}
_NEAR = 0.15
"""Relative distance from a line of the diagram within which the verdict is not sure."""
_MOST_TRIED = 8
"""The most clusters that are tried where their number is not given."""


@dataclass(frozen=True)
class Placement:
    """Parameters of a dataset, and what the theory says about data with such
    parameters.

    Attributes
    ----------
    samples, features : size of the data; constant features are not counted.
    constant_features : features that do not vary.
    clusters : number of clusters, given or chosen; where none were found, the number
        that was looked for.
    found : whether there is evidence for clusters.
    evidence : log-evidence of the clusters over noise.
    p_value : bound on the chance that noise with independent features looks as
        clustered.
    noise_level : median noise level of the features.
    samples_per_dim : n/d.
    sparsity, active_features : fraction and number of features that tell the clusters
        apart; NaN where none were found.
    snr : signal-to-noise ratio lambda, as in `giantstep.SubspaceClustering`; where
        clusters differ in size, that of equal ones with as much signal.
    ratio : snr over the threshold k/sqrt(n/d) of fast methods.
    snr_possible, snr_easy : where the theory draws its lines for data of this shape, in
        units of the snr.
    verdict : ``"easy"`` (message passing works), ``"hard"`` (the clusters can be seen
        in principle, but fast methods need luck), ``"impossible"``, or ``"not found"``.
    phase : the same in the words of the theory; empty where no clusters were found.
    accuracy, best_accuracy : fraction of right labels of message passing and of the
        best method, in the limit.
    expected_accuracy : the same as the fit on these data expects it.
    samples_for_easy : samples at which these clusters become easy.
    most_tried : whether the largest number of clusters that was tried won.
    """

    samples: int
    features: int
    constant_features: int
    clusters: int
    found: bool
    evidence: float
    p_value: float
    noise_level: float
    samples_per_dim: float
    sparsity: float
    active_features: float
    snr: float
    ratio: float
    snr_possible: float
    snr_easy: float
    verdict: str
    phase: str
    accuracy: float
    best_accuracy: float
    expected_accuracy: float
    samples_for_easy: float
    most_tried: bool

    def sentence(self) -> str:
        """Say the verdict in one or two sentences."""
        if not self.found:
            return (
                "No clusters were found: the data are noise, or their snr is below"
                f" {self.snr_easy:.3g}, where {self.clusters} clusters become easy with"
                " so many samples; such data cannot tell whether weaker ones are hard"
                " or impossible to find."
            )
        near = (
            min(abs(self.snr / line - 1) for line in (self.snr_possible, self.snr_easy))
            < _NEAR
        )
        if near:
            doubt = " It lies near a line of the diagram, so take this as a guess."
        else:
            doubt = ""
        if self.phase == "suboptimal":
            how = ", though not as well as is possible."
        else:
            how = " as well as is possible."
        said = {
            "easy": f"Easy: fast methods find the clusters{how}",
            "hard": (
                "Hard: the clusters can be seen in principle, but fast methods find"
                " them only with luck, where few features are active, as here; from"
                f" {self.samples_for_easy:.0f} samples on they are easy."
            ),
            "impossible": (
                "Impossible in the limit of large data: what was found here leans on"
                f" the finite size; from {self.samples_for_easy:.0f} samples on the"
                " clusters are easy."
            ),
        }
        if self.most_tried:
            doubt += (
                " The evidence still grows at the largest number of clusters that was"
                " tried: features that are correlated inside clusters do that, so give"
                " the number if you know it."
            )
        return said[self.verdict] + doubt

    def report(self) -> str:
        """Return the parameters and the verdict as lines of text."""
        if self.constant_features:
            constant = f" ({self.constant_features} constant ones left out)"
        else:
            constant = ""
        lines = [
            ("data", f"{self.samples} samples, {self.features} features{constant}"),
            ("samples per feature", f"{self.samples_per_dim:.4g}"),
            ("noise level", f"{self.noise_level:.4g} (median of the features)"),
            ("clusters", f"{self.clusters}" if self.found else "none found"),
            (
                "chance in noise",
                f"{self.p_value:.2g} at most ({FALSE_ALARM:g} is asked for)",
            ),
        ]
        if self.found:
            lines += [
                (
                    "active features",
                    f"{self.active_features:.0f} (sparsity {self.sparsity:.3g})",
                ),
                (
                    "snr",
                    (
                        f"{self.snr:.4g} = {self.ratio:.3g} times the threshold of fast"
                        " methods"
                    ),
                ),
                ("possible from", f"snr {self.snr_possible:.4g}"),
                ("easy from", f"snr {self.snr_easy:.4g}"),
                (
                    "accuracy in the limit",
                    (
                        f"{self.accuracy:.3f} by message passing,"
                        f" {self.best_accuracy:.3f} at best"
                    ),
                ),
                ("accuracy expected here", f"{self.expected_accuracy:.3f}"),
            ]
        width = max(len(name) for name, _ in lines)
        return "\n".join(
            [
                *(f"{name:<{width}}  {value}" for name, value in lines),
                "",
                self.sentence(),
            ]
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything as strict JSON data, null for what was not computed."""
        return json_data({**asdict(self), "sentence": self.sentence()})

    def plot(self, path: str | Path | None = None) -> Figure:
        """Draw the phase diagram of data of this shape with the point in it; write it
        where a path is given.
        """
        from giantstep.tools.figures.shown import shown_after_cell

        with style():
            figure = _draw_diagram(self)
            if path is not None:
                figure.savefig(path)
        return shown_after_cell(figure)


def place(X: ArrayLike, n_clusters: int | str = "auto", *, seed: int = 0) -> Placement:
    """Estimate the parameters of a dataset and say whether clusters in it are easy,
    hard or impossible to find.

    Parameters
    ----------
    X : (n, d) finite real numbers, rows = samples; features may have any offsets and
        units.
    n_clusters : number of clusters; ``"auto"`` takes the one from 2 to 8 with the
        largest evidence.
    seed : random starts.

    Examples
    --------
    >>> import giantstep as gs
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((600, 300))
    >>> X[:, :15] += np.where(np.arange(600) % 2, 0.5, -0.5)[:, None]
    >>> gs.place(X).verdict
    'easy'
    """
    matrix = _check_matrix(X)
    fit = fit_clusters(
        matrix,
        _numbers(n_clusters, *matrix.shape),
        Options(),
        np.random.default_rng(seed),
    )
    n = len(matrix)
    d = int(fit.data.varies.sum())
    k = fit.n_clusters
    run = fit.run
    known: dict[str, Any] = {
        "samples": n,
        "features": d,
        "constant_features": matrix.shape[1] - d,
        "clusters": k,
        "found": run is not None and fit.p_value <= FALSE_ALARM,
        "evidence": float(fit.evidence),
        "p_value": float(fit.p_value),
        "noise_level": float(np.median(fit.data.noise[fit.data.varies])) if d else 0.0,
        "samples_per_dim": n / d if d else math.inf,
        "most_tried": n_clusters == "auto" and k == _MOST_TRIED,
    }
    warn_of_constant(~fit.data.varies, getattr(X, "columns", None))
    threshold = k * math.sqrt(d / n)
    if run is None or not known["found"]:
        unknown = [
            column.name
            for column in fields(Placement)
            if column.type == "float" and column.name not in known
        ]
        lost: dict[str, Any] = {
            **dict.fromkeys(unknown, math.nan),
            "snr_easy": threshold,
        }
        return Placement(**known, **lost, verdict="not found", phase="")
    sparsity = float(np.clip(run.mixture.sparsity, 1e-6, 1.0))
    # chance that two samples are of different clusters
    unlike = 1 - np.sum(np.square(run.mixture.weights))
    # of equal clusters with as much signal
    snr = float(run.mixture.snr * k * unlike / (k - 1))
    scenario = SubspaceClustering(
        clusters=k, samples_per_dim=n / d, sparsity=sparsity, snr=snr
    )
    lines = predict(scenario, what="thresholds")
    point = predict(scenario)
    phase = str(point["phase"].values)
    return Placement(
        **known,
        sparsity=sparsity,
        active_features=sparsity * d,
        snr=snr,
        ratio=snr / threshold,
        snr_possible=float(lines["lam_it"]),
        snr_easy=float(lines["lam_alg"]),
        verdict=_VERDICTS[phase],
        phase=phase,
        accuracy=float(point["accuracy"].sel(branch="uninformed")),
        best_accuracy=float(point["accuracy"].sel(branch="bayes")),
        expected_accuracy=float(np.asarray(run.posteriors).max(axis=1).mean()),
        samples_for_easy=max(k, math.ceil(d * (k / snr) ** 2)),
    )


def _check_matrix(X: ArrayLike) -> Floats:
    if hasattr(X, "tocsr"):
        raise InputError(
            "X is a sparse matrix, but a dense one is needed; X.toarray() makes one."
        )
    try:
        matrix = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(
            "X must be a matrix of real numbers, rows = samples."
        ) from None
    if matrix.ndim != 2 or min(matrix.shape) < 2:
        raise InputError(
            "X must be a matrix of at least 2 samples and 2 features, but has the"
            f" shape {matrix.shape}."
        )
    check_finite(matrix)
    return matrix


def _numbers(n_clusters: int | str, n: int, d: int) -> list[int]:
    if isinstance(n_clusters, str) and n_clusters == "auto":
        return numbers_to_try(_MOST_TRIED, n, d)
    allowed = f'a whole number from 2 to {MOST_CLUSTERS}, or "auto"'
    number = check_whole("n_clusters", n_clusters, allowed, 2, MOST_CLUSTERS)
    if number > min(n, d + 1):
        raise InputError(
            f"{number} clusters need as many samples and features, but X has the shape"
            f" {n} x {d}."
        )
    return [number]


def _draw_diagram(placed: Placement) -> Figure:
    """Draw the lines of the diagram at this number of clusters and of samples per
    feature, and the point.
    """
    alpha = placed.samples_per_dim
    rho = placed.sparsity
    lowest = min(3e-3, rho / 3) if placed.found else 3e-3
    sparsities = np.geomspace(lowest, 1.0, 24)
    scenario = SubspaceClustering(
        clusters=placed.clusters, samples_per_dim=alpha, sparsity=0.1, snr=1.0
    )
    possible = predict(scenario, what="thresholds", sparsity=sparsities)[
        "ratio_it"
    ].values
    ratio = placed.ratio if placed.found else 1.0
    bottom = min(0.15, possible[0] / 1.5, ratio / 1.5)
    top = max(3.0, 2 * ratio)
    figure, (axes,) = new_figure(1, 1, width=5.2, height=3.8)
    axes.fill_between(sparsities, bottom, possible, color=GREY, alpha=0.25, lw=0)
    axes.fill_between(
        sparsities, possible, 1, where=possible < 1, color=VERMILION, alpha=0.3, lw=0
    )
    axes.fill_between(sparsities, 1, top, color=BLUE, alpha=0.16, lw=0)
    axes.plot(
        sparsities,
        possible,
        color=VERMILION,
        label=r"possible from here ($\lambda_{IT}$)",
    )
    axes.axhline(
        1.0, color=BLUE, label=r"easy from here ($\lambda_{alg}=k/\sqrt{\alpha}$)"
    )
    axes.set(xscale="log", yscale="log", xlim=(lowest, 1.0), ylim=(bottom, top))
    plain_log_ticks(axes.yaxis)
    words = (
        ("easy", 0.02, math.sqrt(top)),
        ("hard", 0.02, math.sqrt(possible[1])),
        ("impossible", 0.8, 0.6),
    )
    for word, x, y in words:
        axes.text(
            x,
            y,
            word,
            transform=axes.get_yaxis_transform(),
            color=GREY,
            style="italic",
            va="center",
        )
    if placed.found:
        axes.plot(
            rho, ratio, marker="*", ms=15, color=BLACK, mec="white", ls="none", zorder=5
        )
        left = rho > math.sqrt(lowest)  # the words go to the side with more space
        axes.annotate(
            f"you are here: {placed.verdict}",
            (rho, ratio),
            (-12 if left else 12, 0),
            textcoords="offset points",
            ha="right" if left else "left",
            va="center",
            zorder=5,
        )
    else:
        axes.annotate(
            "no clusters found: noise, or somewhere below this line",
            (0.5, 1.0),
            (0, 4),
            ha="center",
            va="bottom",
            xycoords=axes.get_yaxis_transform(),
            textcoords="offset points",
        )
    axes.set_xlabel(r"fraction of active features, $\rho$")
    axes.set_ylabel(r"snr over threshold, $\lambda\sqrt{\alpha}/k$")
    axes.set_title(
        f"k = {placed.clusters} clusters, n/d = {alpha:.3g} ({placed.samples} x"
        f" {placed.features})"
    )
    axes.legend(loc="lower right")
    return figure
