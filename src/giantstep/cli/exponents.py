"""The commands that judge a target: ``exponents`` and ``learnable``."""

from __future__ import annotations

import json as json_module
from typing import Annotated, Any

import typer

import giantstep as gs
from giantstep.cli.options import Json
from giantstep.errors import bad_field

Target = Annotated[
    str, typer.Argument(metavar="TARGET", help='An expression in z or z1..z6, for example "z1 + z1*z2".')
]


def exponents(
    target: Target,
    activation: Annotated[
        str | None, typer.Option("--activation", "-a", metavar="NAME", help="The student's activation, for c_k C_k.")
    ] = None,
    json: Json = False,
) -> None:
    """Information and generative exponents of a target, its staircases, symmetries and Hermite coefficients."""
    report = gs.exponents(target, activation)
    print(_strict(report.to_dict()) if json else report)


def learnable(
    target: Target,
    activation: Annotated[str, typer.Argument(metavar="ACTIVATION", help="The student's activation.")] = "relu",
    algorithm: Annotated[
        str,
        typer.Option(
            "--algorithm",
            metavar="NAME",
            help="squared, correlation, extragradient, sam, two-step, exponential, giant-steps, reused or single-pass.",
        ),
    ] = "squared",
    second_layer: Annotated[
        str | None, typer.Option("--second-layer", metavar="A,B,..", help="Second layer, a number for every neuron.")
    ] = None,
    rate: Annotated[float | None, typer.Option(help="gamma_0, for the constants.")] = None,
    inner_rate: Annotated[float | None, typer.Option(help="rho_0 of the inner step.")] = None,
    noise: Annotated[float, typer.Option(help="Variance of the label noise.")] = 0.0,
    experiment: Annotated[
        int | None, typer.Option(metavar="DIM", help="Run the network in so many dimensions and tell its cosines.")
    ] = None,
    json: Json = False,
) -> None:
    """Whether a network learns a target, in about how many samples, and why."""
    layer = None if second_layer is None else _numbers(second_layer)
    verdict = gs.learnable(target, activation, algorithm, layer, rate=rate, inner_rate=inner_rate, noise=noise)
    data, text = verdict.to_dict(), [str(verdict)]
    if experiment is not None:
        measured = verdict.experiment(experiment)
        data["experiment"] = {
            **{name: measured[name].values.tolist() for name in ("cosine", "cosine_stderr")},
            **measured.attrs,
        }
        text.append(measured.attrs["text"])
    print(_strict(data) if json else "\n".join(text))


def _numbers(text: str) -> list[float]:
    try:
        return [float(number) for number in text.split(",")]
    except ValueError:
        raise bad_field("second_layer", text, "numbers separated by commas") from None


def _strict(data: dict[str, Any]) -> str:
    from giantstep.jsondata import json_data

    return json_module.dumps(json_data(data), allow_nan=False)
