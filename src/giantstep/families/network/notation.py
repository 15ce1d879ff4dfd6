"""The parameters of one gradient step in the symbols of the papers (spiked_features section 14).

Written in the fields of the preset of one step; `NETWORK_PAPERS` has the same papers in those of the network.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from giantstep.paper_symbols import Paper

_SIGMA = {"sigma": ("activation", "activation of the hidden layer")}
_TARGET = {"sigma_star": ("target", "target")}
_LAMBDA = {"lambda": ("ridge", "penalty in sum (y - f)^2 + lambda |a|^2")}
_EQUAL = {"second_layer": {"values": [1.0]}}
_GAUSSIAN = {"second_layer": "gaussian"}


def _paper(symbols: Mapping[str, str | tuple[str, str]], fields: Mapping[str, str], **more: Any) -> Paper:
    """Return a paper whose `symbols` have a meaning, or are a field of ours with a meaning; `fields` are formulas."""
    same = {said[0]: symbol for symbol, said in symbols.items() if not isinstance(said, str)}
    meanings = {symbol: said if isinstance(said, str) else said[1] for symbol, said in symbols.items()}
    return Paper(meanings, {**same, **fields}, **more)


PAPERS = {
    "dandi2025random": _paper(
        {
            **_SIGMA,
            "g": ("target", "target"),
            "alpha": "n/p, as in the figures",
            "beta": ("width_per_dim", "p/d"),
            **_LAMBDA,
            "zeta": ("second_layer.values", "values of the second layer times sqrt(p)"),
            "pi": ("second_layer.probabilities", "their probabilities"),
            "eta": "step size, of order d",
            "d": "input dimension",
            "u": ("step(planted).strength", "size of the planted spike"),
            "cos": ("step(planted).alignment", "cosine of the spike and the target direction"),
        },
        {"samples_per_dim": "alpha*beta", "step(maximal).rate": "eta/d"},
        defaults={"zeta": [1.0]},
        shown={
            **{"samples_per_dim": "alpha beta = n/d", "width_per_dim": "beta = p/d", "step.alignment": "cos(v, w*)"},
            **{"V2": "b*_q/beta", "V1": "psi/beta", "theta": "tau0_q", "t": "tau1_q"},
        },
    ),
    "cui2024asymptotics": _paper(
        {
            **_SIGMA,
            **_TARGET,
            "alpha": ("samples_per_dim", "n/d"),
            "beta": ("width_per_dim", "p/d"),
            **_LAMBDA,
            "eta_tilde": ("step(maximal).rate", "step size over the width"),
            "alpha0": ("step(maximal).batch_per_dim", "samples of the first batch over d"),
            "r_s": "factor of the spike",
            "theta": "size of the spike",
            "c": "variance of the bulk",
            "gamma": ("step(planted).alignment", "cosine of the spike and the target direction"),
        },
        {"step(planted).strength": "r_s*theta", "step(planted).bulk": "sqrt(c)"},
        defaults={"beta": 1.0},
        fixed=_EQUAL,
        shown={
            **{"target": "sigma_*", "step.rate": "eta~", "step.bulk": "c^(1/2)"},
            **{"theta": "m", "t": "theta", "Q1": "q1", "Q2": "q2"},
        },
    ),
    "moniri2024theory": _paper(
        {
            **_SIGMA,
            **_TARGET,
            "phi": "d/n",
            "psi": "d/N",
            "lambda": "penalty in (1/n) sum (y - f)^2 + lambda |b|^2",
            "eta": ("step(small).rate", "step size"),
            "alpha": ("step(growing).exponent", "growth of the step, eta = rate n^alpha"),
            "n": "samples of the step",
        },
        {
            **{"samples_per_dim": "1/phi", "width_per_dim": "1/psi", "ridge": "lambda*psi/phi"},
            **{"step(small).batch_per_dim": "1/phi", "step(growing).batch_per_dim": "1/phi"},
            "step(growing).rate": "eta/n**alpha",
        },
        fixed=_GAUSSIAN,
        shown={
            **{"samples_per_dim": "1/phi = n/d", "width_per_dim": "1/psi = p/d", "ridge": "lambda n/p"},
            **{"step.batch_per_dim": "1/phi = n/d", "step.rate": "eta, growing: eta/n^alpha", "target": "sigma_*"},
        },
    ),
    "ba2022high": _paper(
        {
            **_SIGMA,
            **_TARGET,
            "psi1": ("samples_per_dim", "n/d, of the step and of the fit"),
            "psi2": ("width_per_dim", "N/d"),
            "lambda": "penalty in (1/n) |y - Phi a|^2 + (lambda/N) |a|^2, Phi = sigma(X W)/sqrt(N)",
            "eta": ("step(small).rate", "step size of order one in W + eta sqrt(N) G"),
            "sigma_eps2": ("noise", "variance of the label noise"),
        },
        {"ridge": "lambda*psi1/psi2", "step(small).batch_per_dim": "psi1"},
        fixed={**_GAUSSIAN, "rows": "gaussian"},
        shown={
            **{"samples_per_dim": "psi1 = n/d", "width_per_dim": "psi2 = N/d", "ridge": "lambda n/N"},
            **{"step.rate": "eta (large steps: eta/sqrt(N))", "step.batch_per_dim": "psi1 = n/d"},
            **{"noise": "sigma_eps^2", "target": "sigma_*"},
        },
    ),
    "mei2022generalization": _paper(
        {
            **_SIGMA,
            "psi1": ("width_per_dim", "N/d"),
            "psi2": ("samples_per_dim", "n/d"),
            "lambda": "penalty of the paper, ours over n/d",
            "tau2": ("noise", "variance of the label noise"),
        },
        {"ridge": "lambda*psi2"},
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
