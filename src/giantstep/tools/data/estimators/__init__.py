"""Estimators for real data: what the theory says is possible, done; scikit-learn's
habits and names.

`ForecastRidge` and `ForecastRidgeClassifier` know how much more data would help them;
`AMPClustering` finds clusters that few features tell apart. They and the rivals need
scikit-learn (``pip install giantstep[estimators]``), which `place` does not.

>>> import numpy as np
>>> from giantstep.estimators import AMPClustering
>>> X = np.random.default_rng(0).standard_normal((200, 100))
>>> # two clusters that differ on 10 of 100 features
>>> X[:, :10] += np.where(np.arange(200) % 2, 0.8, -0.8)[:, None]
>>> model = AMPClustering(n_clusters=2, random_state=0).fit(X)
>>> bool(model.found_), int(model.support_.sum())
(True, 10)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from giantstep.problems.subspace_clustering.rivals import rival_labels
    from giantstep.tools.data.estimators.amp_clustering import AMPClustering
    from giantstep.tools.data.estimators.forecast_ridge import (
        ForecastRidge,
        ForecastRidgeClassifier,
    )
    from giantstep.tools.data.estimators.placing import Placement, place

__all__ = [
    "AMPClustering",
    "ForecastRidge",
    "ForecastRidgeClassifier",
    "Placement",
    "place",
    "rival_labels",
]
_MODULES = {
    "AMPClustering": "giantstep.tools.data.estimators.amp_clustering",
    "ForecastRidge": "giantstep.tools.data.estimators.forecast_ridge",
    "ForecastRidgeClassifier": "giantstep.tools.data.estimators.forecast_ridge",
    "rival_labels": "giantstep.problems.subspace_clustering.rivals",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'giantstep.estimators' has no attribute {name!r}")
    try:
        if name in ("AMPClustering", "ForecastRidge", "ForecastRidgeClassifier"):
            importlib.import_module("sklearn")
        return getattr(
            importlib.import_module(
                _MODULES.get(name, "giantstep.tools.data.estimators.placing")
            ),
            name,
        )
    except ModuleNotFoundError:
        raise ImportError(
            f"{name} needs scikit-learn, which is not installed; `pip install"
            " giantstep[estimators]` brings it."
        ) from None


def __dir__() -> list[str]:
    return sorted(__all__)
