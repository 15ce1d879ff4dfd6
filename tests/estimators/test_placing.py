"""Where a dataset lies in the phase diagram: in Python and on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import giantstep as gs
from giantstep.faces.cli.app import app
from giantstep.tools.data.estimators.matrices import read_matrix


class TestPlace:
    def test_easy_data_are_easy_and_the_limit_says_how_easy(self, mixture) -> None:
        X, _, _ = mixture(800, 400, 2, 20, 1.6)
        placed = gs.place(50 * X - 3)
        assert (placed.verdict, placed.phase, placed.clusters, placed.found) == (
            "easy",
            "optimal",
            2,
            True,
        )
        assert placed.ratio == pytest.approx(
            1.6, rel=0.25
        ) and placed.noise_level == pytest.approx(50, rel=0.02)
        scenario = gs.SubspaceClustering(
            clusters=2, sparsity=placed.sparsity, snr=placed.snr, samples_per_dim=2.0
        )
        assert placed.accuracy == pytest.approx(
            float(gs.predict(scenario)["accuracy"].sel(branch="uninformed"))
        )
        assert placed.expected_accuracy == pytest.approx(placed.accuracy, abs=0.05)
        assert (
            "Easy" in placed.report() and "800 samples, 400 features" in placed.report()
        )

    def test_data_below_the_line_with_few_active_features_are_hard(
        self, mixture
    ) -> None:
        placed = gs.place(mixture(1500, 750, 2, 6, 0.75)[0], 2)
        assert (placed.verdict, placed.phase) == ("hard", "hard")
        assert (
            placed.snr_possible
            < placed.snr
            < placed.snr_easy
            == pytest.approx(np.sqrt(2))
        )
        assert placed.accuracy == pytest.approx(0.5) and placed.best_accuracy > 0.65
        assert placed.samples_for_easy == np.ceil(750 * (2 / placed.snr) ** 2) > 1500
        assert (
            "Hard" in placed.sentence()
            and f"{placed.samples_for_easy:.0f} samples" in placed.sentence()
        )

    def test_noise_is_not_found_and_no_number_is_made_up(self) -> None:
        placed = gs.place(np.random.default_rng(0).standard_normal((200, 100)))
        assert (placed.verdict, placed.found) == ("not found", False)
        assert np.isnan(placed.snr) and placed.snr_easy == pytest.approx(np.sqrt(2))
        values = placed.to_dict()
        assert values["snr"] is None and values["found"] is False
        json.dumps(values, allow_nan=False)

    def test_correlated_features_are_pointed_out(self) -> None:
        rng = np.random.default_rng(0)
        X = rng.standard_normal((200, 10)) + 3 * np.outer(
            rng.standard_normal(200), np.ones(10)
        )
        placed = gs.place(X)
        assert placed.most_tried and "correlated" in placed.sentence()

    def test_constant_columns_are_counted_apart(self, mixture) -> None:
        X = np.hstack([mixture(600, 300, 2, 15, 2.0)[0], np.ones((600, 5))])
        with pytest.warns(
            gs.GiantstepWarning,
            match="5 of 305 columns are constant and were left out: 300, 301",
        ):
            placed = gs.place(X, 2)
        assert (placed.features, placed.constant_features, placed.samples_per_dim) == (
            300,
            5,
            2.0,
        )
        assert "5 constant ones left out" in placed.report()

    def test_the_point_is_marked_in_the_diagram(self, mixture) -> None:
        placed = gs.place(mixture(400, 200, 2, 10, 2.5)[0], 2)
        words = [text.get_text() for text in placed.plot().axes[0].texts]
        assert {"you are here: easy", "hard", "impossible"} <= set(words)

    @pytest.mark.parametrize(
        ("X", "n_clusters", "said"),
        [
            (np.zeros(5), "auto", "matrix of at least 2 samples"),
            ([["a", "b"], ["c", "d"]], "auto", "real numbers"),
            (np.full((5, 3), np.nan), "auto", "NaN"),
            (np.eye(5), 1, "`n_clusters` must be"),
            (np.eye(5), 51, "`n_clusters` must be"),
            (np.eye(5), 6, "6 clusters need"),
            (np.eye(5), "two", "`n_clusters` must be"),
        ],
    )
    def test_bad_data_are_refused_in_a_sentence(self, X, n_clusters, said) -> None:
        with pytest.raises(gs.InputError, match=said):
            gs.place(X, n_clusters)


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mixture
) -> Callable[..., Result]:
    monkeypatch.chdir(tmp_path)
    np.save("data.npy", mixture(400, 200, 2, 10, 2.5)[0])

    def invoke(*words: str) -> Result:
        result = CliRunner().invoke(app, list(words))
        if result.exception is not None and not isinstance(
            result.exception, SystemExit
        ):
            raise result.exception
        return result

    return invoke


class TestTheCommand:
    def test_it_prints_parameters_and_verdict(self, run) -> None:
        result = run("place", "data.npy")
        assert result.exit_code == 0
        assert "400 samples, 200 features" in result.stdout and "Easy" in result.stdout

    def test_json_and_plot(self, run, tmp_path) -> None:
        result = run(
            "place", "data.npy", "--clusters", "2", "--json", "--plot", "here.png"
        )
        assert result.exit_code == 0
        values = json.loads(result.stdout)
        assert values["verdict"] == "easy" and values["clusters"] == 2
        assert (tmp_path / "here.png").stat().st_size > 10_000
        assert {path.name for path in tmp_path.iterdir()} == {"data.npy", "here.png"}

    def test_a_table_gives_the_same_as_an_array(self, run) -> None:
        X = np.load("data.npy")
        names = ",".join(["sample", *(f"gene {place}" for place in range(X.shape[1]))])
        rows = [
            f"s{place}," + ",".join(map(repr, row))
            for place, row in enumerate(X.tolist())
        ]
        Path("data.csv").write_text("\n".join([names, *rows]) + "\n")
        np.savez("turned.npz", X=X.T, other=np.eye(3))
        table, array = (
            run("place", name, "--clusters", "2", "--json")
            for name in ("data.csv", "data.npy")
        )
        turned = run("place", "turned.npz", "--clusters", "2", "--json", "--transpose")
        assert (
            json.loads(table.stdout)
            == json.loads(array.stdout)
            == json.loads(turned.stdout)
        )
        assert (
            "Column 'sample' of 'data.csv' holds no numbers and is left out."
            in table.stderr
        )

    def test_parquet_is_read_too(self, run) -> None:
        pandas = pytest.importorskip("pandas")
        _ = pytest.importorskip("pyarrow")
        X = np.load("data.npy")
        frame = pandas.DataFrame(
            X, columns=[f"gene {place}" for place in range(X.shape[1])]
        )
        frame.insert(0, "sample", [f"s{place}" for place in range(len(X))])
        frame.to_parquet("data.parquet")
        table, array = (
            run("place", name, "--clusters", "2", "--json")
            for name in ("data.parquet", "data.npy")
        )
        assert json.loads(table.stdout) == json.loads(array.stdout)
        assert "Column 'sample' of 'data.parquet' holds no numbers" in table.stderr
        frame.loc[3, "gene 1"] = np.nan
        frame.to_parquet("gap.parquet")
        gap = run("place", "gap.parquet")
        assert gap.exit_code == 2 and "'gap.parquet' contains NaN: 1 of" in gap.stderr

    @pytest.mark.parametrize(
        ("name", "text", "options", "said"),
        [
            (
                "bad.csv",
                "a,b\n1,2\n3,x\n4,5\n",
                (),
                "Column 'b' of 'bad.csv' holds 'x' in row 1",
            ),
            (
                "gap.csv",
                "a,b\n1,2\n3,\n4,5\n",
                (),
                "'gap.csv' contains NaN: 1 of 6 entries",
            ),
            (
                "gaps.csv",
                "a,b,c,d\n1,na, NAN , \n3,4,5,6\n",
                (),
                "'gaps.csv' contains NaN: 3 of 8 entries",
            ),
            (
                "short.csv",
                "1,2\n3,\n4\n",
                (),
                "Row 2 of 'short.csv' has 1 cells, but there are 2 columns",
            ),
            (
                "short.txt",
                "a b\n1 2\n3\n",
                (),
                "Row 1 of 'short.txt' has 1 cells, but there are 2 columns",
            ),
            ("words.csv", "a,b\nc,d\n", (), "holds no column of numbers"),
            ("empty.csv", "", (), "'empty.csv' cannot be read"),
            ("broken.npy", "no array", (), "cannot be read as a matrix of numbers"),
            ("data.xlsx", "", (), "Data are read from .csv"),
            ("one.csv", "1,2,3\n", (), "at least 2 samples"),
            ("few.csv", "1,2\n3,4\n5,7\n", ("--clusters", "4"), "4 clusters need"),
            ("few.csv", "1,2\n3,4\n5,7\n", ("--clusters", "1"), "`n_clusters` must be"),
            ("few.csv", "1,2\n3,4\n5,7\n", ("--plot", "here.doc"), "--plot writes"),
            ("few.csv", "1,2\n3,4\n5,7\n", ("--seed", "-1"), "`seed` must be"),
        ],
    )
    @pytest.mark.filterwarnings("ignore:Column")
    def test_bad_input_is_refused_in_one_sentence(
        self, run, name, text, options, said
    ) -> None:
        Path(name).write_text(text)
        result = run("place", name, *options)
        assert result.exit_code == 2 and result.stdout == ""
        assert said in result.stderr and result.stderr.splitlines()[-1].startswith(
            "giantstep: "
        )

    def test_a_file_that_is_not_there_is_refused(self, run) -> None:
        result = run("place", "nothing.csv")
        assert (
            result.exit_code == 2 and "There is no file 'nothing.csv'" in result.stderr
        )


@pytest.mark.parametrize(
    "text",
    [
        ",0,1\n0,1.5,2\n1,3,4\n",
        "1.5;2\n3;4\n",
        "1.5\t2\n3\t4",
        " 1.5 2\n 3   4\n",
        '"a b" c\n1.5 2\n3 4',
        '"a","b"\n1.5,2\n3,4',
    ],
)
def test_tables_come_in_many_dresses(tmp_path: Path, text: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    assert read_matrix(tmp_path / "t.csv").tolist() == [[1.5, 2.0], [3.0, 4.0]]
