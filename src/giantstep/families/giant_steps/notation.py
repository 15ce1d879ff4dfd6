"""The parameters of giant steps in the symbols of the paper (gradient_dynamics section 0)."""

from __future__ import annotations

from giantstep.paper_symbols import Paper

PAPERS = {
    "dandi2023giant": Paper(
        symbols={
            "f_star": "target",
            "sigma": "activation",
            "eta": "step size, of order p",
            "p": "number of neurons",
            "a": "second layer, of order 1/sqrt(p), a number for every neuron",
            "alpha": "samples of a batch over d^l",
            "l": "growth of the batch, n = alpha d^l",
            "T": "number of steps",
        },
        fields={
            "target": "f_star",
            "activation": "sigma",
            "rate": "eta/p",
            "width": "p",
            "second_layer": "sqrt(p)*a",
            "batch_per_dim": "alpha",
            "batch_exponent": "l",
            "steps": "T",
        },
        shown={"target": "f*", "second_layer": "sqrt(p) a_j"},
    )
}
"""BibTeX key -> the parameters of that paper."""
