"""Pesce, Krzakala, Loureiro and Stephan, ICML 2023, and what lies around it: when one
Gaussian is enough.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray

from giantstep import MixtureGLM
from giantstep.papers.real_inputs import digit_inputs
from giantstep.papers.recipe import Recipe, Results, Size, Studies, comparison, limit
from giantstep.papers.report import Check
from giantstep.tools.figures.panels import (
    engines,
    error_points,
    experiment_points,
    key,
    letters,
    limit_line,
    vertical,
)
from giantstep.tools.figures.style import (
    BLACK,
    BLUE,
    DASHED,
    DOTTED,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    VERMILION,
    new_figure,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SEED = 2302
ALPHA = r"samples per dimension,  $\alpha = n/d$"
TWO_SCALES: dict[str, Any] = {"weights": [0.5, 0.5], "covariances": [0.2, 1.8]}


def measured(dim: int) -> str:
    """Return the words of a legend for an experiment."""
    return rf"experiment, $d = {dim}$, $\pm$ 1 s.e."


# -- ridgeless least squares: universality of the training loss ------------------------

POPULATIONS: dict[str, tuple[str, float, str, str, dict[str, Any]]] = {
    "gaussian": (r"one Gaussian, identity, $\Delta = 0.3$", 0.3, BLUE, "o", {}),
    "noisy": (r"one Gaussian, identity, $\Delta = 3$", 3.0, PURPLE, "^", {}),
    "mixture": (
        r"two covariances, $0.2\,I$ and $1.8\,I$, $\Delta = 0.3$",
        0.3,
        VERMILION,
        "s",
        TWO_SCALES,
    ),
}
FEW = [0.35, 0.55, 0.75]
MANY = [1.3, 1.6, 2.0, 2.5, 3.0, 4.0]
WIDTH = 300
DIGIT_NOISE = 0.3
"""Random erf features of the digits, and the noise of their random teachers."""


def ridgeless(size: Size) -> Studies:
    """Return least squares without a ridge: Gaussians, a mixture, features of digits
    with random teachers.
    """
    sizes = {"dim": size(200, 1000), "seed": SEED}
    studies = {}
    for name, (_, noise, _, _, fields) in POPULATIONS.items():
        base = MixtureGLM(labels="linear", noise=noise, samples_per_dim=2.0, **fields)
        under = base.replace(loss="interpolate", samples_per_dim=0.5)
        for part, scenario, points, judged, trials in (
            ("few", under, FEW, ("test_error",), 48),
            ("many", base, MANY, ("test_error", "train_loss"), 28),
        ):
            studies[f"{name}-{part}"] = comparison(
                scenario, {"samples_per_dim": points}, meaning=f"least squares without a ridge, {name}", judged=judged,
                trials=size(10, trials), **sizes,
            )  # fmt: skip
        for part, scenario, fine in (
            ("under", under, np.linspace(0.3, 0.93, size(22, 64))),
            ("over", base, np.linspace(1.07, 4.0, size(40, 120))),
        ):
            studies[f"{name}-{part}"] = limit(scenario, {"samples_per_dim": fine})
    features, teachers = digit_features(size(4, 12))
    for number, (labels, _) in enumerate(teachers):
        studies[f"digits-{number + 1}"] = comparison(
            MixtureGLM.from_data(features, labels, ridge=0.0, samples_per_dim=2.0, scale="global"),
            {"samples_per_dim": MANY}, meaning="erf features of digits", dim=WIDTH, trials=size(3, 5),
            seed=SEED + number,
        )  # fmt: skip
    return studies


@functools.cache
def digit_features(teachers: int) -> tuple[np.ndarray, list[tuple[np.ndarray, float]]]:
    """Return random erf features of digits, and labels of random teachers with their
    noise.

    The noise of so few rows is not exactly what was asked for. Each teacher is a
    dataset of its own.
    """
    from scipy.special import erf

    rng = np.random.default_rng(SEED)
    pixels, _ = digit_inputs()
    pixels = (pixels - pixels.mean(axis=0)) / pixels.std()
    features = erf(
        pixels
        @ rng.standard_normal((pixels.shape[1], WIDTH))
        / np.sqrt(pixels.shape[1])
    )
    features = (features - features.mean(axis=0)) / features.std()
    labels = []
    for _ in range(teachers):
        clean = features @ rng.standard_normal(WIDTH) / np.sqrt(WIDTH)
        noise = np.sqrt(DIGIT_NOISE) * rng.standard_normal(len(clean))
        labels.append((clean + noise, float(np.mean(noise**2))))
    return features, labels


def _digit_errors(results: Results) -> tuple[np.ndarray, np.ndarray]:
    """Return training and test errors of digit features over their noise, one row for
    each teacher.
    """
    train = []
    test = []
    for number, (_, noise) in enumerate(digit_features(results.size(4, 12))[1]):
        result = results[f"digits-{number + 1}"].sel(source="experiment")
        train.append(2 * result["train_loss"].values / noise)
        test.append(result["test_error"].values / noise)
    return np.array(train), np.array(test)


def _draw_ridgeless(results: Results) -> Figure:
    figure, axes = new_figure(1, 2, width=10.4, height=4.1)
    keys = []
    for name, (text, noise, colour, marker, _) in POPULATIONS.items():
        for part in ("few", "many"):
            result = results[f"{name}-{part}"]
            x = result["samples_per_dim"]
            experiment_points(
                axes[0], x, result, "train_loss", colour, marker, scale=2 / noise
            )
            experiment_points(
                axes[1], x, result, "test_error", colour, marker, scale=1 / noise
            )
        for part in ("under", "over"):
            line = results[f"{name}-{part}"]
            limit_line(
                axes[1], line["samples_per_dim"], line["test_error"] / noise, colour
            )
        keys.append(key(colour, marker, text))
    for panel, rows in zip(axes, _digit_errors(results)):
        error = np.std(rows, axis=0, ddof=1) / np.sqrt(len(rows))
        error_points(panel, MANY, np.mean(rows, axis=0), error, GREEN, "D")
    keys.append(
        key(GREEN, "D", f"erf features of digits, $d = {WIDTH}$", linestyle="none")
    )
    fine = np.linspace(1.0, 4.0, 200)
    limit_line(axes[0], fine, 1 - 1 / fine, BLACK, linewidth=1.2)
    limit_line(axes[0], [0.3, 1.0], [0.0, 0.0], BLACK, linewidth=1.2)
    for panel in axes:
        panel.set(xlim=(0.25, 4.1), xlabel=ALPHA)
    axes[0].set_ylabel(r"training error / noise,  $2\,\mathcal{E}_{\rm train}/\Delta$")
    axes[1].set(
        ylabel=r"test error / noise,  $\mathcal{E}_{\rm test}/\Delta$", ylim=(0.9, 9.0)
    )
    points = engines(axes[0], measured(results.dim("gaussian-few")))[1]
    axes[0].legend(
        handles=[key(BLACK, "", r"limit, $1 - 1/\alpha$ for all"), points],
        loc="lower right",
    )
    axes[1].legend(handles=keys, loc="upper right")
    letters(
        axes,
        r"training error without a ridge: one curve, $\lambda \to 0$",
        "test error: not universal",
    )
    return figure


def _ridgeless_checks(results: Results) -> Iterator[Check]:
    train, _ = _digit_errors(results)
    alpha = np.round(np.array(MANY) * WIDTH) / WIDTH
    gap = np.mean(train, axis=0) / (1 - 1 / alpha) - 1
    yield Check(
        "largest relative distance of the training error of digit features from 1 - 1/alpha",
        f"{len(train)} random teachers on {WIDTH} random erf features", np.abs(gap).max(), line=0.05,
    )  # fmt: skip


# -- logistic regression without a ridge -----------------------------------------------

THRESHOLDS = {0.3: 3.8635316, 3.0: 2.2548679}
"""alpha_c by noise, mixture_glm section 5."""
NOISES = ((0.3, BLUE, "o"), (3.0, VERMILION, "s"))


def _sides(noise: float) -> tuple[MixtureGLM, MixtureGLM]:
    """Return the largest margin below the separability threshold, and logistic
    regression above it.
    """
    above = MixtureGLM(
        labels="sign", noise=noise, loss="logistic", ridge=0.0, samples_per_dim=6.0
    )
    return above.replace(loss="maxmargin", samples_per_dim=1.0), above


def separability(size: Size) -> Studies:
    """Return logistic regression without a ridge on both sides of the separability
    threshold.
    """
    sizes = {"dim": size(200, 500), "seed": SEED + 1}
    studies = {}
    for noise, critical in THRESHOLDS.items():
        below, above = _sides(noise)
        low = [
            alpha for alpha in (0.6, 1.0, 1.5, 2.0, 2.6, 3.2) if alpha < 0.85 * critical
        ]
        high = [
            alpha
            for alpha in (3.0, 3.5, 4.0, 4.75, 5.25, 6.0)
            if alpha > 1.2 * critical
        ]
        studies[f"threshold-{noise:g}"] = limit(above, None, "thresholds")
        for part, scenario, points, judged in (
            ("margin", below, low, ("test_error",)),
            ("logistic", above, high, ("test_error", "train_loss")),
        ):
            studies[f"{part}-{noise:g}"] = comparison(
                scenario, {"samples_per_dim": points}, meaning=f"no ridge, Delta = {noise:g}, {scenario.loss}",
                judged=judged, trials=size(10, 72 if (part, noise) == ("logistic", 0.3) else 24), **sizes,
            )  # fmt: skip
    return studies


def _critical(results: Results, noise: float) -> float:
    return float(results[f"threshold-{noise:g}"]["alpha_c"])


def _separability_lines(results: Results) -> Studies:
    """Return the limits up to the computed threshold, and from there on."""
    studies = {}
    count = results.size(24, 60)
    for noise in THRESHOLDS:
        (below, above), critical = _sides(noise), _critical(results, noise)
        low = np.linspace(0.6, 0.999 * critical, count)
        high = critical + np.geomspace(0.02, 6.0 - critical, count)
        studies[f"margin-line-{noise:g}"] = limit(below, {"samples_per_dim": low})
        studies[f"logistic-line-{noise:g}"] = limit(above, {"samples_per_dim": high})
    return studies


def _draw_separability(results: Results) -> Figure:
    figure, axes = new_figure(1, 2, width=10.4, height=4.1)
    for noise, colour, marker in NOISES:
        for part in ("margin", "logistic"):
            result = results[f"{part}-{noise:g}"]
            line = results[f"{part}-line-{noise:g}"]
            for panel, name in zip(axes, ("test_error", "train_loss")):
                experiment_points(
                    panel, result["samples_per_dim"], result, name, colour, marker
                )
                limit_line(panel, line["samples_per_dim"], line[name], colour)
        critical = _critical(results, noise)
        for panel in axes:
            vertical(panel, critical, colour)
        axes[0].annotate(
            rf"$\alpha_c = {critical:.3f}$", (critical, 0.985), xycoords=axes[0].get_xaxis_transform(),
            xytext=(3, 0), textcoords="offset points", va="top", fontsize=8, color=colour,
        )  # fmt: skip
    keys = [
        key(colour, marker, rf"noise $\Delta = {noise:g}$")
        for noise, colour, marker in NOISES
    ]
    axes[1].legend(
        handles=[*keys, *engines(axes[1], measured(results.dim("margin-0.3")))],
        loc="upper left",
    )
    for panel, text in zip(axes, ("misclassified fresh samples", "training loss")):
        panel.set(xlim=(0.5, 6.1), xlabel=ALPHA, ylabel=text)
    axes[0].set_ylim(0.19, 0.5)
    letters(
        axes,
        r"logistic regression, $\lambda \to 0$: test error",
        r"training loss: zero up to $\alpha_c$",
    )
    return figure


def _separability_checks(results: Results) -> Iterator[Check]:
    for noise, known in THRESHOLDS.items():
        gap = abs(_critical(results, noise) - known)
        yield Check(
            f"distance of alpha_c at noise {noise:g} from {known}",
            "mixture_glm section 5",
            gap,
            line=2e-7,
        )


# -- a teacher that leans towards the means --------------------------------------------

TEACHERS: dict[str, tuple[dict[str, Any], float]] = {
    "linear": (
        {"labels": "linear", "loss": "square", "ridge": 0.7, "samples_per_dim": 1.2},
        2.0,
    ),
    "sign": (
        {"labels": "sign", "loss": "logistic", "ridge": 0.1, "samples_per_dim": 2.0},
        1.0,
    ),
}
"""Fields, and the factor of the training loss in the figure."""
SHOWN = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
LINEAR = np.array([0.0955166, 0.0962628, 0.0985015, 0.1022326, 0.1074561])
"""Training errors of linear labels at `SHOWN`, mixture_glm section 10."""


def _omegas(size: Size) -> np.ndarray:
    return np.unique(np.append(SHOWN, np.linspace(0.0, 1.0, size(17, 21))))


def correlated(size: Size) -> Studies:
    """Return a teacher that turns from the means to orthogonal to them, <mu,
    theta0>/sqrt(d) = sqrt(1 - Omega^2).
    """
    studies = {}
    for name, (fields, _) in TEACHERS.items():
        for omega in _omegas(size):
            tau = float(np.sqrt(max(1 - omega**2, 0.0)))
            part = f"{name}-{omega:.3g}"
            scenario = MixtureGLM(
                weights=[0.5, 0.5],
                mean_gram=[[1, -1], [-1, 1]],
                teacher_means=[tau, -tau],
                **fields,
            )
            if omega in SHOWN:
                studies[part] = comparison(
                    scenario, meaning=f"{name} labels, Omega = {omega:g}", judged=("train_loss",),
                    dim=size(300, 1000), trials=size(10, 15), seed=SEED + 2,
                )  # fmt: skip
            else:
                studies[part] = limit(scenario)
            studies[f"{part}-gaps"] = limit(scenario, None, "universality")
    return studies


def _turning(results: Results, name: str) -> dict[str, np.ndarray]:
    """Return the training loss of the mixture and of its two single Gaussians against
    Omega.
    """
    lines: dict[str, list[float]] = {"mixture": [], "matched": [], "within": []}
    factor = TEACHERS[name][1]
    for omega in _omegas(results.size):
        loss, gaps = (
            results[f"{name}-{omega:.3g}{part}"]["train_loss"] for part in ("", "-gaps")
        )
        own = float(loss.sel(source="limit") if omega in SHOWN else loss)
        lines["mixture"].append(factor * own)
        for reference in ("matched", "within"):
            lines[reference].append(
                factor * (own - float(gaps.sel(reference=reference)))
            )
    return {line: np.array(values) for line, values in lines.items()}


def _draw_correlated(results: Results) -> Figure:
    figure, axes = new_figure(1, 2, width=10.4, height=4.1)
    looks: dict[str, dict[str, Any]] = {
        "mixture": {"colour": BLUE},
        "matched": {"colour": VERMILION, "linestyle": DASHED},
        "within": {"colour": GREEN, "linestyle": DOTTED},
    }
    for panel, (name, (_, factor)) in zip(axes, TEACHERS.items()):
        for omega in SHOWN:
            experiment_points(
                panel,
                omega,
                results[f"{name}-{omega:.3g}"],
                "train_loss",
                BLUE,
                scale=factor,
            )
        for line, values in _turning(results, name).items():
            limit_line(panel, _omegas(results.size), values, **looks[line])
        panel.set_xlabel(r"$\Omega$  (0: teacher along the means, 1: orthogonal)")
    keys = [
        key(BLUE, "o", "mixture of two clusters"),
        key(VERMILION, "", "one Gaussian, matched mean and covariance", DASHED),
        key(GREEN, "", "one Gaussian, covariance within clusters", DOTTED),
    ]
    axes[0].legend(
        handles=[*keys, *engines(axes[0], measured(results.dim("linear-0")))],
        loc="lower right",
    )
    axes[0].set_ylim(bottom=0.088)
    axes[0].set_ylabel(r"training error,  $2\,\mathcal{E}_{\rm train}$")
    axes[1].set_ylabel("training loss")
    letters(
        axes, r"ridge, linear labels ($\lambda = 0.7$, $\alpha = 1.2$): matched $=$ mixture",
        r"logistic, sign labels ($\lambda = 0.1$, $\alpha = 2$): neither",
    )  # fmt: skip
    return figure


def _correlated_checks(results: Results) -> Iterator[Check]:
    lines = _turning(results, "linear")
    drawn = lines["mixture"][np.isin(_omegas(results.size), SHOWN)]
    name = "distance of the mixture from mixture_glm section 10"
    yield Check(name, "five values", np.abs(drawn - LINEAR).max(), line=1e-7)
    gap = np.abs(lines["mixture"] - lines["matched"]).max()
    yield Check(
        "gap to the matched Gaussian, ridge and linear labels",
        "exactly zero in theory",
        gap,
        line=1e-9,
    )
    lines = _turning(results, "sign")
    gap = abs(lines["mixture"][0] / lines["matched"][0] - 1)
    name = "relative gap to the matched Gaussian at Omega = 0, logistic"
    yield Check(name, "real", gap, line=0.05, above=True)


# -- clusters of unequal covariance ----------------------------------------------------

UNEQUAL: dict[str, tuple[dict[str, Any], str, str, int, str]] = {
    "ridge": (
        {"labels": "linear", "noise": 0.1, "loss": "square"}, BLUE, "o", 2,
        r"ridge, linear labels, $\Delta = 0.1$",
    ),
    "logistic": ({"labels": "sign", "loss": "logistic"}, VERMILION, "s", 1, "logistic, sign labels"),
    "hinge": ({"labels": "sign", "loss": "hinge"}, GREEN, "D", 1, "hinge, sign labels"),
}  # fmt: skip
"""Fields, look, panel of the test error, and words of the legend."""


def unequal(size: Size) -> Studies:
    """Return a mixture of two scales beside one Gaussian of the mean covariance,
    against the ridge.
    """
    studies = {}
    fine = {"ridge": np.geomspace(0.03, 10.0, size(25, 80))}
    for name, (fields, *_) in UNEQUAL.items():
        scenario = MixtureGLM(samples_per_dim=2.0, ridge=0.1, **TWO_SCALES, **fields)
        studies[name] = comparison(
            scenario, {"ridge": np.geomspace(0.03, 10.0, 7)}, meaning=f"two scales, {name}",
            judged=("train_loss", "test_error"), dim=size(200, 600), trials=size(12, 20), seed=SEED + 3,
        )  # fmt: skip
        studies[f"{name}-line"] = limit(scenario, fine)
        studies[f"{name}-gaps"] = limit(scenario, fine, "universality")
    return studies


def draw_beside_one_gaussian(
    axes: Axes,
    results: Results,
    name: str,
    field: str,
    variable: str,
    look: tuple[str, str],
    label: str | None = None,
) -> None:
    """Draw a variable of a mixture and of one Gaussian with its covariance against a
    field.

    The studies are `name` (a comparison), `name`-line, and `name`-gaps, the distances
    to the references; `look` is the colour and the marker.
    """
    colour, marker = look
    result = results[name]
    line = results[f"{name}-line"]
    gaps = results[f"{name}-gaps"].sel(reference="matched")
    experiment_points(axes, result[field], result, variable, colour, marker)
    limit_line(axes, line[field], line[variable], colour, label)
    limit_line(
        axes,
        line[field],
        line[variable] - gaps[variable],
        colour,
        linestyle=DASHED,
        linewidth=1.1,
    )


def _draw_unequal(results: Results) -> Figure:
    figure, axes = new_figure(1, 3, width=13.2, height=4.0)
    keys = []
    for name, (_, colour, marker, own, text) in UNEQUAL.items():
        for panel, variable in ((axes[0], "train_loss"), (axes[own], "test_error")):
            draw_beside_one_gaussian(
                panel, results, name, "ridge", variable, (colour, marker)
            )
        keys.append(key(colour, marker, text))
    keys += [
        *engines(axes[0], measured(results.dim("ridge")), line="limit of the mixture")
    ]
    keys.append(key(GREY, "", r"limit of one Gaussian, $\Sigma = I$", DASHED))
    for panel, text in zip(
        axes,
        (
            "training loss",
            "misclassified fresh samples",
            "squared error on fresh samples",
        ),
    ):
        panel.set(xscale="log", xlabel=r"ridge,  $\lambda$", ylabel=text)
    axes[0].legend(handles=keys, loc="upper left")
    letters(
        axes,
        r"covariances $0.2\,I$ and $1.8\,I$, $\alpha = 2$",
        "test error of classes",
        "test error of real labels",
    )
    return figure


# -- digits ----------------------------------------------------------------------------

RIDGES = ((1.0, BLUE, "o"), (0.1, VERMILION, "s"))
MARGINS = (("logistic", PURPLE, "^"), ("hinge", ORANGE, "v"))
PREDICTIONS = {
    "gcv": ("-", "cross-validation carried over"),
    "plug-in": (DOTTED, "covariate model, debiased"),
    "exact": (DASHED, "one Gaussian per class"),
}


def digits(size: Size) -> Studies:
    """Return learning curves of even against odd digits: predicted from the dataset,
    measured on random rows of it.
    """
    pixels, numbers = digit_inputs()
    labels = np.where(numbers % 2 == 0, 1.0, -1.0)
    dim = pixels.shape[1]
    sizes = {"dim": dim, "trials": size(12, 60), "seed": SEED + 6}
    points = {"samples_per_dim": np.array([25, 45, 91, 183, 366, 732]) / dim}
    fine = {"samples_per_dim": np.geomspace(20, 1000, size(24, 60)) / dim}
    studies = {}
    for ridge, *_ in RIDGES:
        scenario = MixtureGLM.from_data(pixels, labels, ridge=ridge, scale="global")
        studies[f"ridge-{ridge:g}"] = comparison(
            scenario, points, meaning="even or odd, ridge", **sizes
        )
        for theory in PREDICTIONS:
            studies[f"ridge-{ridge:g}-{theory}"] = limit(scenario, fine, theory=theory)
    for loss, *_ in MARGINS:
        scenario = MixtureGLM.from_data(
            pixels, labels, loss=loss, ridge=0.1, scale="global"
        )
        studies[loss] = comparison(
            scenario, points, meaning=f"even or odd, {loss}", **sizes
        )
        studies[f"{loss}-line"] = limit(scenario, fine)
    return studies


def _draw_digits(results: Results) -> Figure:
    figure, axes = new_figure(1, 2, width=10.4, height=4.1)
    dim = results.dim("hinge")
    rows = len(digit_inputs()[1])
    keys = []
    for ridge, colour, marker in RIDGES:
        result = results[f"ridge-{ridge:g}"]
        experiment_points(
            axes[0], result["samples_per_dim"] * dim, result, "test_mse", colour, marker
        )
        for theory, (style, _) in PREDICTIONS.items():
            line = results[f"ridge-{ridge:g}-{theory}"]
            limit_line(
                axes[0],
                line["samples_per_dim"] * dim,
                line["test_mse"],
                colour,
                linestyle=style,
            )
        keys.append(key(colour, marker, rf"$\lambda = {ridge:g}$"))
    keys += [key(GREY, "", text, style) for style, text in PREDICTIONS.values()]
    keys.append(engines(axes[0], r"random rows, the rest tested, $\pm$ 1 s.e.")[1])
    axes[0].legend(handles=keys, loc="upper right")
    for loss, colour, marker in MARGINS:
        result = results[loss]
        line = results[f"{loss}-line"]
        experiment_points(
            axes[1],
            result["samples_per_dim"] * dim,
            result,
            "test_error",
            colour,
            marker,
        )
        text = f"{loss}, one Gaussian per class"
        limit_line(
            axes[1],
            line["samples_per_dim"] * dim,
            line["test_error"],
            colour,
            text,
            linestyle=DASHED,
        )
    for panel, text in zip(
        axes, ("squared error on the other rows", "misclassified among the other rows")
    ):
        panel.set(xscale="log", xlabel="fitted rows,  $n$", ylabel=text)
    handles, _ = axes[1].get_legend_handles_labels()
    points = [
        key(colour, marker, f"{loss}, random rows", linestyle="none")
        for loss, colour, marker in MARGINS
    ]
    axes[1].legend(handles=[*handles, *points], loc="upper right")
    letters(
        axes,
        f"digits, even or odd, $d = {dim}$, $N = {rows}$: ridge",
        r"margin losses, $\lambda = 0.1$",
    )
    return figure


def _digits_checks(results: Results) -> Iterator[Check]:
    for ridge, *_ in RIDGES:
        words = f"ridge {ridge:g}, cross-validation carried over"
        yield _largest_gap(results[f"ridge-{ridge:g}"], "test_mse", words, 0.1)
    for loss, *_ in MARGINS:
        yield _largest_gap(
            results[loss], "test_error", f"{loss}, one Gaussian per class", 0.3
        )


def _largest_gap(result: xarray.Dataset, name: str, words: str, line: float) -> Check:
    predicted, found = (
        result[name].sel(source=source).values for source in ("limit", "experiment")
    )
    gap = np.abs(found / predicted - 1)
    return Check(
        f"largest relative gap, {words}",
        f"of {name}, over {len(gap)} sizes",
        gap.max(),
        line=line,
    )


RECIPES = (
    Recipe(
        "ridgeless-universality",
        "Least squares without a ridge: the training error does not see the data",
        "(a) training error over noise, (b) test error: Gaussian, mixture, random features of digits.",
        ridgeless,
        _draw_ridgeless,
        _ridgeless_checks,
        remark="lambda -> 0; digits d = 300.",
        seconds=30,
    ),
    Recipe(
        "logistic-separability",
        "Logistic regression without a ridge around the separability threshold",
        "(a) test error, (b) training loss; dotted: alpha_c. Below it the largest margin is fitted.",
        separability,
        _draw_separability,
        _separability_checks,
        then=_separability_lines,
        remark="Labels sign(nu + sqrt(Delta) N(0,1)).",
        seconds=25,
    ),
    Recipe(
        "correlated-teacher",
        "A teacher that leans towards the cluster means",
        "Training error against Omega with both single-Gaussian references: (a) ridge, (b) logistic.",
        correlated,
        _draw_correlated,
        _correlated_checks,
        remark="|mu| = 1, Sigma = I.",
        seconds=25,
    ),
    Recipe(
        "unequal-covariances",
        "Clusters of unequal covariance against one Gaussian",
        "Against the ridge: (a) training loss, (b) test error of logistic and hinge, (c) of ridge regression.",
        unequal,
        _draw_unequal,
        seconds=25,
    ),
    Recipe(
        "digits",
        "Learning curves of handwritten digits from one dataset",
        "(a) ridge: three predictions and the experiment, (b) logistic and hinge with one Gaussian per class.",
        digits,
        _draw_digits,
        _digits_checks,
        notes=(
            "Real data are not Gaussian: the report states how far predictions are off; nothing is judged by chance.",
        ),
        remark="scikit-learn's digits, even against odd, 61 pixels, 1797 rows; fits of 25 to 732 rows.",
        seconds=15,
    ),
)
