"""Studies as the page holds them: the tables of a study file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from giantstep.core.base.jsondata import json_data
from giantstep.core.run.study import Study
from giantstep.core.run.study_file import study_fields
from giantstep.core.scenario.toml import read_toml


def read_study(tables: Mapping[str, Any]) -> Study:
    """Return the checked study of a request."""
    return Study(**study_fields(tables, "The request"))


def study_tables(study: Study) -> dict[str, Any]:
    """Return a study as the tables of its TOML file, in strict JSON data; what has no
    place in a file raises.
    """
    tables: dict[str, Any] = json_data(read_toml(study.to_toml()))
    return tables
