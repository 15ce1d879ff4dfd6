"""Which pages lie below a page in the menu of the site: said here, so that a page holds
nothing but its text.
"""

from __future__ import annotations

from sphinx.application import Sphinx

BELOW = {
    "network": (
        "one_step",
        "few_steps",
        "split_the_batch",
        "structured_inputs",
        "adam",
        "variance",
        "calibration",
        "shift",
        "sensitivity",
    ),
    "theory/index": (
        "spiked_features",
        "finite_batch_general",
        "finite_batches_several_steps",
        "step_size_regimes",
        "few_steps_readout",
        "structured_inputs",
        "finite_size_steps",
        "sign_step",
        "beyond_the_error",
        "gradient_dynamics",
        "batch_reuse_dmft",
        "mixture_glm",
        "subspace_clustering",
        "forecast",
        "bayes_multi_index",
    ),
}


def _append_menu(app: Sphinx, page: str, source: list[str]) -> None:
    if page in BELOW:
        names = "\n".join(BELOW[page])
        source[0] += f"\n```{{toctree}}\n:hidden:\n:titlesonly:\n\n{names}\n```\n"


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the menus when a page is read."""
    app.connect("source-read", _append_menu)
    return {"parallel_read_safe": True}
