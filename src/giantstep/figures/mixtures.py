"""Pesce, Krzakala, Loureiro and Stephan, ICML 2023, and what lies around it: when one Gaussian is enough."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep.errors import InputError
from giantstep.figures.panels import engines, experiment_points, key, letter, limit_line
from giantstep.figures.recipes import Bench, Recipe
from giantstep.figures.style import BLACK, BLUE, GREEN, GREY, MARKERS, ORANGE, PURPLE, VERMILION, new_figure

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from giantstep.families.mixture_glm.scenario import MixtureGLM

SEED = 2302
DASHED, DOTTED = (0, (5, 2)), (0, (1, 1.3))
ALPHA = r"samples per dimension,  $\alpha = n/d$"


def glm(**fields: Any) -> MixtureGLM:
    """Return a scenario."""
    from giantstep import MixtureGLM

    return MixtureGLM(**fields)


def _experiment(dim: int) -> str:
    return rf"experiment, $d = {dim}$, $\pm$ 1 s.e."


# -- ridgeless least squares: universality of the training loss ---------------------------------------------


def ridgeless(bench: Bench) -> Figure:
    """Draw training and test error of least squares without a ridge: Gaussians, a mixture, features of digits."""
    figure, axes = new_figure(1, 2, width=10.4, height=4.1)
    sizes = {"dim": bench.sized(200, 1000), "trials": bench.sized(10, 20), "seed": SEED}
    few, many = [0.35, 0.55, 0.75], [1.3, 1.6, 2.0, 2.5, 3.0, 4.0]
    two = {"weights": [0.5, 0.5], "covariances": [0.2, 1.8]}
    populations: list[tuple[str, str, float, str, str, dict[str, Any]]] = [
        ("gaussian", r"one Gaussian, identity, $\Delta = 0.3$", 0.3, BLUE, MARKERS[0], {}),
        ("noisy", r"one Gaussian, identity, $\Delta = 3$", 3.0, PURPLE, MARKERS[3], {}),
        ("mixture", r"two covariances, $0.2\,I$ and $1.8\,I$, $\Delta = 0.3$", 0.3, VERMILION, MARKERS[1], two),
    ]
    keys = []
    for name, text, noise, colour, marker, fields in populations:
        base = glm(labels="linear", noise=noise, samples_per_dim=2.0, **fields)
        under = base.replace(loss="interpolate", samples_per_dim=0.5)
        for part, scenario, grid in ((f"{name}-few", under, few), (f"{name}-many", base, many)):
            judged = ("test_error", "train_loss") if part.endswith("many") else ("test_error",)
            result = bench.compare(
                part, scenario, {"samples_per_dim": grid}, meaning=f"least squares without a ridge, {name}",
                judged=judged, **sizes,
            )  # fmt: skip
            _scaled_points(axes[0], grid, result, "train_loss", 2 / noise, colour, marker)
            _scaled_points(axes[1], grid, result, "test_error", 1 / noise, colour, marker)
        for part, scenario, fine in (
            (f"{name}-under", under, np.linspace(0.3, 0.93, bench.sized(22, 64))),
            (f"{name}-over", base, np.linspace(1.07, 4.0, bench.sized(40, 120))),
        ):
            line = bench.predict(part, scenario, {"samples_per_dim": fine})
            limit_line(axes[1], fine, line["test_error"] / noise, colour)
        keys.append(key(colour, marker, text))
    keys.append(_digit_features(bench, axes, 0.3, many))
    fine = np.linspace(1.0, 4.0, 200)
    limit_line(axes[0], fine, 1 - 1 / fine, BLACK, linewidth=1.2)
    limit_line(axes[0], [0.3, 1.0], [0.0, 0.0], BLACK, linewidth=1.2)
    for panel in axes:
        panel.set_xlim(0.25, 4.1)
        panel.set_xlabel(ALPHA)
    axes[0].set_ylabel(r"training error / noise,  $2\,\mathcal{E}_{\rm train}/\Delta$")
    axes[1].set_ylabel(r"test error / noise,  $\mathcal{E}_{\rm test}/\Delta$")
    axes[1].set_ylim(0.9, 9.0)
    marks = [key(BLACK, "", r"limit, $1 - 1/\alpha$ for all"), engines(axes[0], _experiment(sizes["dim"]))[1]]
    axes[0].legend(handles=marks, loc="lower right")
    axes[1].legend(handles=keys, loc="upper right")
    letter(axes[0], "a", r"training error without a ridge: one curve, $\lambda \to 0$")
    letter(axes[1], "b", "test error: not universal")
    return figure


def _scaled_points(
    axes: Axes, x: Any, result: xarray.Dataset, name: str, factor: float, colour: str, marker: str
) -> None:
    scaled = result[[name, f"{name}_stderr"]] * factor
    experiment_points(axes, x, scaled, name, colour, marker)


def digit_inputs() -> tuple[Any, Any]:
    """Return the pixels of scikit-learn's digits that vary, and the digits."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise InputError(
            "This figure uses the digits of scikit-learn, which is not installed (install giantstep[estimators])."
        ) from None
    pixels, digits = load_digits(return_X_y=True)
    return pixels[:, pixels.std(axis=0) > 0], digits


def _digit_features(bench: Bench, axes: list[Axes], noise: float, grid: list[float]) -> Any:
    """Add random erf features of digits with random teachers; each teacher is a dataset of its own."""
    from scipy.special import erf

    from giantstep import MixtureGLM

    rng = np.random.default_rng(SEED)
    pixels, _ = digit_inputs()
    pixels = (pixels - pixels.mean(axis=0)) / pixels.std()
    width, teachers = 300, bench.sized(4, 12)
    features = erf(pixels @ rng.standard_normal((pixels.shape[1], width)) / np.sqrt(pixels.shape[1]))
    features = (features - features.mean(axis=0)) / features.std()
    train, test = [], []
    for number in range(teachers):
        labels = features @ rng.standard_normal(width) / np.sqrt(width)
        added = np.sqrt(noise) * rng.standard_normal(len(labels))
        level = float(np.mean(added**2))  # the noise of so few rows is not exactly what was asked for
        labels = labels + added
        scenario = MixtureGLM.from_data(features, labels, ridge=0.0, samples_per_dim=2.0, scale="global")
        result = bench.compare(
            f"digits-{number + 1}", scenario, {"samples_per_dim": grid}, meaning="erf features of digits", judged=(),
            dim=width, trials=bench.sized(3, 5), seed=SEED + number,
        ).sel(source="experiment")  # fmt: skip
        train.append(2 * result["train_loss"].values / level)
        test.append(result["test_error"].values / level)
    for panel, rows in zip(axes, (train, test)):
        mean, error = np.mean(rows, axis=0), np.std(rows, axis=0, ddof=1) / np.sqrt(teachers)
        panel.errorbar(
            grid, mean, error, linestyle="none", marker=MARKERS[2], color=GREEN, markerfacecolor="white", zorder=3
        )
    alpha = np.round(np.array(grid) * width) / width
    gap = np.mean(train, axis=0) / (1 - 1 / alpha) - 1
    bench.check(
        "largest relative distance of the training error of digit features from 1 - 1/alpha", float(np.abs(gap).max()),
        f"{teachers} random teachers on {width} random erf features", line=0.05,
    )  # fmt: skip
    return key(GREEN, MARKERS[2], f"erf features of digits, $d = {width}$", linestyle="none")


# -- logistic regression without a ridge ---------------------------------------------------------------------


def separability(bench: Bench) -> Figure:
    """Draw logistic regression without a ridge on both sides of the separability threshold."""
    figure, axes = new_figure(1, 2, width=10.4, height=4.1)
    sizes = {"dim": bench.sized(200, 500), "trials": bench.sized(10, 24), "seed": SEED + 1}
    for noise, colour, marker in ((0.3, BLUE, MARKERS[0]), (3.0, VERMILION, MARKERS[1])):
        base = glm(labels="sign", noise=noise, loss="logistic", ridge=0.0, samples_per_dim=6.0)
        below = base.replace(loss="maxmargin", samples_per_dim=1.0)
        critical = float(bench.predict(f"threshold-{noise:g}", base, {}, what="thresholds")["alpha_c"])
        known = {0.3: 3.8635316, 3.0: 2.2548679}[noise]
        bench.check(
            f"distance of alpha_c at noise {noise:g} from {known}", abs(critical - known), "the notes' value", line=2e-7
        )
        low = [alpha for alpha in (0.6, 1.0, 1.5, 2.0, 2.6, 3.2) if alpha < 0.85 * critical]
        high = [alpha for alpha in (3.0, 3.5, 4.0, 4.75, 5.25, 6.0) if alpha > 1.2 * critical]
        for part, scenario, grid, judged in (
            (f"margin-{noise:g}", below, low, ("test_error",)),
            (f"logistic-{noise:g}", base, high, ("test_error", "train_loss")),
        ):
            result = bench.compare(
                part, scenario, {"samples_per_dim": grid}, meaning=f"no ridge, Delta = {noise:g}, {scenario.loss}",
                judged=judged, **sizes,
            )  # fmt: skip
            experiment_points(axes[0], grid, result, "test_error", colour, marker)
            experiment_points(axes[1], grid, result, "train_loss", colour, marker)
        for part, scenario, fine in (
            (f"margin-line-{noise:g}", below, np.linspace(0.6, 0.999 * critical, bench.sized(24, 60))),
            (f"logistic-line-{noise:g}", base, critical + np.geomspace(0.02, 6.0 - critical, bench.sized(24, 60))),
        ):
            line = bench.predict(part, scenario, {"samples_per_dim": fine})
            limit_line(axes[0], fine, line["test_error"], colour)
            limit_line(axes[1], fine, line["train_loss"], colour)
        for panel in axes:
            panel.axvline(critical, color=colour, linewidth=0.9, linestyle=DOTTED, zorder=0)
        axes[0].annotate(
            rf"$\alpha_c = {critical:.3f}$", (critical, 0.985), xycoords=axes[0].get_xaxis_transform(),
            xytext=(3, 0), textcoords="offset points", va="top", fontsize=8, color=colour,
        )  # fmt: skip
    keys = [key(BLUE, MARKERS[0], r"noise $\Delta = 0.3$"), key(VERMILION, MARKERS[1], r"noise $\Delta = 3$")]
    axes[1].legend(handles=[*keys, *engines(axes[1], _experiment(sizes["dim"]))], loc="upper left")
    for panel, text in zip(axes, ("misclassified fresh samples", "training loss")):
        panel.set_xlim(0.5, 6.1)
        panel.set_xlabel(ALPHA)
        panel.set_ylabel(text)
    axes[0].set_ylim(0.19, 0.5)
    letter(axes[0], "a", r"logistic regression, $\lambda \to 0$: test error")
    letter(axes[1], "b", r"training loss: zero up to $\alpha_c$")
    return figure


# -- a teacher that leans towards the means ------------------------------------------------------------------


def correlated(bench: Bench) -> Figure:
    """Draw the mixture and its two single Gaussians while the teacher turns from the means to orthogonal to them."""
    figure, axes = new_figure(1, 2, width=10.4, height=4.1)
    sizes = {"dim": bench.sized(300, 1000), "trials": bench.sized(10, 15), "seed": SEED + 2}
    panels: tuple[tuple[Axes, dict[str, Any], float, str], ...] = (
        (axes[0], {"labels": "linear", "loss": "square", "ridge": 0.7, "samples_per_dim": 1.2}, 2.0, "linear"),
        (axes[1], {"labels": "sign", "loss": "logistic", "ridge": 0.1, "samples_per_dim": 2.0}, 1.0, "sign"),
    )
    for panel, fields, factor, name in panels:
        _turning(panel, bench, fields, factor, name, sizes)
    keys = [
        key(BLUE, "o", "mixture of two clusters"),
        key(VERMILION, "", "one Gaussian, matched mean and covariance", DASHED),
        key(GREEN, "", "one Gaussian, covariance within clusters", DOTTED),
    ]
    axes[0].legend(handles=[*keys, *engines(axes[0], _experiment(sizes["dim"]))], loc="lower right")
    axes[0].set_ylim(bottom=0.088)
    axes[0].set_ylabel(r"training error,  $2\,\mathcal{E}_{\rm train}$")
    axes[1].set_ylabel("training loss")
    letter(axes[0], "a", r"ridge, linear labels ($\lambda = 0.7$, $\alpha = 1.2$): matched $=$ mixture")
    letter(axes[1], "b", r"logistic, sign labels ($\lambda = 0.1$, $\alpha = 2$): neither")
    return figure


def _turning(axes: Axes, bench: Bench, fields: dict[str, Any], factor: float, name: str, sizes: dict[str, Any]) -> None:
    """Draw one panel: the training loss against Omega, with <mu, theta0>/sqrt(d) = sqrt(1 - Omega^2)."""
    shown = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
    fine = np.unique(np.append(shown, np.linspace(0.0, 1.0, bench.sized(9, 21))))
    lines: dict[str, list[float]] = {"mixture": [], "matched": [], "within": []}
    for omega in fine:
        tau = float(np.sqrt(max(1 - omega**2, 0.0)))
        scenario = glm(weights=[0.5, 0.5], mean_gram=[[1, -1], [-1, 1]], teacher_means=[tau, -tau], **fields)
        part = f"{name}-{omega:.3g}"
        if omega in shown:
            result = bench.compare(
                part, scenario, {}, meaning=f"{name} labels, Omega = {omega:g}", judged=("train_loss",), **sizes
            )
            _scaled_points(axes, omega, result, "train_loss", factor, BLUE, "o")
            own = float(result["train_loss"].sel(source="limit"))
        else:
            own = float(bench.predict(part, scenario, {})["train_loss"])
        gaps = bench.predict(f"{part}-gaps", scenario, {}, what="universality")["train_loss"]
        lines["mixture"].append(factor * own)
        for reference in ("matched", "within"):
            lines[reference].append(factor * (own - float(gaps.sel(reference=reference))))
    limit_line(axes, fine, lines["mixture"], BLUE)
    limit_line(axes, fine, lines["matched"], VERMILION, linestyle=DASHED)
    limit_line(axes, fine, lines["within"], GREEN, linestyle=DOTTED)
    axes.set_xlabel(r"$\Omega$  (0: teacher along the means, 1: orthogonal)")
    if name == "linear":
        known = np.array([0.0955166, 0.0962628, 0.0985015, 0.1022326, 0.1074561])
        drawn = np.array(lines["mixture"])[np.isin(fine, shown)]
        bench.check(
            "distance of the mixture from the notes", float(np.abs(drawn - known).max()), "five values", line=1e-7
        )
        gap = float(np.abs(np.array(lines["mixture"]) - lines["matched"]).max())
        bench.check("gap to the matched Gaussian, ridge and linear labels", gap, "exactly zero in theory", line=1e-9)
    else:
        gap = abs(lines["mixture"][0] / lines["matched"][0] - 1)
        bench.check("relative gap to the matched Gaussian at Omega = 0, logistic", gap, "real", line=0.05, above=True)


# -- clusters of unequal covariance --------------------------------------------------------------------------


def unequal(bench: Bench) -> Figure:
    """Draw a mixture of two scales beside one Gaussian of the mean covariance, against the ridge."""
    figure, axes = new_figure(1, 3, width=13.2, height=4.0)
    sizes = {"dim": bench.sized(200, 600), "trials": bench.sized(12, 20), "seed": SEED + 3}
    shown = np.geomspace(0.03, 10.0, 7)
    fine = np.geomspace(0.03, 10.0, bench.sized(25, 80))
    cases: tuple[tuple[str, dict[str, Any], str, str, int], ...] = (
        ("ridge", {"labels": "linear", "noise": 0.1, "loss": "square"}, BLUE, MARKERS[0], 2),
        ("logistic", {"labels": "sign", "loss": "logistic"}, VERMILION, MARKERS[1], 1),
        ("hinge", {"labels": "sign", "loss": "hinge"}, GREEN, MARKERS[2], 1),
    )
    keys = []
    for name, fields, colour, marker, place in cases:
        scenario = glm(weights=[0.5, 0.5], covariances=[0.2, 1.8], samples_per_dim=2.0, ridge=0.1, **fields)
        result = bench.compare(
            name, scenario, {"ridge": shown}, meaning=f"two scales, {name}", judged=("train_loss", "test_error"),
            **sizes,
        )  # fmt: skip
        line = bench.predict(f"{name}-line", scenario, {"ridge": fine})
        gaps = bench.predict(f"{name}-gaps", scenario, {"ridge": fine}, what="universality").sel(reference="matched")
        for panel, variable in ((axes[0], "train_loss"), (axes[place], "test_error")):
            experiment_points(panel, shown, result, variable, colour, marker)
            limit_line(panel, fine, line[variable], colour)
            limit_line(panel, fine, line[variable] - gaps[variable], colour, linestyle=DASHED, linewidth=1.1)
        text = r"ridge, linear labels, $\Delta = 0.1$" if name == "ridge" else f"{name}, sign labels"
        keys.append(key(colour, marker, text))
    keys += [*engines(axes[0], _experiment(sizes["dim"]), line="limit of the mixture")]
    keys.append(key(GREY, "", r"limit of one Gaussian, $\Sigma = I$", DASHED))
    for panel, text in zip(axes, ("training loss", "misclassified fresh samples", "squared error on fresh samples")):
        panel.set_xscale("log")
        panel.set_xlabel(r"ridge,  $\lambda$")
        panel.set_ylabel(text)
    axes[0].legend(handles=keys, loc="upper left")
    letter(axes[0], "a", r"covariances $0.2\,I$ and $1.8\,I$, $\alpha = 2$")
    letter(axes[1], "b", "test error of classes")
    letter(axes[2], "c", "test error of real labels")
    return figure


# -- random labels on three blocks ---------------------------------------------------------------------------


def random_labels(bench: Bench) -> Figure:
    """Draw the training loss of random labels where two clusters live in different blocks of coordinates."""
    from giantstep import Blocks

    figure, axes = new_figure(1, 2, width=10.4, height=4.1)
    sizes = {"dim": bench.sized(150, 600), "trials": bench.sized(12, 20), "seed": SEED + 4}
    thirds = Blocks([1 / 3, 1 / 3, 1 / 3], [[0.01, 0.98, 0.01], [0.495, 0.01, 0.495]])
    grid = [0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0]
    cases = (
        (axes[0], "square", 0.1, BLUE, MARKERS[0], r"$\lambda = 0.1$"),
        (axes[0], "square", 1e-4, VERMILION, MARKERS[1], r"$\lambda = 10^{-4}$"),
        (axes[1], "hinge", 0.1, BLUE, MARKERS[0], r"$\lambda = 0.1$"),
        (axes[1], "hinge", 0.02, VERMILION, MARKERS[1], r"$\lambda = 0.02$"),
    )
    for panel, loss, ridge, colour, marker, text in cases:
        scenario = glm(
            weights=[0.5, 0.5], covariances=thirds, labels="random", loss=loss, ridge=ridge, samples_per_dim=2.0
        )
        name = f"{loss}-{ridge:g}"
        asked = {"samples_per_dim": grid}
        judged = ("train_loss",) if ridge > 1e-3 else ()
        result = bench.compare(
            name, scenario, asked, meaning=f"random labels, {loss}, lambda = {ridge:g}", judged=judged, **sizes
        )
        fine = np.linspace(0.1, 4.0, bench.sized(20, 60))
        line = bench.predict(f"{name}-line", scenario, {"samples_per_dim": fine})
        gaps = bench.predict(f"{name}-gaps", scenario, {"samples_per_dim": fine}, what="universality")
        experiment_points(panel, grid, result, "train_loss", colour, marker)
        limit_line(panel, fine, line["train_loss"], colour, text)
        one = line["train_loss"] - gaps["train_loss"].sel(reference="matched")
        limit_line(panel, fine, one, colour, linestyle=DASHED, linewidth=1.1)
        if loss == "square" and ridge < 0.1:
            apart = float(np.abs(gaps["train_loss"].values / line["train_loss"].values[:, None])[fine > 1.2].max())
            bench.check(
                "relative gap to one Gaussian, square loss, small ridge, alpha > 1.2", apart,
                "it vanishes with the ridge: strong universality", line=0.02,
            )  # fmt: skip
    for panel, loss in zip(axes, ("square", "hinge")):
        handles, _ = panel.get_legend_handles_labels()
        gaussian = key(GREY, "", "limit of one Gaussian", DASHED)
        panel.legend(handles=[*handles[:2], *engines(panel, _experiment(sizes["dim"])), gaussian], loc="upper left")
        panel.set_xlabel(ALPHA)
        panel.set_ylabel(f"training loss ({loss})")
        panel.set_xlim(0.0, 4.1)
    letter(axes[0], "a", "random labels, clusters in different blocks: square loss")
    letter(axes[1], "b", "hinge loss: one Gaussian is not enough")
    return figure


# -- sparse means --------------------------------------------------------------------------------------------


def sparse_means(bench: Bench) -> Figure:
    """Draw lasso and ridge where only half of the coordinates, the quiet ones, tell the clusters apart."""
    from giantstep import Blocks

    figure, axes = new_figure(1, 2, width=10.4, height=4.1)
    sizes = {"dim": bench.sized(200, 800), "trials": bench.sized(12, 24), "seed": SEED + 5}
    halves = Blocks([0.5, 0.5], [[0.1, 1.0], [0.1, 1.0]], means=[[[1, -1], [-1, 1]], [[0, 0], [0, 0]]])
    grid = [0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0]
    fine = np.linspace(0.12, 2.0, bench.sized(24, 60))
    cases = (
        ("lasso", {"l1": 0.1}, BLUE, MARKERS[0], r"lasso, $\lambda_1 = 0.1$"),
        ("ridge", {"ridge": 0.1}, VERMILION, MARKERS[1], r"ridge, $\lambda = 0.1$"),
        ("elastic", {"ridge": 0.1, "l1": 0.05}, GREEN, MARKERS[2], r"both, $\lambda = 0.1$, $\lambda_1 = 0.05$"),
    )
    keys = []
    for name, fields, colour, marker, text in cases:
        scenario = glm(
            weights=[0.5, 0.5], covariances=halves, labels="cluster", loss="square", intercept=True,
            samples_per_dim=1.0, **fields,
        )  # fmt: skip
        judged = ("test_error", "train_loss") if name == "ridge" else ("test_error", "train_loss", "nonzero")
        result = bench.compare(
            name, scenario, {"samples_per_dim": grid}, meaning=f"sparse means, {name}", judged=judged, **sizes
        )
        line = bench.predict(f"{name}-line", scenario, {"samples_per_dim": fine})
        for panel, variable in zip(axes, ("test_error", "nonzero")):
            experiment_points(panel, grid, result, variable, colour, marker)
            limit_line(panel, fine, line[variable], colour)
        keys.append(key(colour, marker, text))
        if name == "lasso":
            one = bench.predict("lasso-checked", scenario, {"samples_per_dim": 1.96})
            known = {"test_error": 0.0432273, "train_loss": 0.0469515}
            apart = max(abs(float(one[variable]) - value) for variable, value in known.items())
            bench.check("distance of the lasso at alpha = 1.96 from the notes", apart, "two values", line=1e-6)
    axes[0].legend(handles=[*keys, *engines(axes[0], _experiment(sizes["dim"]))], loc="upper right")
    for panel, label in zip(axes, ("misclassified fresh samples", "fraction of non-zero weights")):
        panel.set_xlabel(ALPHA)
        panel.set_ylabel(label)
        panel.set_xlim(0.0, 2.05)
    axes[0].set_yscale("log")
    letter(axes[0], "a", "two clusters, means on half of the coordinates")
    letter(axes[1], "b", "weights the penalty keeps")
    return figure


# -- digits --------------------------------------------------------------------------------------------------


def digits(bench: Bench) -> Figure:
    """Draw learning curves of even against odd digits: predicted from the dataset, measured on random rows of it."""
    from giantstep import MixtureGLM

    pixels, numbers = digit_inputs()
    labels = np.where(numbers % 2 == 0, 1.0, -1.0)
    dim = pixels.shape[1]
    sizes = {"dim": dim, "trials": bench.sized(12, 60), "seed": SEED + 6}
    figure, axes = new_figure(1, 2, width=10.4, height=4.1)
    shown = np.array([25, 45, 91, 183, 366, 732]) / dim
    fine = np.geomspace(20, 1000, bench.sized(24, 60)) / dim
    keys = []
    for ridge, colour, marker in ((1.0, BLUE, MARKERS[0]), (0.1, VERMILION, MARKERS[1])):
        scenario = MixtureGLM.from_data(pixels, labels, ridge=ridge, scale="global")
        name = f"ridge-{ridge:g}"
        result = bench.compare(
            name, scenario, {"samples_per_dim": shown}, meaning="even or odd, ridge", judged=(), **sizes
        )
        experiment_points(axes[0], shown * dim, result, "test_mse", colour, marker)
        for theory, style in (("gcv", "-"), ("plug-in", DOTTED), ("exact", DASHED)):
            line = bench.predict(f"{name}-{theory}", scenario, {"samples_per_dim": fine}, theory=theory)
            limit_line(axes[0], fine * dim, line["test_mse"], colour, linestyle=style)
        keys.append(key(colour, marker, rf"$\lambda = {ridge:g}$"))
        _honest(bench, result, "test_mse", f"ridge {ridge:g}, cross-validation carried over", 0.1)
    keys += [
        key(GREY, "", "cross-validation carried over", "-"),
        key(GREY, "", "covariate model, debiased", DOTTED),
        key(GREY, "", "one Gaussian per class", DASHED),
        engines(axes[0], r"random rows, the rest tested, $\pm$ 1 s.e.")[1],
    ]
    losses: tuple[tuple[str, str, str], ...] = (
        ("logistic", PURPLE, MARKERS[3]),
        ("hinge", ORANGE, MARKERS[4]),
    )
    for loss, colour, marker in losses:
        scenario = MixtureGLM.from_data(pixels, labels, loss=loss, ridge=0.1, scale="global")
        result = bench.compare(
            loss, scenario, {"samples_per_dim": shown}, meaning=f"even or odd, {loss}", judged=(), **sizes
        )
        experiment_points(axes[1], shown * dim, result, "test_error", colour, marker)
        line = bench.predict(f"{loss}-line", scenario, {"samples_per_dim": fine})
        limit_line(axes[1], fine * dim, line["test_error"], colour, f"{loss}, one Gaussian per class", linestyle=DASHED)
        _honest(bench, result, "test_error", f"{loss}, one Gaussian per class", 0.3)
    for panel in axes:
        panel.set_xscale("log")
        panel.set_xlabel("fitted rows,  $n$")
    axes[0].set_ylabel("squared error on the other rows")
    axes[1].set_ylabel("misclassified among the other rows")
    axes[0].legend(handles=keys, loc="upper right")
    handles, _ = axes[1].get_legend_handles_labels()
    points = [key(colour, marker, f"{loss}, random rows", linestyle="none") for loss, colour, marker in losses]
    axes[1].legend(handles=[*handles[:2], *points], loc="upper right")
    letter(axes[0], "a", f"digits, even or odd, $d = {dim}$, $N = {len(labels)}$: ridge")
    letter(axes[1], "b", r"margin losses, $\lambda = 0.1$")
    bench.notes.append(
        "Real data are not Gaussian: the report states how far predictions are off; nothing is judged by chance."
    )
    return figure


def _honest(bench: Bench, result: xarray.Dataset, name: str, meaning: str, line: float) -> None:
    low, high = (result[name].sel(source=source).values for source in ("limit", "experiment"))
    gap = np.abs(high / low - 1)
    bench.check(f"largest relative gap, {meaning}", float(gap.max()), f"of {name}, over {len(gap)} sizes", line=line)


def _recipe(
    name: str, title: str, make: Callable[[Bench], Figure], description: str, parameters: str, quick: float,
    full: float, paper: str = "pesce2023gaussian",
) -> Recipe:  # fmt: skip
    return Recipe(name, title, paper, description, parameters, quick, full, make)


RECIPES = (
    _recipe(
        "ridgeless-universality", "Least squares without a ridge: the training error does not see the data", ridgeless,
        "(a) training error over noise, (b) test error: Gaussian, mixture, random features of digits.",
        "Delta = 0.3 and 3, lambda -> 0, alpha in [0.3, 4], theta0 ~ N(0, I); d = 1000, digits d = 300. Seed 2302.",
        30, 320,
    ),
    _recipe(
        "logistic-separability", "Logistic regression without a ridge around the separability threshold", separability,
        "(a) test error, (b) training loss; dotted: alpha_c. Below it the largest margin is fitted.",
        "Labels sign(nu + sqrt(Delta) N(0,1)), Delta = 0.3 and 3, alpha in [0.6, 6], d = 500.", 25, 130,
    ),
    _recipe(
        "correlated-teacher", "A teacher that leans towards the cluster means", correlated,
        "Training error against Omega with both single-Gaussian references: (a) ridge, (b) logistic.",
        "K = 2, |mu| = 1, Sigma = I, d = 1000, 15 trials; (a) lambda = 0.7, alpha = 1.2, (b) lambda = 0.1, alpha = 2.",
        25, 120,
    ),
    _recipe(
        "unequal-covariances", "Clusters of unequal covariance against one Gaussian", unequal,
        "Against the ridge: (a) training loss, (b) test error of logistic and hinge, (c) of ridge regression.",
        "K = 2, Sigma = 0.2 I and 1.8 I, alpha = 2, d = 600.", 25, 110,
    ),
    _recipe(
        "random-label-blocks", "Random labels where clusters live in different coordinates", random_labels,
        "Training loss of (a) the square and (b) the hinge loss; dashed: one Gaussian.",
        "Three blocks, sigma_1 = (.01, .98, .01), sigma_2 = (.495, .01, .495), alpha up to 4, d = 600.", 25, 300,
        "gerace2024gaussian",
    ),
    _recipe(
        "sparse-means", "Lasso and ridge on clusters with sparse means", sparse_means,
        "(a) test error, (b) fraction of non-zero weights.",
        "+-mu with N(0,1)/sqrt(d) entries on half of the coordinates, sigma = .1 there and 1 elsewhere, bias, d = 800.",
        15, 80, "loureiro2021mixtures",
    ),
    _recipe(
        "digits", "Learning curves of handwritten digits from one dataset", digits,
        "(a) ridge: three predictions and the experiment, (b) logistic and hinge with one Gaussian per class.",
        "scikit-learn's digits, even against odd, 61 pixels, 1797 rows; fits of 25 to 732 rows.", 15, 20,
    ),
)  # fmt: skip
