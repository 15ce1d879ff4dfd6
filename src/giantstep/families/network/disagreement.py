"""Two networks that differ, on one target: how far their outputs are apart, and what their average is worth."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from giantstep.errors import bad_field, field_error
from giantstep.families.network.questions import SHARED, TEST_SAMPLES
from giantstep.families.network.scenario import Network
from giantstep.readout.finite_size import whole_sizes
from giantstep.types import Floats

if TYPE_CHECKING:
    import xarray

    from giantstep.families.network.answers.laws import FittedPoint
    from giantstep.lab import Draws

Shared = Literal["samples", "layer", "both", "nothing"]
OF_THE_FIT = ("samples_per_dim", "readout")
"""Fields in which two networks with the same first layer may differ."""
OF_THE_LABELS = ("target", "noise", "flip", "inputs")
"""Fields that two networks of one target have in common."""
NETWORKS = ("first", "second")


def disagreement(
    first: Network,
    second: Network,
    shared: Shared = "samples",
    *,
    dim: int | None = None,
    trials: int = 0,
    seed: int = 0,
    test_samples: int = TEST_SAMPLES,
) -> xarray.Dataset:
    """Tell how far the outputs of two different networks are apart at a fresh input, after all their steps.

    Both have a ridge read-out of the same target. They may differ in ridge, samples, width, activation and steps; with
    the same first layer in ridge and samples only. Beside the limit there is the theory at a dimension `dim`.

    Parameters
    ----------
    first, second : the networks.
    shared : ``"samples"``: the fit with fewer samples has part of those of the other, layers are drawn anew;
        ``"layer"``: the same first layer, samples are drawn anew; ``"both"``; or ``"nothing"``.
    dim : dimension of the source "theory", which has the terms of order 1/d that beyond_the_error (2.12)-(2.14) and the
        errors of the networks have, and of real pairs.
    trials, seed : number and seed of real pairs; none if `trials` is 0.
    test_samples : fresh inputs at which a real pair is measured.

    Returns
    -------
    xarray.Dataset
        ``disagreement`` E(f_a - f_b)^2, ``average_error`` of the mean of both outputs, and ``test_error`` of each
        ``network``, over ``source`` = "limit", "theory" (with `dim`), "experiment"; ``_stderr`` is the standard error
        of an experiment, and ``status`` says why a number is NaN.

    Examples
    --------
    >>> import giantstep as gs
    >>> net = gs.Network(target="sin(z)", width_per_dim=1.5, samples_per_dim=2.0, readout=gs.Ridge(0.1), noise=0.1)
    >>> apart = gs.disagreement(net, net.replace(width_per_dim=3.0), shared="samples")
    >>> print(round(float(apart.disagreement[0]), 3))
    0.216
    """
    from giantstep.listing import Result

    if shared not in get_args(Shared):
        raise bad_field("shared", shared, f"one of {', '.join(map(repr, get_args(Shared)))}")
    _check(first, second, shared)
    _check_trials(dim, trials, test_samples)
    theories = {"limit": np.inf} if dim is None else {"limit": np.inf, "theory": float(dim)}
    found = [_theory(first, second, shared, at) for at in theories.values()]
    rows, status = [values for values, _ in found], [reason for _, reason in found]
    sources, errors = list(theories), [np.full(4, np.nan)] * len(rows)
    if trials:
        sources.append("experiment")
        measured = np.stack(
            [_trial(first, second, shared, int(dim or 0), t, seed, test_samples) for t in range(trials)]
        )
        rows.append(measured.mean(axis=0))
        errors.append(measured.std(axis=0, ddof=1) / np.sqrt(trials) if trials > 1 else np.full(4, np.nan))
        status.append("")
    result = Result(coords={"source": sources, "network": list(NETWORKS)})
    for suffix, table in (("", np.stack(rows)), ("_stderr", np.stack(errors))):
        result[f"disagreement{suffix}"] = "source", table[:, 0]
        result[f"average_error{suffix}"] = "source", table[:, 1]
        result[f"test_error{suffix}"] = ("source", "network"), table[:, 2:]
    result["status"] = "source", np.array(status, dtype=object)
    result.attrs |= {"title": f"Two networks that share {shared}", "shared": shared, "trials": trials} | (
        {} if dim is None else {"dim": dim}
    )
    return result


def _check(first: Network, second: Network, shared: Shared) -> None:
    """Refuse pairs of which no overlap is derived: beyond_the_error section 12."""
    from giantstep.families.network.limit import refuse_missing

    for name, network in zip(NETWORKS, (first, second)):
        if not isinstance(network, Network):
            raise bad_field(name, network, "a gs.Network")
        if network.readout.kind != "ridge":
            raise field_error(
                "readout.kind",
                f"Field `{{field}}` must be 'ridge' where two networks differ, but it is {network.readout.kind!r}: the "
                'overlap of unlike classifiers is not derived; what="variance" has that of two classifiers alike.',
            )
        refuse_missing(network, _point(network), "variance", None)
        if any(place.field("alignment") in _point(network) for place in network.places):
            raise bad_field("steps", network.steps, "without a planted spike where two networks differ")
        if network.shift is not None:
            raise bad_field("shift", network.shift, "left out where two networks differ")
        if network.fit_sample == "same":
            raise bad_field("fit_sample", "same", '"fresh" where two networks share samples or layers')
    own = OF_THE_FIT if shared in ("layer", "both") else set(Network.model_fields) - set(OF_THE_LABELS)
    for name in sorted(set(Network.model_fields) - set(own)):
        if getattr(first, name) != getattr(second, name):
            why = "they share the first layer" if shared in ("layer", "both") else "they have one target"
            raise bad_field(name, getattr(second, name), f"{getattr(first, name)!r} in both networks, as {why}")


def _check_trials(dim: int | None, trials: int, test_samples: int) -> None:
    whole = (int, np.integer)
    for name, value, least in (("trials", trials, 0), ("test_samples", test_samples, 1)):
        if isinstance(value, bool) or not isinstance(value, whole) or value < least:
            raise bad_field(name, value, f"a whole number from {least} on")
    if (trials or dim is not None) and (isinstance(dim, bool) or not isinstance(dim, whole) or dim < 2):
        raise bad_field("dim", dim, "a whole number from 2 on" + " where there are trials" * (dim is None))


def _point(network: Network, dim: float = np.inf) -> dict[str, Floats]:
    return whole_sizes({**network.point(), "dim": np.array([dim])})


def _theory(first: Network, second: Network, shared: Shared, dim: float) -> tuple[Floats, str]:
    """Return disagreement, error of the average and both errors at a dimension, and why they are NaN."""
    from giantstep.families.network.fresh_inputs import inputs_of
    from giantstep.families.network.shift import FreshLaw
    from giantstep.readout.output_law import LayerAt, OutputLaw
    from giantstep.readout.unlike_pairs import FitAt, Labels, disagreement

    if first == second and shared in SHARED:  # which has further terms of a finite dimension
        return _alike(first, shared, dim)
    fits, law = [], FreshLaw.of_the_fit(first.target.directions)
    for network in (first, second):
        point, reason = _fitted(network, dim)
        if point is None:
            return np.full(4, np.nan), reason
        fits.append(point)
    frames = [point.layer.frame[point.row] for point in fits]
    inputs = inputs_of(first.target, frames[0], law, (min(point.scale(law) for point in fits),))
    along = inputs.z @ frames[0].T
    sides = []
    for point, frame in zip(fits, frames):
        assert point.fit.first is not None
        sides.append(FitAt(point.fit.first, OutputLaw(LayerAt(point.blocks, along @ frame), point.fitted)))
    labels = Labels(inputs.weights, inputs.label, inputs.square + fits[0].noise)
    common = min(side.samples for side in sides) if shared in ("samples", "both") else 0.0
    apart = disagreement(sides[0], sides[1], labels, common, shared in ("layer", "both"), dim)
    tests = [float(point.fit.solution.test[0]) for point in fits]
    return np.array([apart, 0.5 * sum(tests) - 0.25 * apart, *tests]), ""


def _alike(network: Network, shared: Shared, dim: float) -> tuple[Floats, str]:
    """Return what ``what="variance"`` says of two networks alike."""
    points = _point(network, dim)
    settings = network.prepare(points, "variance", {"members": np.array([1.0, 2.0])})
    answer = network.limit(points, "variance", settings)
    kind = SHARED.index(shared)
    test = float(answer.values["test_error"][0, -1])
    apart, average = answer.values["disagreement"][0, -1, kind], answer.values["ensemble_error"][0, -1, kind, 1]
    return np.array([float(apart), float(average), test, test]), str(answer.status[0])


def _fitted(network: Network, dim: float) -> tuple[FittedPoint | None, str]:
    """Return the fit of a network after its last step, or why there is none."""
    from giantstep.families.network.answers.laws import solved_groups
    from giantstep.families.network.answers.table import Table
    from giantstep.families.network.problem import share_points
    from giantstep.families.network.trajectory import follow

    points, reasons = _point(network, dim), dict[int, str]()
    table = Table(network, points, 1)
    (share,) = share_points(network, points, np.arange(1))
    with np.errstate(all="ignore"):
        moments = list(follow(share.problem, "exact", reasons))
        if reasons:
            return None, reasons[0]
        for fits in solved_groups(table, share, moments[-1], {}):
            for point in fits.points():
                return point, ""
    return None, str(table.status[0])


def _trial(
    first: Network, second: Network, shared: Shared, dim: int, trial: int, seed: int, test_samples: int
) -> Floats:
    """Return disagreement, error of the average and both errors of one real pair."""
    from giantstep.families.network.measure_pairs import fitted_copy, outputs_of, second_draws
    from giantstep.lab import Draws, check_memory, threads_for

    needed = sum(network.memory(_point(network), "variance", dim, {"device": "cpu"}) for network in (first, second))
    check_memory(needed)
    draws = Draws(seed, f"{first.digest()} {second.digest()} {shared} dim={dim}", trial)
    own = second_draws(draws)
    with threads_for(needed, "cpu"):
        one = _real(first, dim, draws)
        other = _real(second, dim, draws if shared in ("layer", "both") else own)
        pair = tuple(dataclasses.replace(real, draws=stream.anew()) for real, stream in ((one, draws), (other, own)))
        copies = ((0, 0, 0), (1, 0 if shared in ("samples", "both") else 1, 0))
        fits = {
            copy: fitted_copy(pair, copy, np.array([network.readout.ridge]))
            for copy, network in zip(copies, (first, second))
        }
        gram = np.zeros((2, 2))
        for outputs, signal in outputs_of(pair, fits, test_samples):
            wrong = outputs[:, :, 0] - np.asarray(first.target(signal))
            gram += wrong @ wrong.T / test_samples
    gram = gram + first.noise
    return np.array([gram[0, 0] + gram[1, 1] - 2 * gram[0, 1], gram.mean(), gram[0, 0], gram[1, 1]])


def _real(network: Network, dim: int, draws: Draws) -> Any:
    """Return the real network after its last step."""
    from giantstep.families.network.experiment import trained_networks, whiten

    points = network.point()
    *_, last = trained_networks(network, points, whiten(network, points, dim), dim, draws.anew(), {})
    return last
