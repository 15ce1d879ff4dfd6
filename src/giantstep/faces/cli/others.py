"""The commands of one verb each: ``phase-diagram place exponents learnable script
explore``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

import giantstep as gs
from giantstep.core.base.errors import InputError, bad_field
from giantstep.faces.cli.options import (
    Json,
    Output,
    StudyFile,
    assignments,
    check_outputs,
    many,
    option,
    print_answer,
)
from giantstep.faces.cli.verbs import show_or_write

if TYPE_CHECKING:
    from giantstep.tools.data.forecasts.table import Forecast

Set = Annotated[
    list[str] | None,
    Option("--set", metavar="FIELD=VALUE", help="Change a field; may be repeated."),
]
Target = Annotated[
    str,
    Argument(
        metavar="TARGET", help='An expression in z or z1..z6, for example "z1 + z1*z2".'
    ),
]


def phase_diagram(
    study: Annotated[Path, StudyFile],
    plot: Annotated[
        Path, Option(metavar="FILE", help="Where to draw it: .png, .pdf, .svg.")
    ],
    set_: Set = None,
    grid: list[str] | None = option(
        "FIELD=VALUES", "Another horizontal axis, or the range of the vertical one."
    ),
) -> None:
    """Draw the phase diagram of a study's scenario: named regions and the lines between
    them.
    """
    check_outputs(Output(out=None, plot=[plot], paper=None))
    fields = {**assignments("--set", set_), **assignments("--grid", grid, many)}
    gs.phase_diagram(gs.Study.read(study).scenario, fields, path=plot)
    print(f"wrote {plot}", file=sys.stderr)


def place(
    data: Annotated[
        Path,
        Argument(
            metavar="DATA",
            help="A matrix, rows = samples: .csv, .tsv, .txt, .npy, .npz or .parquet.",
        ),
    ],
    clusters: int | None = option(
        "K", "Number of clusters; chosen by evidence if left out."
    ),
    transpose: bool = Option(
        False, "--transpose", help="The file has samples as columns."
    ),
    seed: int = Option(0, help="Any whole number from 0 on."),
    json: Json = False,
    plot: Path | None = option(
        "FILE", "Mark the point in the phase diagram: .png, .pdf, .svg."
    ),
) -> None:
    """Say whether clusters in a dataset are easy, hard or impossible to find."""
    from giantstep.core.base.files import atomic_write
    from giantstep.tools.data.estimators.matrices import read_matrix

    plots = []
    if plot:
        plots.append(plot)
    check_outputs(Output(out=None, plot=plots, paper=None))
    if seed < 0:
        raise bad_field("seed", seed, "a whole number at least 0")
    count: Any = "auto"
    if clusters is not None:
        count = clusters
    placement = gs.place(read_matrix(data, transpose), n_clusters=count, seed=seed)
    if plot:
        with atomic_write(plot) as temporary:
            placement.plot(temporary)
    print_answer(placement.to_dict(), placement.report(), json)
    if plot:
        print(f"wrote {plot}", file=sys.stderr)


def exponents(
    target: Target,
    activation: str | None = option(
        "NAME", "The student's activation, for c_k C_k.", "--activation", "-a"
    ),
    json: Json = False,
) -> None:
    """Information and generative exponents of a target, its staircases, symmetries and
    Hermite coefficients.
    """
    report = gs.exponents(target, activation)
    print_answer(report.to_dict(), str(report), json)


def learnable(
    target: Target,
    activation: str = Argument(
        "relu", metavar="ACTIVATION", help="The student's activation."
    ),
    algorithm: str = Option(
        "squared",
        "--algorithm",
        metavar="NAME",
        help=(
            "squared, correlation, extragradient, sam, two-step, exponential,"
            " giant-steps, reused or single-pass."
        ),
    ),
    second_layer: str | None = option(
        "A,B,..", "Second layer, a number for every neuron.", "--second-layer"
    ),
    rate: float | None = Option(None, help="gamma_0, for the constants."),
    inner_rate: float | None = Option(None, help="rho_0 of the inner step."),
    noise: float = Option(0.0, help="Variance of the label noise."),
    experiment: int | None = option(
        "DIM", "Run the network in so many dimensions and tell its cosines."
    ),
    json: Json = False,
) -> None:
    """Whether a network learns a target, in about how many samples, and why."""
    try:
        if second_layer is None:
            layer = None
        else:
            layer = [float(number) for number in second_layer.split(",")]
    except ValueError:
        raise bad_field(
            "second_layer", second_layer, "numbers separated by commas"
        ) from None
    verdict = gs.learnable(
        target,
        activation,
        algorithm,
        layer,
        rate=rate,
        inner_rate=inner_rate,
        noise=noise,
    )
    data = verdict.to_dict()
    text = [str(verdict)]
    if experiment is not None:
        measured = verdict.experiment(experiment)
        data["experiment"] = {
            name: measured[name].values for name in ("cosine", "cosine_stderr")
        } | measured.attrs
        text.append(measured.attrs["text"])
    print_answer(data, "\n".join(text), json)


def _no_columns(option: str) -> InputError:
    """Return the refusal of an option that names a column of a table."""
    return InputError(
        f"{option} names a column, which .npy features do not have; use .csv, .npz or"
        " .parquet."
    )


def script(
    study: Annotated[Path, StudyFile],
    lang: str = Option(
        "numpy", help="numpy, or torch, where gradients are those of autograd."
    ),
    dim: int | None = Option(
        None, help="Dimension of the data; that of the study, or 300."
    ),
    trials: int | None = Option(
        None, help="Independent repetitions; those of the study, or 10."
    ),
    seed: int | None = Option(None, help="Any whole number from 0 on."),
    set_: Set = None,
) -> None:
    """Print the experiment of a study as a program that runs without giantstep."""
    from giantstep.tools.scripts import one_scenario

    read = gs.Study.read(study)
    scenario = one_scenario(read, assignments("--set", set_))
    said = {name: read.experiment.get(name) for name in ("dim", "trials", "seed")}
    said |= {
        name: v
        for name, v in {"dim": dim, "trials": trials, "seed": seed}.items()
        if v is not None
    }
    settings: dict[str, Any] = {
        "lang": lang,
        **{name: value for name, value in said.items() if value is not None},
    }
    sys.stdout.write(gs.script(scenario, **settings))


def explore(
    file: Path | None = Argument(
        None,
        metavar="[FILE]",
        help="An HTML file that the page wrote, or a study file.",
    ),
    port: int | None = Option(
        None,
        metavar="N",
        min=1,
        max=65535,
        help="Port of 127.0.0.1; 8765 or a free one.",
    ),
    no_browser: bool = Option(False, "--no-browser", help="Only print the address."),
) -> None:
    """Open the interactive page: sliders move the exact curve, a button streams in the
    experiment.
    """
    from giantstep.faces.page.server import serve

    serve(port, file=file, browser=not no_browser)


# -- The command ``forecast``: the learning curve of given features --------------------


def forecast(
    data: Annotated[
        Path,
        Option(
            metavar="FILE",
            help=(
                "Features and labels: .csv, .tsv, .npz, .parquet, or features alone:"
                " .npy."
            ),
        ),
    ],
    label: Annotated[
        str,
        Option(
            metavar="COLUMN",
            help=(
                "Column (array of an .npz) that holds the labels; with .npy: a file"
                " .npy."
            ),
        ),
    ],
    output: Output,
    samples: str | None = option(
        "SIZES", "Sample sizes: 100:10000:12 (evenly in log) or a list with commas."
    ),
    ridge: str | None = option(
        "RIDGES", "Penalties: 0.1:1000:9 (evenly in log) or a list with commas."
    ),
    task: str = Option("auto", help="regression, classes or auto."),
    trials: int = Option(8, help="Real fits at every size; 0: no experiment."),
    rows: int = Option(
        4000, help="Rows that leave-one-out looks at where there are more."
    ),
    seed: int = Option(0, help="Any whole number from 0 on."),
    groups: str | None = option(
        "COLUMN", "Column of groups whose rows stay together in the experiment."
    ),
    drop: list[str] | None = option(
        "COLUMN", "A column that is no feature; may be repeated."
    ),
) -> None:
    """Forecast how the error of a ridge read-out of given features falls with more
    samples.

    For features as they are, of any law (a network's penultimate layer, a raw table).
    `giantstep predict --data` is for raw inputs taken as Gaussian mixtures, with other
    losses and exact limits.
    """
    from giantstep.tools.data.datafile import read_labelled, read_npy

    if data.suffix.lower() == ".npy":
        if groups is not None:
            raise _no_columns("--groups")
        if drop:
            raise _no_columns("--drop")
        table = read_npy(data, label)
    else:
        others = list(drop or [])
        if groups is not None:
            others.append(groups)
        table = read_labelled(data, label, others)
    grouping = None
    if groups is not None:
        grouping = table.others[groups]
    settings: dict[str, Any] = {
        "task": task,
        "trials": trials,
        "rows": rows,
        "seed": seed,
        "groups": grouping,
    }
    settings |= {"ridge": _sizes("ridge", ridge), "samples": _sizes("samples", samples)}
    result = gs.forecast(table.inputs, table.labels, **settings)
    trust = json.loads(result.attrs["trust_numbers"])
    show_or_write(
        result, output, result.attrs["trust"], lambda: _curve(result), trust=trust
    )


def _sizes(name: str, text: str | None) -> Any:
    """Return numbers from a list with commas or start:stop:num, which is even in log
    unless it says otherwise.
    """
    import numpy as np

    if text is None:
        return None
    values = many(name, text + ":log" if text.count(":") == 2 else text)
    is_range = name == "samples" and ":" in text
    if is_range:
        return np.unique(np.round(np.asarray(values)).astype(np.int64))
    return values


def _curve(result: Forecast) -> str:
    """Return the forecast at the best ridge of each sample size, with the experiment
    and the verdicts.
    """
    import numpy as np

    from giantstep.core.base.display import blocks_text
    from giantstep.core.result.text import listing_blocks
    from giantstep.tools.data.forecasts.table import known

    attrs = result.attrs
    names = [name for name in ("error", "mse") if name in result]
    rows = []
    for size in result["samples"].values:
        if not np.isfinite(result[names[0]].sel(source="limit", samples=size)).any():
            continue
        best = result.best_ridge(size)
        point = result.sel(samples=size, ridge=float(best))
        row: dict[str, Any] = {"samples": float(size), "best ridge": float(best)}
        row["not told from"] = ", ".join(f"{ridge:.4g}" for ridge in best.rivals) or "-"
        for name in names:
            limit = point.sel(source="limit")
            row[f"{name} ± se_total"] = known(
                limit[name].item(), limit[f"{name}_se_total"].item()
            )
            if "experiment" in result["source"].values:
                real, error = (
                    point[column].sel(source="experiment").item()
                    for column in (name, f"{name}_stderr")
                )
                if np.isnan(real):
                    row[f"{name} in the experiment"] = "-"
                else:
                    row[f"{name} in the experiment"] = known(real, error)
            row[f"verdict on {name}"] = str(point[f"{name}_verdict"].item())
        rows.append(row)
    about = f"{attrs['N']} rows, {attrs['p']} features, {attrs['task']}"
    columns = []
    if rows:
        columns = [(head, [row[head] for row in rows]) for head in rows[0]]
    title = f"{attrs['title']}: {about}; at the best ridge of each size"
    told = blocks_text(listing_blocks(title, [columns])).rstrip()
    return (
        f"{told}\nFor raw inputs taken as Gaussian mixtures, other losses and exact"
        " limits: giantstep predict --data.\n"
    )
