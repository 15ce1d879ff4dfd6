import subprocess
import sys

import pytest

import giantstep as gs
from giantstep.core.base.progress import Progress
from giantstep.core.scenario.families import SHIPPED, family_class


def run(code):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()


def test_importing_is_light():
    heavy = run(
        "import sys, giantstep; print([m for m in ('numpy', 'xarray', 'pydantic') if m"
        " in sys.modules])"
    )
    assert heavy == "[]"


def test_every_public_name_loads_but_the_figures():
    for name in gs.__all__:
        if name != "plot":
            assert getattr(gs, name) is not None
            assert name in dir(gs)
    with pytest.raises(AttributeError, match="nothing"):
        _ = gs.nothing


def test_every_family_of_the_package_is_public():
    for name in SHIPPED:
        assert getattr(gs, family_class(name).__name__) is family_class(name)


def test_loading_a_module_hides_no_function():
    """Catches a public function with the name of a module of the package, which takes
    its place when it is loaded.
    """
    code = (
        "import sys, types, giantstep as gs;[getattr(gs, name) for name in"
        " gs.__all__];print([name for name in gs.__all__ if isinstance(getattr(gs,"
        " name), types.ModuleType)],type(gs) is types.ModuleType, {type(m) for n, m in"
        " sys.modules.items() if n.startswith('giantstep')})"
    )
    assert run(code) == "['estimators'] True {<class 'module'>}"


def test_the_version_is_the_one_of_the_project():
    import tomllib
    from pathlib import Path

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert gs.__version__ == project["project"]["version"]


def test_bars_go_to_stderr(capsys):
    with Progress(True, 2, "trials") as progress:
        progress.advance(2)
    captured = capsys.readouterr()
    assert captured.out == ""


def test_nothing_is_shown_unless_somebody_watches(capsys):
    with Progress(None, 2, "trials") as progress:
        progress.advance()
    assert capsys.readouterr() == ("", "")
