"""Long work in pieces: done once, done again when its content changes, said beforehand,
cut by a budget.
"""

import json
import sys
from pathlib import Path

import pytest

import giantstep as gs

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import pieces


def count(path, value):
    path.write_text(str(int(path.read_text() or 0) + 1) if path.exists() else "1")
    return {"ok": True, "value": value}


def fail():
    raise ValueError("no result")


@pytest.fixture
def records(tmp_path, monkeypatch):
    monkeypatch.setattr(pieces, "STATE", tmp_path / "state")
    return pieces.Records(tmp_path / "toy.json")


def toy(tmp_path, content, name="toy/one"):
    return pieces.Piece(
        name,
        (pieces.digest(content),),
        count,
        (tmp_path / "calls", content),
        group="toy",
    )


def test_a_record_stands_for_its_content(tmp_path, records):
    piece = toy(tmp_path, 1)
    assert not records.holds(piece)
    pieces.measure(piece)
    assert records.holds(piece) and not records.holds(toy(tmp_path, 2))
    record = records.get(piece)
    assert (
        record["value"] == 1
        and record["version"] == gs.__version__
        and record["machine"]
        and record["seconds"] >= 0
    )
    assert pieces.chosen([piece], records, 1, None) == []


def test_kept_records_survive_the_folder_of_a_run(tmp_path, records, monkeypatch):
    piece = toy(tmp_path, 1)
    pieces.measure(piece)
    records.keep([piece])
    monkeypatch.setattr(pieces, "STATE", tmp_path / "another")
    again = pieces.Records(tmp_path / "toy.json")
    assert again.holds(piece) and again.names() == ["toy/one"]
    assert json.loads((tmp_path / "toy.json").read_text())["toy/one"]["value"] == 1


def test_an_error_is_no_result(tmp_path, records):
    piece = pieces.Piece("broken", ("x",), fail, (), group="toy")
    pieces.measure(piece)
    assert "no result" in records.get(piece)["error"]
    assert not records.holds(piece) and records.keep([piece]) == {}


def test_a_budget_leaves_out_what_took_longer(tmp_path, records, capsys):
    short, long = (toy(tmp_path, 1, name) for name in ("short", "long"))
    for piece, seconds in ((short, 50.0), (long, 500.0)):
        piece.path.parent.mkdir(parents=True, exist_ok=True)
        earlier = {
            "digest": "older",
            "date": "today",
            "machine": "this",
            "seconds": seconds,
            "cores": 1,
        }
        piece.path.write_text(json.dumps(earlier))
    assert pieces.chosen([long, short], records, cores=2, budget=2.0) == [short]
    said = capsys.readouterr().out
    assert (
        "long: left out" in said
        and "short: 50 s of a core on today, this" in said
        and "2 minutes" in said
    )


def test_the_content_of_a_study_is_all_its_numbers_depend_on(monkeypatch):
    scenario = gs.OneStep(width_per_dim=1.0, samples_per_dim=2.0, ridge=0.1)

    def content(**changes):
        fields = {
            "grid": {"ridge": [0.1, 1.0]},
            "experiment": {"dim": 50, "trials": 2},
            **changes,
        }
        return pieces.digest(pieces.study_content(gs.Study(scenario, **fields)))

    base = content()
    assert base == content()
    assert base != content(grid={"ridge": [0.1, 2.0]})
    assert base != content(experiment={"dim": 50, "trials": 3})
    monkeypatch.setattr(gs.OneStep, "formula_version", gs.OneStep.formula_version + 1)
    assert base != content()
