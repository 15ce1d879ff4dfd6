"""Exact high-dimensional theory of feature learning, with the experiment beside it.

A scenario says once what is studied; `predict` answers it in the limit of infinite dimension, `simulate` by
an experiment of finite dimension, `compare` by both, all with the same labelled table, an xarray Dataset.

>>> import giantstep as gs
>>> "predict" in dir(gs)
True
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

inf = float("inf")

_ONE_STEP = "giantstep.families.one_step.scenario"
_MIXTURE = "giantstep.families.mixture_glm.scenario"
_HOME = {
    "predict": "giantstep.study",
    "simulate": "giantstep.study",
    "compare": "giantstep.study",
    "sweep": "giantstep.sweep",
    "Study": "giantstep.study",
    "agreement": "giantstep.agreement",
    "place": "giantstep.estimators.placing",
    "plot": "giantstep.figures.plot",
    "save": "giantstep.files",
    "load": "giantstep.files",
    "cite": "giantstep.references",
    "families": "giantstep.scenario",
    "Scenario": "giantstep.scenario",
    "Function": "giantstep.gaussian",
    "Target": "giantstep.gaussian",
    "OneStep": _ONE_STEP,
    "Vocabulary": "giantstep.vocabulary",
    "NoStep": _ONE_STEP,
    "PlantedSpike": _ONE_STEP,
    "SmallStep": _ONE_STEP,
    "GrowingStep": _ONE_STEP,
    "regime": "giantstep.families.one_step.regimes",
    "MaximalStep": _ONE_STEP,
    "MixtureGLM": _MIXTURE,
    "Isotropic": _MIXTURE,
    "Blocks": _MIXTURE,
    "Dense": _MIXTURE,
    "Spiked": _MIXTURE,
    "Dataset": _MIXTURE,
    "best_ridge": "giantstep.tuning",
    "BatchReuse": "giantstep.families.batch_reuse.scenario",
    "SubspaceClustering": "giantstep.families.subspace_clustering.scenario",
    "OnlineSGD": "giantstep.families.online_sgd.scenario",
    "GiantSteps": "giantstep.families.giant_steps.scenario",
    "exponents": "giantstep.gaussian.exponents",
    "learnable": "giantstep.learnable",
    "GiantstepError": "giantstep.errors",
    "InputError": "giantstep.errors",
    "ConvergenceError": "giantstep.errors",
    "GiantstepWarning": "giantstep.errors",
}
"""Public name -> the module it is loaded from when first used."""

_ROOMS = ("estimators",)
"""Packages that are public as they are."""

__all__ = ["inf", *_HOME, *_ROOMS]


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f"giantstep.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'giantstep' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
