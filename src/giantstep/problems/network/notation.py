"""The parameters of one gradient step in the symbols of the papers (spiked_features
section 14).

Written in the fields of the network; `PRESET_PAPERS` has the same papers in those of
the preset of one step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import wraps
from typing import Annotated, Any

from giantstep.core.maths.gaussian import Function, Target
from giantstep.core.scenario.paper_symbols import Paper, sqrt

_Activation = Annotated[Function | str, "activation of the hidden layer"]
_Target = Annotated[Target | Function | str, "target"]
_Ridge = Annotated[float, "penalty in sum (y - f)^2 + lambda |a|^2"]
_Alignment = Annotated[float, "cosine of the spike and the target direction"]
_Noise = Annotated[float, "variance of the label noise"]

_RIDGE_FIT = {"readout": {"kind": "ridge"}}
_EQUAL = {"second_layer": {"values": [1.0]}}
_GAUSSIAN = {"second_layer": "gaussian"}


def _dandi2025random(
    *,
    sigma: _Activation,
    g: _Target,
    alpha: Annotated[float, "n/p, as in the figures"],
    beta: Annotated[float, "p/d"],
    lambda_: _Ridge,
    zeta: Annotated[Sequence[float], "values of the second layer times sqrt(p)"] = (
        1.0,
    ),
    pi: Annotated[Sequence[float], "their probabilities"],
    eta: Annotated[float, "step size, of order d"],
    d: Annotated[int, "input dimension"],
    u: Annotated[float, "size of the planted spike"],
    cos: _Alignment,
) -> dict[str, Any]:
    """Dandi et al. 2025 count samples by neurons in their figures, and their step size
    is of order d.
    """
    return {
        "activation": sigma,
        "target": g,
        "width_per_dim": beta,
        "readout.ridge": lambda_,
        "second_layer.values": zeta,
        "second_layer.probabilities": pi,
        "steps.0(planted).strength": u,
        "steps.0(planted).alignment": cos,
        # n/d = (n/p)(p/d)
        "samples_per_dim": alpha * beta,
        # ours is of order one
        "steps.0(maximal).rate": eta / d,
    }


def _cui2024asymptotics(
    *,
    sigma: _Activation,
    sigma_star: _Target,
    alpha: Annotated[float, "n/d"],
    beta: Annotated[float, "p/d"] = 1.0,
    lambda_: _Ridge,
    eta_tilde: Annotated[float, "step size over the width"],
    alpha0: Annotated[float, "samples of the first batch over d"],
    r_s: Annotated[float, "factor of the spike"],
    theta: Annotated[float, "size of the spike"],
    c: Annotated[float, "variance of the bulk"],
    gamma: _Alignment,
) -> dict[str, Any]:
    """Cui et al. 2024 have as many neurons as dimensions, and give the bulk by its
    variance.
    """
    return {
        "activation": sigma,
        "target": sigma_star,
        "samples_per_dim": alpha,
        "width_per_dim": beta,
        "readout.ridge": lambda_,
        "steps.0(maximal).rate": eta_tilde,
        "steps.0(maximal).batch_per_dim": alpha0,
        "steps.0(planted).alignment": gamma,
        # the paper has a spike of size theta and a factor in front of it; we have the
        # product
        "steps.0(planted).strength": r_s * theta,
        # we have the scale of the bulk rows, the paper their variance
        "steps.0(planted).bulk": sqrt(c),
    }


def _moniri2024theory(
    *,
    sigma: _Activation,
    sigma_star: _Target,
    phi: Annotated[float, "d/n"],
    psi: Annotated[float, "d/N"],
    lambda_: Annotated[float, "penalty in (1/n) sum (y - f)^2 + lambda |b|^2"],
    eta: Annotated[float, "step size"],
    alpha: Annotated[float, "growth of the step, eta = rate n^alpha"],
    n: Annotated[float, "samples of the step"],
) -> dict[str, Any]:
    """Moniri et al. 2024 give every ratio the other way round.

    Their loss is the mean over the samples and their features are not divided by
    sqrt(N), so that their penalty is ours times N/n.
    """
    return {
        "activation": sigma,
        "target": sigma_star,
        # two kinds of step: the symbols that are given say which one it is
        "steps.0(small).rate": eta,
        "steps.0(growing).exponent": alpha,
        # the paper divides by the number of samples, and of neurons
        "samples_per_dim": 1 / phi,
        "width_per_dim": 1 / psi,
        # n/N, from a mean over samples and features without 1/sqrt(N)
        "readout.ridge": lambda_ * psi / phi,
        "steps.0(small).batch_per_dim": 1 / phi,
        "steps.0(growing).batch_per_dim": 1 / phi,
        # ours is the factor in front of n^alpha
        "steps.0(growing).rate": eta / n**alpha,
    }


def _ba2022high(
    *,
    sigma: _Activation,
    sigma_star: _Target,
    psi1: Annotated[float, "n/d, of the step and of the fit"],
    psi2: Annotated[float, "N/d"],
    lambda_: Annotated[
        float,
        "penalty in (1/n) |y - Phi a|^2 + (lambda/N) |a|^2, Phi = sigma(X W)/sqrt(N)",
    ],
    eta: Annotated[float, "step size of order one in W + eta sqrt(N) G"],
    sigma_eps2: _Noise,
) -> dict[str, Any]:
    """Ba et al. 2022 take the step on as many samples as the fit."""
    return {
        "activation": sigma,
        "target": sigma_star,
        "samples_per_dim": psi1,
        "width_per_dim": psi2,
        "steps.0(small).rate": eta,
        "noise": sigma_eps2,
        # n times their loss is ours with the penalty lambda n/N
        "readout.ridge": lambda_ * psi1 / psi2,
        "steps.0(small).batch_per_dim": psi1,
    }


def _mei2022generalization(
    *,
    sigma: _Activation,
    psi1: Annotated[float, "N/d"],
    psi2: Annotated[float, "n/d"],
    lambda_: Annotated[float, "penalty of the paper, ours over n/d"],
    tau2: _Noise,
) -> dict[str, Any]:
    """Mei and Montanari 2022 take no step."""
    return {
        "activation": sigma,
        "width_per_dim": psi1,
        "samples_per_dim": psi2,
        "noise": tau2,
        "readout.ridge": lambda_ * psi2,
    }


NETWORK_PAPERS = {
    "dandi2025random": Paper(
        _dandi2025random,
        fixed=_RIDGE_FIT,
        shown={
            "samples_per_dim": "alpha beta = n/d",
            "width_per_dim": "beta = p/d",
            "steps.0.alignment": "cos(v, w*)",
            "V2": "b*_q/beta",
            "V1": "psi/beta",
            "theta": "tau0_q",
            "t": "tau1_q",
        },
    ),
    "cui2024asymptotics": Paper(
        _cui2024asymptotics,
        fixed={**_EQUAL, **_RIDGE_FIT},
        shown={
            "target": "sigma_*",
            "steps.0.rate": "eta~",
            "steps.0.bulk": "c^(1/2)",
            "theta": "m",
            "t": "theta",
            "Q1": "q1",
            "Q2": "q2",
        },
    ),
    "moniri2024theory": Paper(
        _moniri2024theory,
        fixed={**_GAUSSIAN, **_RIDGE_FIT},
        shown={
            "samples_per_dim": "1/phi = n/d",
            "width_per_dim": "1/psi = p/d",
            "readout.ridge": "lambda n/p",
            "steps.0.batch_per_dim": "1/phi = n/d",
            "steps.0.rate": "eta, growing: eta/n^alpha",
            "target": "sigma_*",
        },
    ),
    "ba2022high": Paper(
        _ba2022high,
        fixed={**_GAUSSIAN, "rows": "gaussian", **_RIDGE_FIT},
        shown={
            "samples_per_dim": "psi1 = n/d",
            "width_per_dim": "psi2 = N/d",
            "readout.ridge": "lambda n/N",
            "steps.0.rate": "eta (large steps: eta/sqrt(N))",
            "steps.0.batch_per_dim": "psi1 = n/d",
            "noise": "sigma_eps^2",
            "target": "sigma_*",
        },
    ),
    "mei2022generalization": Paper(
        _mei2022generalization,
        fixed={**_EQUAL, **_RIDGE_FIT},
        shown={
            "width_per_dim": "psi1 = N/d",
            "samples_per_dim": "psi2 = n/d",
            "noise": "tau^2",
        },
    ),
}
"""BibTeX key -> the parameters of that paper."""


def _of_preset(names: Mapping[str, Any]) -> dict[str, Any]:
    """Return names of the network's fields as the preset calls them; that its read-out
    is a ridge fit goes unsaid.
    """
    # the preset has one step and one read-out: their fields need no place
    called = {
        name.replace("steps.0", "step").removeprefix("readout."): value
        for name, value in names.items()
    }
    return {name: value for name, value in called.items() if name != "readout"}


def _paper_of_preset(paper: Paper) -> Paper:
    """Return a paper in the fields of the preset."""

    # the symbols are the arguments and their annotations, which must stay
    @wraps(paper.fields_of)
    def fields_of(**symbols: Any) -> dict[str, Any]:
        return _of_preset(paper.fields_of(**symbols))

    return replace(
        paper,
        fields_of=fields_of,
        fixed=_of_preset(paper.fixed),
        shown=_of_preset(paper.shown),
    )


PRESET_PAPERS = {key: _paper_of_preset(paper) for key, paper in NETWORK_PAPERS.items()}
"""BibTeX key -> the parameters of that paper, in the fields of the preset of one
step.
"""
