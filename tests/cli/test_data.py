"""The option --data: learning curves of a user's table, and tables that are refused."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

pandas = pytest.importorskip("pandas")


def written(path, **columns):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 3))
    y = X @ [1.0, -0.5, 0.2] + 0.3 * rng.standard_normal(80)
    frame = pandas.DataFrame(X, columns=["height", "width", "depth"]).assign(
        price=y, **columns
    )
    frame.to_csv(path, index=False)
    return frame


def test_a_learning_curve_of_a_table(run, tmp_path):
    written(tmp_path / "t.csv")
    result = run("predict", "--data", "t.csv", "--label", "price", "--json")
    assert result.exit_code == 0, result.stderr
    content = json.loads(result.stdout)
    assert len(content["samples_per_dim"]) > 8
    errors = np.array(content["test_error"], dtype=float)
    assert errors[0] > errors[-1] > 0


def test_all_verbs_and_outputs(run, tmp_path):
    written(tmp_path / "t.csv")
    source = (
        "--data",
        "t.csv",
        "--label",
        "price",
        "--set",
        "ridge=0.1",
        "--grid",
        "samples_per_dim=3,10",
    )
    result = run(
        "compare", *source, "--trials", "5", "--out", "r.csv", "--plot", "r.png"
    )
    assert result.exit_code == 0, result.stderr
    assert (tmp_path / "r.csv").exists() and (tmp_path / "r.png").exists()
    assert "test_error" in result.stdout
    assert run("simulate", *source, "--trials", "3").exit_code == 0


def test_text_classes_are_said(run, tmp_path):
    frame = written(tmp_path / "t.csv")
    frame.assign(price=np.where(frame["price"] > 0, "dear", "cheap")).to_csv(
        tmp_path / "c.csv", index=False
    )
    result = run(
        "predict", "--data", "c.csv", "--label", "price", "--set", "loss=logistic"
    )
    assert result.exit_code == 0, result.stderr
    assert "'cheap' is -1, 'dear' is 1" in result.stderr


def test_columns_are_dropped_and_the_penalty_is_said_in_other_words(
    run, refused, tmp_path
):
    written(tmp_path / "t.csv", colour="red", shape="round")
    source = (
        "predict",
        "--data",
        "t.csv",
        "--label",
        "price",
        "--grid",
        "samples_per_dim=3,10",
    )
    assert "--drop shape" in refused(*source, "--drop", "colour")
    assert "no further column `prise`" in refused(*source, "--drop", "prise")
    result = run(*source, "--drop", "colour", "--drop", "shape")
    assert result.exit_code == 0, result.stderr
    assert (
        "Ridge(alpha=3 * ridge)" in result.stdout and "C=1/(3 * ridge)" in result.stdout
    )
    assert "--drop is for --data" in refused("predict", "S.toml", "--drop", "colour")


@pytest.mark.parametrize(
    ("loss", "name"), [("square", "Ridge"), ("logistic", "LogisticRegression")]
)
def test_scikit_learn_with_the_penalty_said_fits_the_same_weights(loss, name):
    linear_model = pytest.importorskip("sklearn.linear_model")
    from giantstep.core.readout.losses.fitting import fit

    rng = np.random.default_rng(1)
    X = rng.standard_normal((40, 3))
    ridge = 0.7
    y = np.sign(X @ [1.0, -0.5, 0.2] + rng.standard_normal(40))
    alpha = X.shape[1] * ridge  # what predict --data prints
    settings = {"alpha": alpha} if name == "Ridge" else {"C": 1 / alpha, "tol": 1e-10}
    theirs = getattr(linear_model, name)(fit_intercept=False, **settings).fit(X, y)
    ours = fit(X / np.sqrt(3), y, loss, ridge=ridge).weights / np.sqrt(3)
    np.testing.assert_allclose(np.ravel(theirs.coef_), ours, rtol=1e-6)


def test_arrays_and_tabs(run, tmp_path):
    frame = written(tmp_path / "t.csv")
    frame.to_csv(tmp_path / "t.tsv", sep="\t", index=False)
    np.savez(
        tmp_path / "t.npz",
        X=frame[["height", "width", "depth"]].to_numpy(),
        price=frame["price"].to_numpy(),
    )
    outputs = [
        run("predict", "--data", f"t.{end}", "--label", "price", "--json").stdout
        for end in ("csv", "tsv", "npz")
    ]
    values = [json.loads(text)["test_error"] for text in outputs]
    np.testing.assert_allclose(values[1], values[0])
    np.testing.assert_allclose(values[2], values[0])


def test_names_of_rows_and_empty_lines_in_front_are_no_data(run, tmp_path):
    frame = written(tmp_path / "t.csv")
    plain = (tmp_path / "t.csv").read_text()
    rows = frame.to_csv().removeprefix(",")
    (tmp_path / "rows.csv").write_text(rows)
    (tmp_path / "empty.csv").write_text("\n \n" + plain)
    printed = [
        run("predict", "--data", name, "--label", "price", "--json")
        for name in ("t.csv", "rows.csv", "empty.csv")
    ]
    errors = [json.loads(result.stdout)["test_error"] for result in printed]
    assert errors[0] == errors[1] == errors[2]
    cut = rows.splitlines()
    cut[2:] = [line.split(",", 1)[1] for line in cut[2:]]
    (tmp_path / "first.csv").write_text("\n".join(cut))
    result = run("predict", "--data", "first.csv", "--label", "price")
    assert result.exit_code == 2 and "missing" in result.stderr


def test_parquet_where_its_reader_is_installed(run, refused, tmp_path, monkeypatch):
    frame = written(tmp_path / "t.csv")
    try:
        frame.to_parquet(tmp_path / "t.parquet")
    except ImportError:
        (tmp_path / "t.parquet").write_bytes(b"PAR1")
        assert "install pyarrow or fastparquet" in refused(
            "predict", "--data", "t.parquet", "--label", "price"
        )
    else:
        assert run("predict", "--data", "t.parquet", "--label", "price").exit_code == 0
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        monkeypatch.setitem(sys.modules, "fastparquet", None)
        assert "install pyarrow or fastparquet" in refused(
            "predict", "--data", "t.parquet", "--label", "price"
        )


def test_tables_that_are_refused(refused, tmp_path):
    source = ("predict", "--data", "t.csv", "--label", "price")
    written(tmp_path / "t.csv", colour="red")
    assert "Column `colour` holds text" in refused(*source)
    frame = written(tmp_path / "t.csv")
    frame.loc[4, "width"] = np.nan
    frame.to_csv(tmp_path / "t.csv", index=False)
    assert (
        "1 value is missing or not finite (the first in column `width`, row 4)"
        in refused(*source)
    )
    frame.assign(width=1.0, price=2.0).to_csv(tmp_path / "t.csv", index=False)
    assert "All 80 labels are 2.0" in refused(*source)
    frame.assign(width=1.0).iloc[:2].to_csv(tmp_path / "t.csv", index=False)
    assert "2 rows; at least 3 are needed" in refused(*source)
    written(tmp_path / "t.csv")
    assert "did you mean `price`" in refused(
        "predict", "--data", "t.csv", "--label", "prise"
    )
    assert "at most" in refused(*source, "--set", "samples_per_dim=1000")
    (tmp_path / "t.csv").write_text("")
    assert "is not a table" in refused(*source)
    (tmp_path / "t.csv").write_text("price\n1\n2\n3\n")
    assert "no column beside `price`" in refused(*source)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a;price\n1;2\n3;4\n", "separated by semicolons?"),
        ("a,a,price\n1,2,3\n4,5,6\n", "Column `a` stands in t.csv more than once"),
        (",a,price\n0,2,3\n1,5,6\n", "Column 1 of t.csv has no name"),
        ("a,price\n", "t.csv has no rows"),
        ("a,price\n1,2,3,4\n1\n1,2,3,4,5,6\n", "is not a table"),
    ],
)
def test_texts_that_are_no_table(refused, tmp_path, text, said):
    (tmp_path / "t.csv").write_text(text)
    assert said in refused("predict", "--data", "t.csv", "--label", "price")


def test_a_file_that_is_no_archive(refused, tmp_path):
    (tmp_path / "t.npz").write_text("text")
    assert "t.npz is not an .npz file" in refused(
        "predict", "--data", "t.npz", "--label", "price"
    )


def test_options_that_do_not_fit(refused, tmp_path):
    written(tmp_path / "t.csv")
    assert "--label is missing" in refused("predict", "--data", "t.csv")
    assert "not both" in refused(
        "predict", "S.toml", "--data", "t.csv", "--label", "price"
    )
    assert "--label is for --data" in refused("predict", "S.toml", "--label", "price")
    assert "A study is missing" in refused("predict")
    assert "There is no file" in refused(
        "predict", "--data", "no.csv", "--label", "price"
    )
    (tmp_path / "t.xls").touch()
    assert "Data are read from" in refused(
        "predict", "--data", "t.xls", "--label", "price"
    )
    assert "`scale` must be one of" in refused(
        "predict", "--data", "t.csv", "--label", "price", "--scale", "rows"
    )
    np.savez(
        tmp_path / "two.npz", a=np.ones((4, 2)), b=np.ones((4, 2)), y=np.arange(4.0)
    )
    assert "one table of inputs beside `y`, but has 2" in refused(
        "predict", "--data", "two.npz", "--label", "y"
    )
    assert "There is no array `z`" in refused(
        "predict", "--data", "two.npz", "--label", "z"
    )
