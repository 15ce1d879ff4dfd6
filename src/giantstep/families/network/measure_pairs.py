"""What an experiment measures of several real networks alike: two first layers, two samples, two label noises.

All eight fits are held against the same fresh inputs, and pairs of one kind are averaged, so that every part of the
variance is estimated without bias: the errors of two networks that share nothing have the product `bias` in the mean.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from giantstep.errors import bad_field
from giantstep.families.network.answers.variance import averaged
from giantstep.families.network.questions import TEST_SAMPLES
from giantstep.families.network.shift import FreshLaw
from giantstep.families.network.trained import Trained
from giantstep.lab import Draws, ridge_path, to_numpy
from giantstep.lab.algebra import multiply
from giantstep.lab.network import apply_by_rows
from giantstep.readout import LOSSES
from giantstep.risk.fitting import fit
from giantstep.types import Array, DeviceArray, Floats

Copies = tuple[int, int, int]
"""Which layer, which sample and which label noise a fit has."""
Moved = Callable[[DeviceArray], tuple[DeviceArray, DeviceArray]]
"""Inputs (m, d) -> inputs of another law, and the coordinates (m, r) of their labels."""
NOISES = ("train", "train_again")
"""Streams of the two label noises on one sample."""


def second_draws(draws: Draws) -> Draws:
    """Return the draws of everything that a second network has of its own."""
    return Draws(draws.seed, f"{draws.key} second", draws.trial, draws.device)


def refuse_pairs(trained: Trained) -> None:
    """Refuse networks of which no independent second one can be drawn."""
    if trained.network_of.fit_sample == "same":
        raise bad_field("fit_sample", "same", '"fresh" where two networks share samples or layers')
    if trained.inputs.rows is not None:
        raise bad_field("inputs", "rows of a table", "a law of inputs where two samples are drawn")


def measure_variance(pair: tuple[Trained, Trained], ridges: Floats, settings: Mapping[str, Any]) -> dict[str, Array]:
    """Measure the parts of the variance, disagreements, and the errors of averages: beyond_the_error (2.6)-(2.8)."""
    refuse_pairs(pair[0])
    classes = pair[0].network_of.readout.classes
    noises = (0, 1) if pair[0].network.noise > 0 and not classes else (0,)
    copies = list(itertools.product((0, 1), (0, 1), noises))
    fits = {copy: fitted_copy(pair, copy, ridges) for copy in copies}
    rows = int(settings.get("test_samples") or TEST_SAMPLES)
    if classes:
        return _classes(pair, fits, rows, settings)
    gram, signs = np.zeros((len(ridges), len(copies), len(copies))), np.zeros((3, len(ridges)))
    if pair[0].network_of.sign_direction is None:
        signs += np.nan
    for outputs, signal in outputs_of(pair, fits, rows):
        labels = np.asarray(pair[0].network.target(signal))
        residuals = outputs - labels[None, :, None]
        gram += np.einsum("amb,cmb->bac", residuals, residuals) / rows
        signs += _over_pairs(_opposite, outputs, copies) / rows
    parts = _parts(gram, copies, pair[0].network.noise, settings)
    return {**parts, "sign_disagreement": signs.T}


def fitted_copy(pair: Sequence[Trained], copy: Copies, ridges: Floats) -> DeviceArray:
    """Return the fits b = a/sqrt(p) (p, B) of one copy, at every sample size and ridge; NaN where one failed."""
    layer, sample, noise = copy
    trained = pair[layer]
    network, draws, rows = trained.network, pair[sample].draws.anew(), int(trained.samples.max())
    penalties = ridges * network.width
    if not trained.network_of.readout.classes:
        errors = network.label_noise(NOISES[noise], rows, draws)
        samples = network.samples("train", rows, draws)
        blocks = ((features, network.target(signal) + error) for (features, signal, _), error in zip(samples, errors))
        return ridge_path(blocks, network.width, trained.samples, penalties, draws.xp)[0]
    xp, kind = draws.xp, trained.network_of.readout.kind
    inputs, labels, start = xp.empty((rows, network.width)), xp.empty(rows), 0
    for features, signal, _ in network.samples("train", rows, draws):
        inputs[start : start + len(features)] = features
        labels[start : start + len(features)] = network.target(signal)
        start += len(features)
    labels[draws.uniform("flips", rows) < trained.flip] *= -1
    assert kind in LOSSES
    found = [fit(inputs[:n], labels[:n], kind, ridge=penalty) for n, penalty in zip(trained.samples, penalties)]
    weights = np.stack([one.weights if one.solved else np.full(network.width, np.nan) for one in found], axis=1)
    return xp.asarray(weights)


def outputs_of(
    pair: Sequence[Trained], fits: Mapping[Copies, DeviceArray], rows: int, moved: Moved | None = None
) -> Iterator[tuple[Floats, Floats]]:
    """Yield the outputs of all fits (copies, m, B) and the coordinates (m, r) of which the label of fresh inputs is.

    `moved` makes inputs of another law out of those of the fit, and says the coordinates of their labels.
    """
    draws, xp = pair[0].draws.anew(), pair[0].draws.xp
    most, widths = min(draws.chunk, rows), {len(trained.network.weights) for trained in pair}
    features = {width: xp.empty((most, width)) for width in widths}
    for start, stop, inputs in draws.chunks("test", rows, pair[0].dim):
        outputs = []
        signal = pair[0].network.signal(inputs)
        if moved is not None:
            inputs, signal = moved(inputs)
        for layer, trained in enumerate(pair):
            seen = features[len(trained.network.weights)][: stop - start]
            multiply(inputs, trained.network.weights.T, xp, out=seen)
            apply_by_rows(trained.network.activation, seen, seen, xp)
            outputs += [to_numpy(multiply(seen, own, xp)) for copy, own in fits.items() if copy[0] == layer]
        yield np.stack(outputs), np.array(to_numpy(signal))  # the signal is a view of a buffer


def _means(gram: Floats, copies: list[Copies]) -> dict[tuple[bool, bool, bool], Floats]:
    """Return the mean products of errors (B,) of pairs by what they share: layer, sample, label noise."""
    kinds: dict[tuple[bool, bool, bool], list[Floats]] = {}
    for first, second in itertools.product(range(len(copies)), repeat=2):
        layer, sample, noise = (one == other for one, other in zip(copies[first], copies[second]))
        kinds.setdefault((layer, sample, noise and sample), []).append(gram[:, first, second])
    return {kind: np.mean(values, axis=0) for kind, values in kinds.items()}


def _parts(gram: Floats, copies: list[Copies], noise: float, settings: Mapping[str, Any]) -> dict[str, Array]:
    means = _means(gram, copies)
    everything, samples = means[True, True, True], means[False, True, True]
    layer, bias = means[True, False, False], means[False, False, False]
    but_noise, inputs = means.get((True, True, False), everything), means.get((False, True, False), samples)
    test = everything + noise
    apart = np.stack([everything - layer, everything - samples, everything - bias], axis=1)
    return {
        "bias": bias,
        "from_layer": layer - bias,
        "from_samples": inputs - bias,
        "from_noise": samples - inputs,
        "from_layer_samples": but_noise - layer - inputs + bias,
        "from_layer_noise": everything - but_noise - samples + inputs,
        "test_error": test,
        "disagreement": 2 * apart,
        "ensemble_error": averaged(test, apart, settings),
    }


def _classes(
    pair: tuple[Trained, Trained], fits: Mapping[Copies, DeviceArray], rows: int, settings: Mapping[str, Any]
) -> dict[str, Array]:
    """Measure classifiers: disagreements of logits, and how often the sign of their mean is wrong."""
    copies, members, flip = list(fits), np.asarray(settings["members"]), pair[0].flip
    count = next(iter(fits.values())).shape[1]
    square, opposite, wrong = (np.zeros((3, count)) for _ in range(3))
    alone = np.zeros(count)
    for outputs, signal in outputs_of(pair, fits, rows):
        margins = outputs * np.asarray(pair[0].network.target(signal))[None, :, None]
        alone += np.mean(margins < 0, axis=0).sum(axis=0)
        square += _over_pairs(_square, outputs, copies)
        opposite += _over_pairs(_opposite, outputs, copies)
        wrong += _over_pairs(_wrong_mean, margins, copies)
    errors = np.full((count, 3, len(members)), np.nan)
    known = np.isfinite(square[0])
    errors[:, :, members == 1] = (alone / rows)[:, None, None]
    errors[:, :, members == 2] = (wrong.T / rows)[:, :, None]
    nothing = np.full(count, np.nan)
    values = {
        **dict.fromkeys(("bias", "from_layer", "from_samples", "from_noise"), nothing),
        **dict.fromkeys(("from_layer_samples", "from_layer_noise"), nothing),
        "test_error": (1 - 2 * flip) * alone / rows + flip,
        "disagreement": square.T / rows,
        "sign_disagreement": opposite.T / rows,
        "ensemble_error": (1 - 2 * flip) * errors + flip,
    }
    return {name: np.where(known.reshape(-1, *(1,) * (a.ndim - 1)), a, np.nan) for name, a in values.items()}


def _square(a: Floats, b: Floats) -> Array:
    return np.asarray((a - b) ** 2)


def _opposite(a: Floats, b: Floats) -> Array:
    return np.asarray(a * b < 0)


def _wrong_mean(a: Floats, b: Floats) -> Array:
    return np.asarray(a + b < 0)


def _over_pairs(of: Callable[[Floats, Floats], Array], outputs: Floats, copies: Sequence[Copies]) -> Floats:
    """Return the sum over inputs of a function of two outputs, averaged over the pairs of each kind (3, B)."""
    kinds = _pairs_by_kind(copies)
    return np.stack([sum(np.sum(of(outputs[a], outputs[b]), axis=0) for a, b in own) / len(own) for own in kinds])


def _pairs_by_kind(copies: Sequence[Copies]) -> list[list[tuple[int, int]]]:
    """Return the pairs of fits that share the layer alone, the sample alone, nothing."""
    pairs = list(itertools.combinations(range(len(copies)), 2))
    alike = [(copies[a][0] == copies[b][0], copies[a][1] == copies[b][1]) for a, b in pairs]
    kinds = ((True, False), (False, True), (False, False))
    return [[pair for pair, shares in zip(pairs, alike) if shares == kind] for kind in kinds]


def measure_shift(pair: tuple[Trained, Trained], ridges: Floats, settings: Mapping[str, Any]) -> dict[str, Array]:
    """Measure errors and disagreements at inputs of another law: beyond_the_error section 4."""
    refuse_pairs(pair[0])
    trained, count = pair[0], len(ridges)
    network = trained.network_of
    fits = {copy: fitted_copy(pair, copy, ridges) for copy in itertools.product((0, 1), (0, 1), (0,))}
    rows = int(settings.get("test_samples") or TEST_SAMPLES)
    squares, wrong, apart = np.zeros(count), np.zeros(count), np.zeros((3, count))
    for outputs, signal in outputs_of(pair, fits, rows, mover(trained, settings)):
        labels = np.asarray(network.target(signal))
        squares += np.mean((outputs - labels[None, :, None]) ** 2, axis=0).sum(axis=0) / rows
        side = np.nan if network.class_direction is None else np.sign(signal @ network.class_direction)
        wrong += np.mean(np.sign(outputs) != np.reshape(side, (1, -1, 1)), axis=0).sum(axis=0) / rows
        apart += _over_pairs(_square, outputs, list(fits)) / rows
    missed = wrong if network.class_direction is not None else np.full(count, np.nan)
    noise = settings["shifted_noise"]
    test = (1 - 2 * trained.flip) * missed + trained.flip if network.readout.classes else squares + noise
    return {"test_error": test, "test_misclassified": missed, "disagreement": apart.T}


def mover(trained: Trained, settings: Mapping[str, Any]) -> Moved | None:
    """Return what makes test inputs of those of the fit; None where they are the same."""
    return None if trained.network_of.shift is None else partial(_moved, trained, settings["law"])


def _moved(trained: Trained, law: FreshLaw, inputs: DeviceArray) -> tuple[DeviceArray, DeviceArray]:
    """Return inputs of another law, and the coordinates of which their label is."""
    xp = trained.draws.xp
    plain = trained.inputs.signal(inputs, xp)
    signal = plain @ xp.asarray(law.root.T) + xp.asarray(law.mean)
    moved = law.bulk * inputs
    trained.inputs.add_along(moved, signal - law.bulk * plain, xp)
    seen = signal.copy()
    if law.angle:  # the last axis is one that no step and no target knows
        seen[:, 0] = np.cos(law.angle) * signal[:, 0] + np.sin(law.angle) * moved[:, -1]
    return moved, seen


def trained_pairs(first: Iterator[Trained], second: Iterator[Trained]) -> Iterator[tuple[Trained, Trained]]:
    """Yield two networks after every step, each with draws that begin again."""
    for pair in zip(first, second):
        one, other = (dataclasses.replace(trained, draws=trained.draws.anew()) for trained in pair)
        yield one, other


PAIRED = {"variance": measure_variance, "shift": measure_shift}
"""Question -> what measures it of two networks alike."""
