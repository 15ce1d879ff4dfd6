"""The scenario of subspace clustering: a Gaussian mixture whose cluster means live on a
few features.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from inspect import cleandoc
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from giantstep.core.base.errors import bad_field
from giantstep.core.base.types import Array, Floats
from giantstep.core.scenario.family import PhaseDiagram, Question, Setting, Variable
from giantstep.core.scenario.fields import Integer, Number, Numbers, field
from giantstep.core.scenario.model import Scenario
from giantstep.core.scenario.paper_symbols import Paper, either, notation_of, sqrt
from giantstep.problems.subspace_clustering.mixture import largest_variance


def _pesce2022subspace(
    *,
    alpha: Annotated[float, "n/d"],
    rho: Annotated[float, "fraction of active features"],
    K: Annotated[int, "number of clusters"],
    lambda_: Annotated[float, "signal-to-noise ratio"],
    ratio: Annotated[float, "lambda sqrt(alpha)/K, the axis of the figures"],
) -> dict[str, Any]:
    """Pesce et al. 2022 draw their figures over lambda sqrt(alpha)/K."""
    return {
        "samples_per_dim": alpha,
        "sparsity": rho,
        "clusters": K,
        "snr": either(lambda_, ratio * K / sqrt(alpha)),
    }


PAPERS = {
    "pesce2022subspace": Paper(_pesce2022subspace, shown={"m_u": "M_u", "m_v": "M_v"})
}
"""BibTeX key -> the parameters of that paper."""
BRANCHES = ("uninformed", "informed", "bayes")
"""What AMP reaches without knowledge, with knowledge of the truth, and what is
optimal.
"""
PHASES = ("impossible", "hard", "suboptimal", "optimal")
"""Bayes zero; AMP zero but Bayes not; AMP below Bayes but not zero; AMP is
Bayes-optimal and not zero.
"""
ALGORITHMS = (
    "amp",
    "amp-thresholding",
    "pca",
    "sparse-pca",
    "thresholding",
    "kmeans",
    "bayes",
)
"""Message passing from both starts, its rivals, and the best that is possible (limit
only).
"""
MOST_CLUSTERS = 50
"""Largest number of clusters for which the tables of the assignment channel were
checked.
"""

_START = Setting(
    "spectral",
    "where AMP starts; informed (at `overlap`) follows the informed branch, others the"
    " uninformed",
    engines=("experiment",),
    choices=("spectral", "random", "thresholding", "informed"),
)
_SWEEPS = Setting(400, "sweeps of AMP at most", engines=("experiment",))
_INSTANCE = Setting(
    "balanced",
    "labels, number of active features and strengths as near their means as can be, or"
    " all drawn at random",
    engines=("experiment",),
    choices=("balanced", "random"),
)
_OVERLAPS = (
    Variable(
        "m_u", ("branch",), "m_u", "overlap of the assignments with the truth, 0 to 1"
    ),
    Variable(
        "m_v", ("branch",), "m_v", "overlap of the cluster means with the truth, 0 to 1"
    ),
    Variable(
        "mse_u",
        ("branch",),
        "E|u_hat - u|^2",
        "squared error of the assignments, per sample",
    ),
    Variable(
        "mse_v",
        ("branch",),
        "E|v_hat - v|^2/p",
        "squared error of the cluster means, per feature and direction",
    ),
    Variable(
        "accuracy",
        ("branch",),
        "P(c_hat = c)",
        "fraction of samples in the right cluster, best relabelling",
    ),
    Variable(
        "tpr",
        ("branch",),
        "P(selected|active)",
        "fraction of the active features found (probability above 1/2)",
    ),
    Variable(
        "fpr",
        ("branch",),
        "P(selected|idle)",
        "fraction of the idle features found active",
    ),
    Variable(
        "phi",
        ("branch",),
        "phi",
        "free entropy per dimension: log-evidence over pure noise",
    ),
    Variable(
        "ratio",
        (),
        "lambda/lambda_alg",
        "snr in units of the algorithmic threshold",
        engines=("limit",),
    ),
    Variable(
        "phase",
        (),
        "-",
        "impossible, hard (AMP finds nothing), suboptimal (AMP finds less than is"
        " possible) or optimal",
        engines=("limit",),
    ),
    Variable(
        "amp_iterations",
        (),
        "-",
        "sweeps until AMP stood still",
        engines=("experiment",),
        compared=False,
    ),
    Variable(
        "amp_converged",
        (),
        "-",
        "whether AMP stood still (1) or not (0)",
        engines=("experiment",),
        compared=False,
    ),
)
_NO_THEORY = "the limit does not describe this algorithm, or not these clusters"
_ONLY_ALG = "not computed for three or more clusters of unequal sizes"
_TRAJECTORY = (
    Variable("m_u", ("time",), "m_u(t)", "overlap of the assignments after t sweeps"),
    Variable("m_v", ("time",), "m_v(t)", "overlap of the cluster means in sweep t"),
    Variable(
        "mse_u",
        ("time",),
        "E|u_hat - u|^2",
        "squared error of the assignments, per sample",
    ),
    Variable(
        "mse_v",
        ("time",),
        "E|v_hat - v|^2/p",
        "squared error of the cluster means, per feature and direction",
    ),
    Variable(
        "accuracy",
        ("time",),
        "P(c_hat = c)",
        "fraction of samples in the right cluster",
    ),
)
_THRESHOLDS = tuple(
    Variable(
        name,
        (),
        symbol,
        meaning,
        engines=("limit",),
        absent="" if name == "lam_alg" else _ONLY_ALG,
    )
    for name, symbol, meaning in (
        ("lam_dyn", "lambda_dyn", "snr at which the informed branch appears"),
        ("lam_it", "lambda_IT", "snr above which something can be found at all"),
        ("lam_jump", "lambda_jump", "snr at which the optimal overlap jumps"),
        ("lam_alg", "lambda_alg", "snr above which AMP finds something, k/sqrt(alpha)"),
        ("lam_algB", "lambda_algB", "snr above which AMP is optimal"),
        (
            "ratio_dyn",
            "lambda_dyn/lambda_alg",
            "snr where the informed branch appears, in units of lambda_alg",
        ),
        (
            "ratio_it",
            "lambda_IT/lambda_alg",
            "snr where something can be found at all, in units of lambda_alg",
        ),
        (
            "ratio_jump",
            "lambda_jump/lambda_alg",
            "snr where the optimal overlap jumps, in units of lambda_alg",
        ),
        (
            "ratio_algB",
            "lambda_algB/lambda_alg",
            "snr where AMP is optimal, in units of lambda_alg",
        ),
        ("m_dyn", "m_u", "overlap of the informed branch where it appears"),
        ("m_jump", "m_u", "optimal overlap just above its jump"),
        ("m_algB", "m_u", "overlap that AMP reaches just below lam_algB"),
        ("transition", "-", "continuous (all thresholds are lam_alg) or first-order"),
    )
)
_CRITICAL = (
    Variable(
        "sparsity_c",
        (),
        "rho_c",
        "sparsity above which the transition is continuous",
        engines=("limit",),
    ),
    Variable("m_c", (), "m_u", "overlap at the end of the line", engines=("limit",)),
    Variable(
        "ratio_c",
        (),
        "lambda_c/lambda_alg",
        "snr at the end of the line, over lam_alg",
        engines=("limit",),
    ),
)
_RIVALS = (
    Variable(
        "accuracy",
        ("algorithm",),
        "P(c_hat = c)",
        "fraction of samples in the right cluster, best relabelling",
        absent=_NO_THEORY,
    ),
)
_LINES = {
    "lam_alg": "AMP finds something",
    "lam_it": "something can be found at all",
    "lam_algB": "AMP is optimal",
    "lam_jump": "the optimal overlap jumps",
    "lam_dyn": "the informed branch appears",
}


def _phases(lines: Mapping[str, Floats], snr: Floats) -> Array:
    """Name the phase of every snr between the thresholds; one that is NaN is the same
    as an earlier one.
    """
    lam = snr[:, None]
    alg = lines["lam_alg"]
    jump = lines["lam_jump"]
    possible = np.where(np.isnan(lines["lam_it"]), alg, lines["lam_it"])
    gap = (lam > np.where(np.isnan(jump), alg, jump)) & (lam < lines["lam_algB"])
    return np.select(
        [lam <= np.minimum(possible, alg), lam <= alg, gap], PHASES[:3], PHASES[3]
    )


def _found(lines: Mapping[str, Floats], snr: Floats) -> Array:
    """Name the side of the one threshold that is known of unequal clusters."""
    return np.where(
        snr[:, None] > lines["lam_alg"], "AMP finds something", "AMP finds nothing"
    )


class SubspaceClustering(Scenario):
    """Clustering of a Gaussian mixture whose k means differ on a fraction of the
    features only.

    X = sqrt(snr/(sparsity d)) U V^T + Z, n samples by d features, Z iid N(0, 1); row i
    of U is e_c - weights for a label c, row j of V is N(0, I_k) with probability
    `sparsity`, else zero (a feature is active for all clusters or for none). The limit
    is n, d -> inf with n/d fixed. In it AMP, the best known fast algorithm, follows
    state evolution; with few active features it fails (the hard phase) where exhaustive
    inference would succeed.

    >>> import giantstep as gs
    >>> s = gs.SubspaceClustering(
    ...     clusters=2, sparsity=0.05, snr=1.5, samples_per_dim=2.0
    ... )
    >>> round(s.threshold, 6), str(gs.predict(s, snr=0.9 * s.threshold).phase.values)
    (1.414214, 'hard')
    """

    family: ClassVar[str] = "subspace-clustering"
    title: ClassVar[str] = "Subspace clustering: Gaussian mixture with sparse means"
    update_rule: ClassVar[str] = cleandoc("""
        data    X = sqrt(snr/(sparsity d)) U V^T + Z,  X is n x d,  Z iid N(0,1)
                rows of U: e_c - weights, c one of k = clusters;  rows of V: N(0, I_k) with prob. sparsity, else 0
                mean = "informative": rows of U are e_c, the mean of the data tells which features are active
        AMP     V <- posterior mean of V given X^T U,  U <- posterior mean of U given X V, with Onsager terms
                p = k - 1 coordinates of the assignments, two products with X per sweep
        limit   d -> inf with n/d = samples_per_dim fixed:  b = alpha snr m_u/(rho k),  m_v = m_v(b)
                a = snr m_v,  m_u = m_u(a);  the branch of largest free entropy phi is Bayes-optimal
    """)  # noqa: E501
    questions: ClassVar[Mapping[str, Question]] = {
        "overlaps": Question(
            "overlaps, errors and free entropy of AMP, of the informed branch and of"
            " the Bayes-optimal one; the phase",
            _OVERLAPS,
            settings={
                "start": _START,
                "overlap": Setting(
                    0.6,
                    "overlap of the informed start with the truth",
                    engines=("experiment",),
                ),
                "max_iterations": _SWEEPS,
                "instance": _INSTANCE,
            },
            plot=("m_u", "m_v"),
            labels={"branch": BRANCHES},
        ),
        "trajectory": Question(
            "AMP sweep by sweep beside state evolution, from a start of known overlap"
            " with the truth",
            _TRAJECTORY,
            settings={
                "overlap": Setting(
                    0.1, "overlap m_u of the start with the truth, above 0 and below 1"
                ),
                "steps": Setting(15, "sweeps"),
                "instance": _INSTANCE,
            },
            plot=("m_u", "m_v"),
        ),
        "rivals": Question(
            "accuracy of AMP beside PCA, sparse PCA, diagonal thresholding and k-means"
            " on the same data",
            _RIVALS,
            settings={
                "algorithms": Setting(
                    "all",
                    "which ones, separated by commas: " + ", ".join(ALGORITHMS[:-1]),
                    engines=("experiment",),
                ),
                "max_iterations": _SWEEPS,
                "instance": _INSTANCE,
            },
            plot=("accuracy",),
            labels={"algorithm": ALGORITHMS},
        ),
        "thresholds": Question(
            "the thresholds of the phase diagram in snr, and the overlaps at them; the"
            " snr itself plays no part",
            _THRESHOLDS,
            plot=("ratio_dyn", "ratio_it", "ratio_algB"),
        ),
        "critical": Question(
            "the end of the line of first-order transitions at this k and alpha;"
            " sparsity and snr play no part",
            _CRITICAL,
            plot=("sparsity_c",),
        ),
    }
    theories: ClassVar[Mapping[str, str]] = {
        "exact": "Bayes-optimal state evolution and its free entropy"
    }
    papers: ClassVar[tuple[str, ...]] = ("pesce2022subspace", "lesieur2016phase")
    paper_symbols: ClassVar[Mapping[str, Paper]] = PAPERS
    notation: ClassVar[Mapping[str, Mapping[str, str]]] = notation_of(PAPERS)
    # the same noise, more signal, more rows
    shared_fields: ClassVar[tuple[str, ...]] = (
        "snr",
        "samples_per_dim",
    )

    clusters: Integer = field(
        "k", "number of clusters", default=2, ge=2, le=MOST_CLUSTERS
    )
    sparsity: Number = field(
        "rho", "fraction of the features that are active", gt=0, le=1
    )
    snr: Number = field(
        "lambda",
        "signal-to-noise ratio; lam_alg = k/sqrt(alpha) is where AMP starts to work",
        gt=0,
    )
    samples_per_dim: Number = field("alpha = n/d", "samples per dimension", gt=0)
    mean: Literal["centred", "informative"] = field(
        "mean",
        "whether the assignments are centred, or the mean of the data tells of the"
        " support",
        default="centred",
    )
    weights: Numbers = field(
        "w_c",
        "probabilities of the clusters, in their order; equal if left out",
        default=(),
    )

    def check(self) -> None:
        """Check that the parts fit together."""
        if not self.weights:
            return
        if len(self.weights) != self.clusters:
            raise bad_field(
                "weights",
                list(self.weights),
                f"left out (equal) or {self.clusters} numbers, as clusters",
            )
        if min(self.weights) <= 0 or not math.isclose(
            sum(self.weights), 1.0, abs_tol=1e-9
        ):
            raise bad_field("weights", list(self.weights), "above 0 and sum to one")
        if min(self.weights) < 1e-3:
            raise bad_field("weights", list(self.weights), "at least 0.001 each")
        if self.mean == "informative":
            raise bad_field(
                "weights",
                list(self.weights),
                'left out (equal) where mean="informative"',
            )

    def check_points(self, points: Mapping[str, Floats]) -> None:
        """Refuse other numbers of clusters than there are weights."""
        if self.weights and np.any(points["clusters"] != len(self.weights)):
            raise bad_field(
                "clusters",
                points["clusters"].max(),
                f"{len(self.weights)}, as there are weights",
            )

    @property
    def threshold(self) -> float:
        """The snr lam_alg above which AMP finds something: k/sqrt(alpha), 1/(2 w_1 w_2
        sqrt(alpha)) for two weights.

        In general one over sqrt(alpha) times the largest eigenvalue of the assignments'
        covariance. Where the mean is informative it is lower; ``what="thresholds"``
        says where.
        """
        if self.weights:
            variance = largest_variance(self.weights)
        else:
            variance = 1 / self.clusters
        return 1 / (variance * math.sqrt(self.samples_per_dim))

    def diagram(self) -> PhaseDiagram:
        """Return the plane of sparsity and snr with its thresholds."""
        whole = len(self.weights) < 3 or np.ptp(self.weights) == 0
        return PhaseDiagram(
            "thresholds",
            "sparsity",
            (0.005, 0.35),
            "snr",
            _LINES if whole else {"lam_alg": _LINES["lam_alg"]},
            _phases if whole else _found,
            ("clusters", "samples_per_dim"),
            points=12 if self.mean == "informative" else 32,  # 1 s a threshold there
        )

    @classmethod
    def example(cls) -> SubspaceClustering:
        """Return a small valid scenario."""
        return cls(clusters=2, sparsity=0.3, snr=4.0, samples_per_dim=2.0)
