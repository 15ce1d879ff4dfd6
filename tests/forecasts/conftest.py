import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine


def standardised(table):
    return (table - table.mean(axis=0)) / table.std(axis=0)


@pytest.fixture(scope="session")
def datasets():
    """The data sets of forecast section 12: features and labels by name."""
    pixels, numbers = load_digits(return_X_y=True)
    pixels = pixels[:, pixels.std(axis=0) > 0]
    parity = np.where(numbers % 2 == 0, 1.0, -1.0)
    diabetes = load_diabetes()
    cancer = load_breast_cancer()
    wine = load_wine()
    return {
        "digits parity": (pixels / 6.0622807, parity),
        "digits ten": (pixels / 6.0622807, numbers),
        "digits wide": (pixels[:50] / 16, parity[:50]),
        "digits uneven": (pixels[:80] / 16, parity[:80]),
        "diabetes": (standardised(diabetes.data), standardised(diabetes.target)),
        "breast cancer": (
            standardised(cancer.data),
            np.where(cancer.target == 1, 1.0, -1.0),
        ),
        "wine": (standardised(wine.data), wine.target),
    }


@pytest.fixture
def gaussian():
    """A Gaussian table of 60 rows and 12 columns with a linear label and noise."""
    rng = np.random.default_rng(3)
    features = rng.standard_normal((60, 12)) * np.linspace(0.3, 2, 12)
    return features, features @ rng.standard_normal(12) + rng.standard_normal(60)
