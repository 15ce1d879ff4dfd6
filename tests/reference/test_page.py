"""Every plain file is shown on its page of the documentation, and stands alone."""

import ast
import sys
from pathlib import Path

import pytest

import giantstep.reference

FOLDER = Path(giantstep.reference.__file__).parent
FILES = sorted(path for path in FOLDER.glob("*.py") if path.stem != "__init__")
PAGE = (Path(__file__).parents[2] / "docs" / "plain_files.md").read_text()
ALLOWED = {"numpy", "scipy", *sys.stdlib_module_names}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_plain_file_is_shown_listed_and_needs_numpy_and_scipy_only(path):
    assert f"src/giantstep/reference/{path.name}\n" in PAGE
    assert f"`{path.stem}`" in (giantstep.reference.__doc__ or "")
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            modules = [node.module]
        elif isinstance(node, ast.Import):
            modules = [name.name for name in node.names]
        else:
            continue
        for module in modules:
            own = module.startswith("giantstep.reference.")
            assert own or module.partition(".")[0] in ALLOWED, module
