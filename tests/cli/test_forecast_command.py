"""`giantstep forecast`: a file in, a curve and a statement out."""

from __future__ import annotations

import json

import numpy as np
import pytest

import giantstep as gs

pytest.importorskip("pandas")

RNG = np.random.default_rng(0)
FEATURES = RNG.standard_normal((120, 6))
LABELS = FEATURES[:, 0] + RNG.standard_normal(120)


@pytest.fixture
def files(tmp_path):
    np.savez(tmp_path / "f.npz", phi=FEATURES, y=LABELS, who=np.arange(120) // 4)
    np.save(tmp_path / "phi.npy", FEATURES)
    np.save(tmp_path / "y.npy", LABELS)
    head = ",".join([*(f"x{i}" for i in range(6)), "price", "who"])
    table = np.column_stack([FEATURES, LABELS, np.arange(120) // 4])
    np.savetxt(
        tmp_path / "f.csv", table, delimiter=",", header=head, comments="", fmt="%.17g"
    )
    return tmp_path


def test_every_kind_of_file_gives_the_same_table(run, files):
    options = ("--samples", "30:240:3", "--ridge", "1,10", "--trials", "2")
    expected = gs.forecast(
        FEATURES, LABELS, ridge=[1, 10], samples=[30, 85, 240], trials=2
    )
    for words in (
        ("f.csv", "--label", "price", "--groups", "who"),
        ("f.npz", "--label", "y", "--groups", "who"),
    ):
        assert (
            run("forecast", "--data", *words, *options, "--out", "t.json").exit_code
            == 0
        )
        result = gs.load(files / "t.json")
        np.testing.assert_allclose(
            result["mse"].sel(source="limit"),
            expected["mse"].sel(source="limit"),
            rtol=1e-9,
        )
    pytest.importorskip("pyarrow")
    import pandas

    pandas.read_csv(files / "f.csv").drop(columns="who").to_parquet(files / "f.parquet")
    assert (
        run(
            "forecast",
            "--data",
            "f.parquet",
            "--label",
            "price",
            *options,
            "--out",
            "t.json",
        ).exit_code
        == 0
    )
    np.testing.assert_allclose(
        gs.load(files / "t.json")["mse"], expected["mse"], rtol=1e-9
    )
    assert (
        run(
            "forecast",
            "--data",
            "phi.npy",
            "--label",
            "y.npy",
            *options,
            "--out",
            "t.json",
        ).exit_code
        == 0
    )
    np.testing.assert_allclose(
        gs.load(files / "t.json")["mse"], expected["mse"], rtol=1e-9
    )


def test_what_is_printed(run, files):
    result = run(
        "forecast",
        "--data",
        "f.npz",
        "--label",
        "y",
        "--samples",
        "30,60,480",
        "--plot",
        "c.png",
    )
    assert result.exit_code == 0 and (files / "c.png").stat().st_size > 5000
    assert "se_total" in result.stdout and "trained on these rows" in result.stdout
    result = run(
        "forecast", "--data", "f.npz", "--label", "y", "--samples", "30,60,480"
    )
    assert (
        "best ridge" in result.stdout
        and "experiment" in result.stdout
        and "predict --data" in result.stdout
    )
    result = run(
        "forecast",
        "--data",
        "f.npz",
        "--label",
        "y",
        "--samples",
        "60",
        "--json",
        "--trials",
        "0",
    )
    assert json.loads(result.stdout)["trust"]["verdicts"] == ["not judged"] * 9


def test_sizes_that_the_rows_do_not_determine_are_no_failure(run, files):
    np.savez(
        files / "wide.npz", phi=RNG.standard_normal((60, 80)), y=RNG.standard_normal(60)
    )
    result = run("forecast", "--data", "wide.npz", "--label", "y", "--trials", "0")
    assert result.exit_code == 0 and "points were not computed" in result.stderr


def test_the_two_commands_for_tables_name_each_other(run, files):
    result = run("predict", "--data", "f.csv", "--label", "price")
    assert "giantstep forecast --data" in result.stdout


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--data", "f.csv", "--label", "prize"), "did you mean `price`"),
        (
            ("--data", "f.csv", "--label", "price", "--groups", "whom"),
            "no further column `whom`",
        ),
        (("--data", "phi.npy", "--label", "z.npy"), "no file"),
        (("--data", "phi.npy", "--label", "f.csv"), "called 'f.csv'"),
        (
            ("--data", "f.npz", "--label", "y", "--ridge", "-1"),
            "`ridge` must be at least 0",
        ),
        (("--data", "f.npz", "--label", "y", "--task", "rank"), "`task`"),
        (("--data", "f.npz", "--label", "y", "--plot", "c.gif"), "--plot writes"),
    ],
)
def test_refusals(refused, files, words, sentence):
    assert sentence in refused("forecast", *words)
