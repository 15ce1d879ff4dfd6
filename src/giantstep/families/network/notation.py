"""The parameters of one gradient step in the symbols of the papers (spiked_features section 14).

Written in the fields of the preset of one step; `NETWORK_PAPERS` has the same papers in those of the network.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from giantstep.paper_symbols import Paper

_NETWORK = {"activation": "sigma", "ridge": "lambda"}
_LAYER = {"second_layer.values": "zeta", "second_layer.probabilities": "pi"}
_SIGMA = {"sigma": "activation of the hidden layer"}
_EQUAL = {"second_layer": {"values": [1.0]}}

PAPERS = {
    "dandi2025random": Paper(
        symbols={
            **_SIGMA,
            "g": "target",
            "alpha": "n/p, as in the figures",
            "beta": "p/d",
            "lambda": "penalty in sum (y - f)^2 + lambda |a|^2",
            "zeta": "values of the second layer times sqrt(p)",
            "pi": "their probabilities",
            "eta": "step size, of order d",
            "d": "input dimension",
            "u": "size of the planted spike",
            "cos": "cosine of the spike and the target direction",
        },
        fields={
            **_NETWORK,
            **_LAYER,
            "target": "g",
            "width_per_dim": "beta",
            "samples_per_dim": "alpha*beta",
            "step(maximal).rate": "eta/d",
            "step(planted).strength": "u",
            "step(planted).alignment": "cos",
        },
        defaults={"zeta": [1.0]},
        shown={
            "samples_per_dim": "alpha beta = n/d",
            "width_per_dim": "beta = p/d",
            "step.alignment": "cos(v, w*)",
            "V2": "b*_q/beta",
            "V1": "psi/beta",
            "theta": "tau0_q",
            "t": "tau1_q",
        },
    ),
    "cui2024asymptotics": Paper(
        symbols={
            **_SIGMA,
            "sigma_star": "target",
            "alpha": "n/d",
            "beta": "p/d",
            "lambda": "penalty in sum (y - f)^2 + lambda |a|^2",
            "eta_tilde": "step size over the width",
            "alpha0": "samples of the first batch over d",
            "r_s": "factor of the spike",
            "theta": "size of the spike",
            "c": "variance of the bulk",
            "gamma": "cosine of the spike and the target direction",
        },
        fields={
            **_NETWORK,
            "target": "sigma_star",
            "samples_per_dim": "alpha",
            "width_per_dim": "beta",
            "step(maximal).rate": "eta_tilde",
            "step(maximal).batch_per_dim": "alpha0",
            "step(planted).strength": "r_s*theta",
            "step(planted).bulk": "sqrt(c)",
            "step(planted).alignment": "gamma",
        },
        defaults={"beta": 1.0},
        fixed=_EQUAL,
        shown={
            "target": "sigma_*",
            "step.rate": "eta~",
            "step.bulk": "c^(1/2)",
            "theta": "m",
            "t": "theta",
            "Q1": "q1",
            "Q2": "q2",
        },
    ),
    "moniri2024theory": Paper(
        symbols={
            **_SIGMA,
            "sigma_star": "target",
            "phi": "d/n",
            "psi": "d/N",
            "lambda": "penalty in (1/n) sum (y - f)^2 + lambda |b|^2",
            "eta": "step size",
            "alpha": "growth of the step, eta = rate n^alpha",
            "n": "samples of the step",
        },
        fields={
            "activation": "sigma",
            "target": "sigma_star",
            "samples_per_dim": "1/phi",
            "width_per_dim": "1/psi",
            "ridge": "lambda*psi/phi",
            "step(small).rate": "eta",
            "step(small).batch_per_dim": "1/phi",
            "step(growing).rate": "eta/n**alpha",
            "step(growing).exponent": "alpha",
            "step(growing).batch_per_dim": "1/phi",
        },
        fixed={"second_layer": "gaussian"},
        shown={
            "samples_per_dim": "1/phi = n/d",
            "width_per_dim": "1/psi = p/d",
            "ridge": "lambda n/p",
            "step.batch_per_dim": "1/phi = n/d",
            "step.rate": "eta, growing: eta/n^alpha",
            "target": "sigma_*",
        },
    ),
    "ba2022high": Paper(
        symbols={
            **_SIGMA,
            "sigma_star": "target",
            "psi1": "n/d, of the step and of the fit",
            "psi2": "N/d",
            "lambda": "penalty in (1/n) |y - Phi a|^2 + (lambda/N) |a|^2, Phi = sigma(X W)/sqrt(N)",
            "eta": "step size of order one in W + eta sqrt(N) G",
            "sigma_eps2": "variance of the label noise",
        },
        fields={
            "activation": "sigma",
            "target": "sigma_star",
            "samples_per_dim": "psi1",
            "width_per_dim": "psi2",
            "ridge": "lambda*psi1/psi2",
            "noise": "sigma_eps2",
            "step(small).rate": "eta",
            "step(small).batch_per_dim": "psi1",
        },
        fixed={"second_layer": "gaussian", "rows": "gaussian"},
        shown={
            "samples_per_dim": "psi1 = n/d",
            "width_per_dim": "psi2 = N/d",
            "ridge": "lambda n/N",
            "noise": "sigma_eps^2",
            "step.rate": "eta (large steps: eta/sqrt(N))",
            "step.batch_per_dim": "psi1 = n/d",
            "target": "sigma_*",
        },
    ),
    "mei2022generalization": Paper(
        symbols={
            **_SIGMA,
            "psi1": "N/d",
            "psi2": "n/d",
            "lambda": "penalty of the paper, ours over n/d",
            "tau2": "variance of the label noise",
        },
        fields={
            "activation": "sigma",
            "width_per_dim": "psi1",
            "samples_per_dim": "psi2",
            "ridge": "lambda*psi2",
            "noise": "tau2",
        },
        fixed=_EQUAL,
        shown={"width_per_dim": "psi1 = N/d", "samples_per_dim": "psi2 = n/d", "noise": "tau^2"},
    ),
}
"""BibTeX key -> the parameters of that paper."""


def _in_network(names: Mapping[str, Any]) -> dict[str, Any]:
    """Return names of the preset's fields as the network calls them."""

    def renamed(name: str) -> str:
        if name == "ridge":
            return "readout.ridge"
        return "steps.0" + name.removeprefix("step") if name.startswith(("step.", "step(")) else name

    return {renamed(name): value for name, value in names.items()}


def _of_network(paper: Paper) -> Paper:
    """Return a paper in the fields of the network."""
    fixed = {**_in_network(paper.fixed), "readout": {"kind": "ridge"}}
    return replace(paper, fields=_in_network(paper.fields), fixed=fixed, shown=_in_network(paper.shown))


NETWORK_PAPERS = {key: _of_network(paper) for key, paper in PAPERS.items()}
"""BibTeX key -> the parameters of that paper, in the fields of the network."""
