"""The estimators under the name that users of scikit-learn import.

They live in ``giantstep.tools.data.estimators``; this module only opens the door.
`ForecastRidge` and `ForecastRidgeClassifier` know how much more data would help them;
`AMPClustering` finds clusters that few features tell apart.

>>> import numpy as np
>>> from giantstep.estimators import AMPClustering
>>> X = np.random.default_rng(0).standard_normal((200, 100))
>>> X[:, :10] += np.where(np.arange(200) % 2, 0.8, -0.8)[:, None]
>>> model = AMPClustering(n_clusters=2, random_state=0).fit(X)
>>> bool(model.found_), int(model.support_.sum())
(True, 10)
"""

from typing import Any

from giantstep.tools.data import estimators as _estimators

__all__ = _estimators.__all__


def __getattr__(name: str) -> Any:
    return getattr(_estimators, name)


def __dir__() -> list[str]:
    return dir(_estimators)
