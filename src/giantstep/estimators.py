"""The estimators under the name that users of scikit-learn import.

They live in ``giantstep.tools.data.estimators``; this module only opens the door.
"""

from typing import Any

from giantstep.tools.data import estimators as _estimators

__all__ = _estimators.__all__


def __getattr__(name: str) -> Any:
    return getattr(_estimators, name)


def __dir__() -> list[str]:
    return dir(_estimators)
