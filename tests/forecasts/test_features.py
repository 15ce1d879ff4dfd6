"""Features of models: callables, scikit-learn, and PyTorch (or what behaves like
it).
"""

import contextlib
import sys
import types

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.linear_model import Ridge
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import giantstep as gs

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((90, 4)), RNG.standard_normal(90)


def test_callables_and_batches():
    weights = RNG.standard_normal((4, 9))
    sizes = []

    def layer(rows):
        sizes.append(len(rows))
        return np.tanh(rows @ weights).reshape(len(rows), 3, 3)

    np.testing.assert_allclose(gs.features(layer, X, batch=40), np.tanh(X @ weights))
    assert sizes == [40, 40, 10]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("activation", ["identity", "relu", "tanh", "logistic"])
def test_a_perceptron_is_its_last_hidden_layer(activation):
    model = MLPRegressor(
        hidden_layer_sizes=(7, 5),
        activation=activation,
        max_iter=20,
        random_state=0,
        solver="lbfgs",
    )
    model.fit(X, Y)
    hidden = gs.features(model, X)
    assert hidden.shape == (90, 5)
    np.testing.assert_allclose(
        (hidden @ model.coefs_[-1] + model.intercepts_[-1])[:, 0],
        model.predict(X),
        rtol=1e-10,
    )


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_pipelines_and_transformers():
    scaler = StandardScaler().fit(X)
    np.testing.assert_array_equal(gs.features(scaler, X), scaler.transform(X))
    pipeline = make_pipeline(StandardScaler(), PCA(2), Ridge()).fit(X, Y)
    assert gs.features(pipeline, X).shape == (90, 2)
    network = make_pipeline(
        StandardScaler(),
        MLPClassifier(hidden_layer_sizes=(6,), max_iter=3, random_state=0),
    ).fit(X, Y > 0)
    np.testing.assert_allclose(
        gs.features(network, X), gs.features(network[-1], scaler.transform(X))
    )


@pytest.mark.parametrize(
    ("model", "options", "sentence"),
    [
        (lambda rows: rows, {"layer": "fc"}, "`layer` is for PyTorch networks"),
        (lambda rows: rows[:, 0], {}, r"shape \(90,\) of 90 rows"),
        (Ridge(), {}, "is it fitted"),
        (lambda rows: rows, {"batch": 0}, "`batch`"),
    ],
)
def test_refusals(model, options, sentence):
    with pytest.raises(gs.InputError, match=sentence):
        gs.features(model, X, **options)
    with pytest.raises(gs.InputError, match="no inputs"):
        gs.features(lambda rows: rows, X[:0])


class Tensor(np.ndarray):
    """The little of a torch tensor that features use."""

    is_floating_point = lambda self: self.dtype.kind == "f"  # noqa: E731
    detach = float = cpu = lambda self: self
    numpy = lambda self: np.asarray(self)  # noqa: E731
    device = "cpu"

    def to(self, device, dtype):
        return self.astype(dtype).view(Tensor)


@pytest.fixture
def network(monkeypatch):
    """A network of two linear layers with a dropout between them, on a stand-in for
    torch.
    """

    class Module:
        def __init__(self):
            self.training = True
            self.hooks = {}
            self.pre_hooks = {}
            self.children = {}

        def named_modules(self):
            yield "", self
            yield from self.children.items()

        def modules(self):
            return [module for _, module in self.named_modules()]

        def parameters(self):
            return iter([np.ones(1).view(Tensor)])

        def eval(self):
            for module in self.modules():
                module.training = False

        def _register(self, hooks, hook):
            hooks[id(hook)] = hook
            return types.SimpleNamespace(remove=lambda: hooks.pop(id(hook)))

        def register_forward_hook(self, hook):
            return self._register(self.hooks, hook)

        def register_forward_pre_hook(self, hook):
            return self._register(self.pre_hooks, hook)

        def __call__(self, x):
            for hook in list(self.pre_hooks.values()):
                hook(self, (x,))
            output = self.forward(x)
            for hook in list(self.hooks.values()):
                hook(self, (x,), output)
            return output

    class Linear(Module):
        def __init__(self, weights):
            super().__init__()
            self.weights = weights

        def forward(self, x):
            return (x @ self.weights).view(Tensor)

    class Dropout(Module):
        def forward(self, x):
            return 0 * x if self.training else x

    class Network(Module):
        def __init__(self):
            super().__init__()
            rng = np.random.default_rng(1)
            first = Linear(rng.standard_normal((4, 6)))
            last = Linear(rng.standard_normal((6, 2)))
            self.children = {"first": first, "drop": Dropout(), "last": last}

        def forward(self, x):
            for module in self.children.values():
                x = module(x)
            return x

    for kind in (Module, Linear, Dropout, Network):
        kind.__module__ = "torch.nn"

    torch = types.SimpleNamespace(
        no_grad=contextlib.nullcontext,
        as_tensor=lambda values: np.asarray(values).view(Tensor),
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    return Network()


def test_what_the_last_linear_layer_sees(network):
    hidden = gs.features(network, X, batch=32)
    np.testing.assert_allclose(hidden, X @ network.children["first"].weights)
    assert all(module.training for module in network.modules())  # as it was
    assert not any(module.hooks or module.pre_hooks for module in network.modules())
    np.testing.assert_allclose(
        gs.features(network, X, layer="last"), hidden @ network.children["last"].weights
    )
    with pytest.raises(
        gs.InputError, match="name of a module .first, drop, last.*did you mean `first`"
    ):
        gs.features(network, X, layer="fisrt")


def test_pytorch_itself():
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(
        torch.nn.Linear(4, 6),
        torch.nn.ReLU(),
        torch.nn.Dropout(),
        torch.nn.Linear(6, 3),
    )
    hidden = gs.features(model, X)
    with torch.no_grad():
        expected = model[1](model[0](torch.as_tensor(X, dtype=torch.float32))).numpy()
    np.testing.assert_allclose(hidden, expected, rtol=1e-5)
    assert model.training
