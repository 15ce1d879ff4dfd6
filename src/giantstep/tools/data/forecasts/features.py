"""Features of a model: what its last linear layer sees, or any layer asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from giantstep.core.base.errors import InputError, nearest
from giantstep.core.base.types import Array
from giantstep.core.scenario.checks import check_whole

_ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "identity": lambda z: z,
    "relu": lambda z: np.maximum(z, 0.0),
    "tanh": np.tanh,
    "logistic": lambda z: 0.5 * (1 + np.tanh(0.5 * z)),
}


def features(model: Any, X: Any, layer: str | None = None, batch: int = 1024) -> Array:
    """Return the features (N, p) that a trained model makes of inputs, for
    `giantstep.forecast`.

    Give rows that did not train the model: on its own training rows every forecast is
    too good.

    Parameters
    ----------
    model : a PyTorch module; a scikit-learn pipeline, transformer, MLPClassifier or
        MLPRegressor; or any callable.
    X : inputs, rows = samples.
    layer : PyTorch: the name of a module, whose output is taken (the input of the last
        ``Linear`` if left out); the network is put into evaluation mode for it and back
        again. Of a pipeline all steps but the final predictor are applied, of an MLP,
        or a final one, all layers up to the last hidden one.
    batch : rows that go through the model at a time.

    Returns
    -------
    (N, p) array; what a layer has beyond rows is flattened.

    Examples
    --------
    >>> import numpy as np
    >>> import giantstep as gs
    >>> weights = np.random.default_rng(0).standard_normal((5, 40))
    >>> gs.features(lambda X: np.maximum(X @ weights, 0), np.ones((7, 5))).shape
    (7, 40)
    """
    rows = check_whole("batch", batch, "a whole number at least 1", 1)
    kinds = {kind.__module__.split(".")[0] for kind in type(model).__mro__}
    if "torch" in kinds and hasattr(model, "modules"):
        return _torch_features(model, X, layer, rows)
    if layer is not None:
        raise InputError(
            "Field `layer` is for PyTorch networks, but the model is a"
            f" {type(model).__name__}."
        )
    return _in_batches(_reader(model), X, rows)


def _in_batches(apply: Callable[[Any], Any], X: Any, rows: int) -> Array:
    count = X.shape[0] if hasattr(X, "shape") else len(X)
    if not count:
        raise InputError("There are no inputs to make features of.")
    pieces = []
    for start in range(0, count, rows):
        stop = min(start + rows, count)
        made = apply(X.iloc[start:stop] if hasattr(X, "iloc") else X[start:stop])
        piece = np.asarray(made.toarray() if hasattr(made, "toarray") else made)
        if piece.ndim < 2 or len(piece) != stop - start:
            raise InputError(
                f"The model makes an array of shape {piece.shape} of {stop - start}"
                " rows; features must have rows and columns."
            )
        pieces.append(piece.reshape(len(piece), -1))
    return np.concatenate(pieces)


# -- scikit-learn and callables --------------------------------------------------------


def _reader(model: Any) -> Callable[[Any], Any]:
    """Return the function from inputs to features."""
    if hasattr(model, "steps") and hasattr(model, "named_steps"):
        last = model.steps[-1][1]
        before = model[:-1]
        if len(model.steps) == 1:
            return _reader(last)
        if hasattr(last, "coefs_"):
            return lambda X: _last_hidden(last, before.transform(X))
        return before.transform
    if hasattr(model, "coefs_") and hasattr(model, "intercepts_"):
        return lambda X: _last_hidden(model, X)
    if hasattr(model, "transform"):
        return model.transform
    if callable(model):
        return model
    raise InputError(
        "Features come from a PyTorch module, a scikit-learn transformer, pipeline or"
        f" MLP, or a callable, not from a {type(model).__name__} (is it fitted?)."
    )


def _last_hidden(model: Any, X: Any) -> Array:
    """Return the last hidden layer of a scikit-learn perceptron."""
    values = np.asarray(X, dtype=np.float64)
    for weights, offset in zip(model.coefs_[:-1], model.intercepts_[:-1]):
        values = _ACTIVATIONS[model.activation](values @ weights + offset)
    return values


# -- PyTorch, which is imported by whoever has such a model ----------------------------


def _torch_features(model: Any, X: Any, layer: str | None, rows: int) -> Array:
    """Return what the layer puts out, or what the last linear layer sees; modules go
    back into their modes.
    """
    torch, modules = sys.modules["torch"], dict(model.named_modules())
    linear = [
        module for module in modules.values() if type(module).__name__ == "Linear"
    ]
    if layer is None and not linear:
        raise InputError(
            "The network has no Linear layer; give layer=, one of"
            f" {_few(list(modules))}."
        )
    if layer is not None and (layer not in modules or layer == ""):
        raise InputError(
            f"Field `layer` must be the name of a module ({_few(list(modules))}), but"
            f" is {layer!r}{nearest(layer, list(modules))}."
        )
    parameter, taken = next(iter(model.parameters()), None), list[Any]()

    def apply(block: Any) -> Array:
        taken.clear()
        if hasattr(block, "detach"):
            inputs = torch.as_tensor(block)
        else:
            inputs = torch.as_tensor(np.asarray(block))
        if parameter is not None:
            kind = parameter.dtype if inputs.is_floating_point() else inputs.dtype
            inputs = inputs.to(device=parameter.device, dtype=kind)
        model(inputs)
        if not taken:
            raise InputError(
                f"The layer {layer!r} took no part in the network's answer."
            )
        output = taken[-1][0] if isinstance(taken[-1], tuple) else taken[-1]
        values: Array = output.detach().float().cpu().numpy()
        return values.reshape(len(values), -1)

    if layer is None:
        handle = linear[-1].register_forward_pre_hook(
            lambda module, inputs: taken.append(inputs[0])
        )
    else:
        handle = modules[layer].register_forward_hook(
            lambda module, inputs, output: taken.append(output)
        )
    before = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            return _in_batches(apply, X, rows)
    finally:
        handle.remove()
        for module, training in before:
            module.training = training


def _few(names: list[str]) -> str:
    names = [name for name in names if name]
    if len(names) <= 8:
        return ", ".join(names)
    return ", ".join(names[:8]) + f" and {len(names) - 8} more"
