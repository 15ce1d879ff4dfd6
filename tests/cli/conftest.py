"""A runner for the command line and a small study."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from giantstep.faces.cli.app import app

STUDY = """\
[scenario]
family = "one-step"
activation = "relu"
target = "tanh(z)"
width_per_dim = 1.5
samples_per_dim = 2.0
ridge = 0.01
second_layer = { values = [1, -1], probabilities = [0.9, 0.1] }
step = { kind = "planted", strength = 1.0, alignment = 0.5 }
[experiment]
dim = 24
trials = 3
seed = 0
"""

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command in an empty folder that holds the study S.toml."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "S.toml").write_text(STUDY)

    def invoke(*words: str) -> Result:
        result = CliRunner().invoke(app, list(words))
        if result.exception is not None and not isinstance(
            result.exception, SystemExit
        ):
            raise result.exception
        return result

    return invoke


@pytest.fixture
def refused(run: Run, tmp_path: Path) -> Callable[..., str]:
    """Run a command that must be refused: status 2, one sentence on stderr, nothing
    printed or written.
    """

    def invoke(*words: str) -> str:
        before = sorted(tmp_path.rglob("*"))
        result = run(*words)
        assert result.exit_code == 2
        assert result.stdout == ""
        assert result.stderr.startswith("giantstep: ")
        assert result.stderr.count("\n") == 1
        assert "Traceback" not in result.output
        assert sorted(tmp_path.rglob("*")) == before
        return result.stderr

    return invoke
