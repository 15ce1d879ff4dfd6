"""The parameters of batch reuse in the symbols of the paper (batch_reuse_dmft section 9)."""

from __future__ import annotations

from giantstep.paper_symbols import Paper

PAPERS = {
    "dandi2024benefits": Paper(
        symbols={
            "f_star": "target",
            "sigma": "activation",
            "a": "second layer, a number for every neuron",
            "alpha": "n/d",
            "eta": "step size on the sum over samples",
            "lambda": "weight decay",
            "T": "number of steps",
        },
        fields={
            "target": "f_star",
            "activation": "sigma",
            "second_layer": "a",
            "samples_per_dim": "alpha",
            "rate": "eta",
            "decay": "lambda",
            "steps": "T",
        },
        shown={
            "target": "f*",
            "M": "M^t",
            "Q": "C_theta(t,t)",
            "samples_per_dim": "alpha = n/d (the loss is a sum over samples)",
        },
    )
}
"""BibTeX key -> the parameters of that paper."""
