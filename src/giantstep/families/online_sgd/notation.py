"""The parameters of one-pass SGD in the symbols of the papers (gradient_dynamics sections 0 and 4)."""

from __future__ import annotations

from giantstep.paper_symbols import Paper

_SYMBOLS = {
    "h_star": "target",
    "sigma": "activation",
    "a": "second layer, a number for every neuron",
    "d": "input dimension",
    "n_b": "samples of an update",
    "T": "number of updates",
}
_FIELDS = {"target": "h_star", "activation": "sigma", "second_layer": "a", "dim": "d", "steps": "T"}

PAPERS = {
    "arnaboldi2024online": Paper(
        symbols={
            **_SYMBOLS,
            "gamma": "learning rate",
            "gamma0": "its prefactor, gamma = gamma0 d^-delta",
            "delta": "its decay with the dimension",
            "mu": "growth of the batch, n_b = d^mu",
            "Delta": "variance of the label noise",
        },
        fields={
            **_FIELDS,
            "rate": ("gamma", "gamma0*d**(-delta)"),
            "batch_size": ("n_b", "round(d**mu)"),
            "noise": "Delta",
        },
        shown={"target": "h*", "activation": "sigma", "noise": "Delta", "M": "M", "Q": "Q"},
    ),
    "arnaboldi2024repetita": Paper(
        symbols={
            **_SYMBOLS,
            "gamma0": "rate of a sample, gamma = gamma0 n_b p/d",
            "p": "number of neurons",
            "rho0": "rate of the inner step, rho = rho0 p/d",
            "rho": "inner step",
        },
        fields={**_FIELDS, "rate": "gamma0*n_b*p/d", "inner_rate": ("rho0", "rho*d/p"), "batch_size": "n_b"},
        defaults={"n_b": 1},
        shown={"target": "h*", "activation": "sigma", "rate": "gamma = gamma0 n_b p/d", "M": "M"},
    ),
}
"""BibTeX key -> the parameters of that paper."""
