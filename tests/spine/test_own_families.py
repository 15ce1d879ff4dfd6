"""A folder's giantstep.toml makes families known there; nothing is run
that was not asked for.
"""

import sys

import pytest

import giantstep as gs
from giantstep.core.scenario.families import family_class

FAMILY = """\
from giantstep.core.scenario import Number, Question, Scenario, Variable, field

class {name}(Scenario):
    family = "{family}"
    questions = {{"value": Question("a value", (Variable("value", (), "v", "a value"),))}}
    size: Number = field("s", "size", default=1.0)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


def test_a_family_of_the_folder_is_found_when_asked_for(folder, monkeypatch):
    from giantstep.core.scenario import families

    monkeypatch.setattr(families, "_LOADED", dict(families._LOADED))
    (folder / "own_pca.py").write_text(FAMILY.format(name="OwnPCA", family="own-pca"))
    (folder / "boom.py").write_text("raise SystemExit('run although nobody asked')")
    (folder / "giantstep.toml").write_text(
        '[families]\nown-pca = "own_pca.py"\nboom = "boom.py"\n'
    )
    assert {"own-pca", "boom"} <= set(gs.family_names())
    assert "own_pca" not in sys.modules
    assert family_class("own-pca").__name__ == "OwnPCA"
    monkeypatch.delitem(sys.modules, "own_pca")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[families]\nnobody = "../nobody.py"\n', "in the same folder"),
        ('[families]\nnobody = "gone.py"\n', "which is not in this folder"),
        ('[families]\nnobody = "json.py"\n', "called like an installed module"),
        ("families = 3\n", "must be a table"),
        ("families = [\n", "giantstep.toml is not valid TOML"),
    ],
)
def test_what_the_folder_says_wrongly(folder, text, said):
    (folder / "json.py").write_text("")
    (folder / "giantstep.toml").write_text(text)
    with pytest.raises(gs.InputError, match=said):
        family_class("nobody")


def test_modules_beside_a_family_in_one_file_are_not_its_own(folder, monkeypatch):
    """A package may have a limit.py and an experiment.py that belong to something
    else.
    """
    from giantstep.core.scenario import families

    monkeypatch.setattr(families, "_LOADED", dict(families._LOADED))
    own = FAMILY.format(name="OwnLab", family="own-lab").replace(
        "import Number, Question", "import Answer, Number, Question"
    )
    engines = (
        "    def limit(self, points, what, settings):\n        return"
        " Answer.closed({'value': points['size']})\n    def trial(self, points, what,"
        " dim, draws, settings):\n        return {'value': points['size']}\n"
    )
    (folder / "ownlab").mkdir()
    (folder / "ownlab" / "__init__.py").write_text("")
    (folder / "ownlab" / "own.py").write_text(own + engines)
    for name in ("limit", "experiment"):
        (folder / "ownlab" / f"{name}.py").write_text(
            "raise SystemExit('run although nobody asked')"
        )
    monkeypatch.syspath_prepend(str(folder))
    from ownlab.own import OwnLab

    assert (
        float(gs.predict(OwnLab()).value)
        == float(gs.simulate(OwnLab(), dim=10, trials=2).value)
        == 1.0
    )
