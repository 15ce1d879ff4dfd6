"""One folder per problem: `scenario.py`, `limit.py`, `experiment.py`. Families never import each other.

Called as a function, ``giantstep.families()`` lists their names.
"""

from giantstep._names import callable_module


def _families() -> list[str]:
    """Return the names of all families, those of installed packages included.

    >>> import giantstep as gs
    >>> "one-step" in gs.families()
    True
    """
    from giantstep.scenario import families

    return families()


callable_module(__name__, _families)
