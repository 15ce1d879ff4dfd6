"""The parameters of one gradient step in the symbols of the papers (spiked_features
section 14).

Written in the fields of the network; `PRESET_PAPERS` has the same papers in those of
the preset of one step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from giantstep.core.scenario.paper_symbols import Paper

_SIGMA = {"sigma": ("activation", "activation of the hidden layer")}
_TARGET = {"sigma_star": ("target", "target")}
_LAMBDA = {"lambda": ("readout.ridge", "penalty in sum (y - f)^2 + lambda |a|^2")}
_EQUAL = {"second_layer": {"values": [1.0]}}
_GAUSSIAN = {"second_layer": "gaussian"}


def _paper(
    symbols: Mapping[str, str | tuple[str, str]], fields: Mapping[str, str], **more: Any
) -> Paper:
    """Return a paper whose `symbols` have a meaning, or are a field of ours with a
    meaning; `fields` are formulas.
    """
    meanings = {}
    formulas = {}
    for symbol, meaning in symbols.items():
        if isinstance(meaning, str):
            meanings[symbol] = meaning
        else:
            # the formula of the field is the symbol itself
            field, meanings[symbol] = meaning
            formulas[field] = symbol
    # all of them fit by ridge regression
    fixed = {**more.pop("fixed", {}), "readout": {"kind": "ridge"}}
    return Paper(meanings, {**formulas, **fields}, fixed=fixed, **more)


NETWORK_PAPERS = {
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
            "u": ("steps.0(planted).strength", "size of the planted spike"),
            "cos": (
                "steps.0(planted).alignment",
                "cosine of the spike and the target direction",
            ),
        },
        # n/d = (n/p)(p/d); our rate is a step over the width, theirs is of order d
        {"samples_per_dim": "alpha*beta", "steps.0(maximal).rate": "eta/d"},
        defaults={"zeta": [1.0]},
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
    "cui2024asymptotics": _paper(
        {
            **_SIGMA,
            **_TARGET,
            "alpha": ("samples_per_dim", "n/d"),
            "beta": ("width_per_dim", "p/d"),
            **_LAMBDA,
            "eta_tilde": ("steps.0(maximal).rate", "step size over the width"),
            "alpha0": (
                "steps.0(maximal).batch_per_dim",
                "samples of the first batch over d",
            ),
            "r_s": "factor of the spike",
            "theta": "size of the spike",
            "c": "variance of the bulk",
            "gamma": (
                "steps.0(planted).alignment",
                "cosine of the spike and the target direction",
            ),
        },
        # their bulk has the variance c, ours a length
        {"steps.0(planted).strength": "r_s*theta", "steps.0(planted).bulk": "sqrt(c)"},
        defaults={"beta": 1.0},
        fixed=_EQUAL,
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
    "moniri2024theory": _paper(
        {
            **_SIGMA,
            **_TARGET,
            "phi": "d/n",
            "psi": "d/N",
            "lambda": "penalty in (1/n) sum (y - f)^2 + lambda |b|^2",
            "eta": ("steps.0(small).rate", "step size"),
            "alpha": (
                "steps.0(growing).exponent",
                "growth of the step, eta = rate n^alpha",
            ),
            "n": "samples of the step",
        },
        {
            "samples_per_dim": "1/phi",
            "width_per_dim": "1/psi",
            # times n, and |b|^2 = |a|^2/p: lambda n/p
            "readout.ridge": "lambda*psi/phi",
            "steps.0(small).batch_per_dim": "1/phi",
            "steps.0(growing).batch_per_dim": "1/phi",
            # their eta is the whole step, ours is rate n^alpha
            "steps.0(growing).rate": "eta/n**alpha",
        },
        fixed=_GAUSSIAN,
        shown={
            "samples_per_dim": "1/phi = n/d",
            "width_per_dim": "1/psi = p/d",
            "readout.ridge": "lambda n/p",
            "steps.0.batch_per_dim": "1/phi = n/d",
            "steps.0.rate": "eta, growing: eta/n^alpha",
            "target": "sigma_*",
        },
    ),
    "ba2022high": _paper(
        {
            **_SIGMA,
            **_TARGET,
            "psi1": ("samples_per_dim", "n/d, of the step and of the fit"),
            "psi2": ("width_per_dim", "N/d"),
            "lambda": (
                "penalty in (1/n) |y - Phi a|^2 + (lambda/N) |a|^2, Phi = sigma(X"
                " W)/sqrt(N)"
            ),
            "eta": (
                "steps.0(small).rate",
                "step size of order one in W + eta sqrt(N) G",
            ),
            "sigma_eps2": ("noise", "variance of the label noise"),
        },
        # times n: lambda n/N; one psi1 for the step and the fit
        {"readout.ridge": "lambda*psi1/psi2", "steps.0(small).batch_per_dim": "psi1"},
        # their second layer at the start is N(0, 1/N), rows are N(0, I/d)
        fixed={**_GAUSSIAN, "rows": "gaussian"},
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
    "mei2022generalization": _paper(
        {
            **_SIGMA,
            "psi1": ("width_per_dim", "N/d"),
            "psi2": ("samples_per_dim", "n/d"),
            "lambda": "penalty of the paper, ours over n/d",
            "tau2": ("noise", "variance of the label noise"),
        },
        # times n, and N/d lambda |b|^2 = lambda |a|^2/d: lambda n/d
        {"readout.ridge": "lambda*psi2"},
        fixed=_EQUAL,
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
    renamed = {}
    for name, value in names.items():
        if name != "readout":
            field = name.replace("steps.0", "step").removeprefix("readout.")
            renamed[field] = value
    return renamed


PRESET_PAPERS = {
    key: replace(
        paper,
        fields=_of_preset(paper.fields),
        fixed=_of_preset(paper.fixed),
        shown=_of_preset(paper.shown),
    )
    for key, paper in NETWORK_PAPERS.items()
}
"""BibTeX key -> the parameters of that paper, in the fields of the preset of one
step.
"""
