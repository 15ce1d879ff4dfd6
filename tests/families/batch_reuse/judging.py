"""How the tests judge a sampled limit: normal scores of Student's t over the
scrambles.
"""

import numpy as np

from giantstep.core.result.verdicts import normal_score

LINE = 4.0
"""A normal score of 4 is passed once in 16,000: rare for the few hundred numbers these
tests judge.
"""


def scores(result, name, entries, wanted, wanted_error):
    """Return the normal scores of ``result[name][entries]`` against reference values
    with their own error.
    """
    got = result[name].values[entries]
    error = result[f"{name}_stderr"].values[entries]
    t = (got - np.asarray(wanted)) / np.sqrt(error**2 + wanted_error**2)
    return np.abs(normal_score(t, int(result.attrs["replicates"]) - 1))


def agrees(result, name, entries, wanted, wanted_error=0.0):
    return bool((scores(result, name, entries, wanted, wanted_error) < LINE).all())
