"""The parameters of convex learning on mixtures in the symbols of the papers (mixture_glm section 11)."""

from __future__ import annotations

from giantstep.paper_symbols import Paper

_RIDGE = "penalty lambda/2 |w|^2 beside the sum of losses"

PAPERS = {
    "pesce2023gaussian": Paper(
        symbols={
            "alpha": "n/d",
            "lambda": _RIDGE,
            "p": "probabilities of the clusters",
            "Delta": "variance of the label noise",
        },
        fields={"samples_per_dim": "alpha", "ridge": "lambda", "weights": "p", "noise": "Delta"},
        shown={"weights": "p_c"},
    ),
    "loureiro2021learning": Paper(
        symbols={
            "alpha": "n/d",
            "lambda": _RIDGE,
            "rho": "squared length of the teacher (gamma = k/d is absorbed in it)",
            "Delta": "variance of the label noise",
        },
        fields={"samples_per_dim": "alpha", "ridge": "lambda", "teacher_norm": "rho", "noise": "Delta"},
        shown={"teacher_norm": "rho (gamma = k/d is absorbed in the teacher)", "h": "-"},
    ),
    "loureiro2021mixtures": Paper(
        symbols={"alpha": "n/d", "lambda": _RIDGE, "rho": "probabilities of the clusters"},
        fields={"samples_per_dim": "alpha", "ridge": "lambda", "weights": "rho"},
        shown={"weights": "rho_k", "h": "m_k", "V": "V_k", "q": "q_k", "b": "b*", "noise": "-"},
    ),
    "gerace2024gaussian": Paper(
        symbols={"alpha": "n/d", "lambda": _RIDGE, "rho": "probabilities of the clusters"},
        fields={"samples_per_dim": "alpha", "ridge": "lambda", "weights": "rho"},
        shown={"weights": "rho_c"},
    ),
}
"""BibTeX key -> the parameters of that paper."""
