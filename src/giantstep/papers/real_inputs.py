"""Real inputs that come with scikit-learn, for figures that lay data beside the
theory.
"""

from __future__ import annotations

from typing import Any

from giantstep.core.base.errors import InputError


def digit_inputs() -> tuple[Any, Any]:
    """Return the pixels of scikit-learn's digits that vary, and the digits."""
    pixels, digits = _scikit_learn("digits").load_digits(return_X_y=True)
    return pixels[:, pixels.std(axis=0) > 0], digits


def photographs() -> list[Any]:
    """Return the two photographs of scikit-learn, (rows, columns, 3) each."""
    return list(_scikit_learn("photographs").load_sample_images().images)


def _scikit_learn(words: str) -> Any:
    try:
        from sklearn import datasets
    except ImportError:
        raise InputError(
            f"This figure uses the {words} of scikit-learn, which is not installed (install giantstep[estimators])."
        ) from None
    return datasets
