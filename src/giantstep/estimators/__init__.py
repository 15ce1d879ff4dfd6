"""Estimators for real data: what the theory says is possible, done; scikit-learn's habits and names.

`AMPClustering` needs scikit-learn (``pip install giantstep[estimators]``); `place` does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from giantstep.estimators.amp_clustering import AMPClustering
    from giantstep.estimators.placing import Placement, place

__all__ = ["AMPClustering", "Placement", "place"]


def __getattr__(name: str) -> Any:
    if name in ("Placement", "place"):
        from giantstep.estimators import placing

        return getattr(placing, name)
    if name != "AMPClustering":
        raise AttributeError(f"module 'giantstep.estimators' has no attribute {name!r}")
    try:
        import sklearn  # noqa: F401
    except ImportError:
        raise ImportError(
            "AMPClustering needs scikit-learn, which is not installed; `pip install giantstep[estimators]` brings it."
        ) from None
    from giantstep.estimators.amp_clustering import AMPClustering

    return AMPClustering


def __dir__() -> list[str]:
    return sorted(__all__)
