"""Everything a worker will need, loaded once by the process that worker processes are forked from."""

import contextlib
import importlib

import xarray

from giantstep.families import family_class, family_names

_MODULES = (
    "giantstep.agreements",
    "giantstep.explorer.presets",
    "giantstep.explorer.script",
    "giantstep.explorer.tasks",
    "giantstep.files",
    "giantstep.forecasts",
    "giantstep.lab",
    "giantstep.result",
    "scipy.linalg",
    "scipy.special",
    "scipy.stats.qmc",
)

for _module in _MODULES:
    importlib.import_module(_module)
for _name in family_names():
    with contextlib.suppress(Exception):  # what cannot be loaded is reported by the task `families`
        for _engine in ("limit", "experiment"):
            family_class(_name)._engine(_engine)
xarray.Dataset({"a": ("x", [0.0])}, {"x": [0.0]}).reindex(x=[0.0, 1.0])  # xarray loads half of itself at first use
