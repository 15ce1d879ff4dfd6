"""The parameters of subspace clustering in the symbols of the paper (subspace_clustering section 1)."""

from __future__ import annotations

from giantstep.paper_symbols import Paper

PAPERS = {
    "pesce2022subspace": Paper(
        symbols={
            "alpha": "n/d",
            "rho": "fraction of active features",
            "K": "number of clusters",
            "lambda": "signal-to-noise ratio",
            "ratio": "lambda sqrt(alpha)/K, the axis of the figures",
        },
        fields={
            "samples_per_dim": "alpha",
            "sparsity": "rho",
            "clusters": "K",
            "snr": ("lambda", "ratio*K/sqrt(alpha)"),
        },
        shown={"m_u": "M_u", "m_v": "M_v"},
    )
}
"""BibTeX key -> the parameters of that paper."""
