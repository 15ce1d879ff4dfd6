"""Wrong inputs and what is said to them: each sentence names the thing to do instead.

The table is read as a user would: a sentence that changes is read again by whoever
changes it.
"""

import inspect
import pickle
import re
import shlex
import traceback
from pathlib import Path

import numpy as np
import pytest

import giantstep as gs
from giantstep.core.base.errors import Code
from giantstep.core.scenario.families import family_names
from giantstep.faces.cli import main

ONE = {"width_per_dim": 1.5, "samples_per_dim": 2.0, "ridge": 0.1}
FEW = {"target": "z1 + z1*z2", **ONE}
GIANT = {"target": "z1*z2", "rate": 1.0, "batch_per_dim": 4.0}
SIZE = {"samples_per_dim": 1.0, "ridge": 0.1}
STEP = gs.OneStep(**ONE, step=gs.MaximalStep(2.0))
STEPS = gs.FewSteps(**FEW, rate=2.0, steps=2)
OVER = {"ridge": (0.1, 1.0)}
ONE_HAS = (
    "it has activation, target, noise, loss, flip, width_per_dim, samples_per_dim,"
    " ridge, second_layer, step, rows, fit_sample, inputs, precondition."
)
STEP_HAS = (
    "it has activation, target, noise, loss, flip, width_per_dim, samples_per_dim,"
    " ridge, second_layer.values, second_layer.probabilities, step.rate,"
    " step.batch_per_dim, step.loss, step.precondition, step.weight_decay,"
    " step.momentum, rows, fit_sample, inputs, precondition."
)
FEW_HAS = (
    "it has target, activation, noise, second_layer, rate, steps, loss_of_steps,"
    " batch_per_dim, planted, rows, inputs, precondition, width_per_dim,"
    " samples_per_dim, ridge."
)
VARIABLES = (
    "test_error, train_error, objective, test_misclassified, norm, Q2, theta, V2, t,"
    " psi, Q1, V1, learned, identity, null_error, affine_error, effective_rank,"
    " effective_rank_4"
)
QUESTIONS = (
    "errors, steps, along, spectrum, resolvent, weights, spikes, variance, sensitivity,"
    " calibration"
)
FUNCTIONS = (
    "allowed are numbers, pi, + - * / **, z or z1..z64, and the functions sqrt, exp,"
    " log, sin, cos, tanh, erf, relu, leaky_relu, abs, sign, sigmoid, softplus, gelu,"
    " swish, maximum, minimum, max, min, silu, h0..h12."
)


def columns(Z):
    return Z[:, 0] * Z[:, 1]


IN_PYTHON = {
    "the calibration of the best estimator": (
        lambda: gs.predict(
            gs.BayesLimit(target="sign(z)", samples_per_dim=1.0), what="calibration"
        ),
        (
            "Field `what` must be one of errors, trajectory, thresholds, branches"
            " (probabilities of the exact posterior are right; those of a fit are asked"
            " of Network), but is what='calibration'."
        ),
    ),
    "the best estimator at other inputs": (
        lambda: gs.predict(
            gs.BayesLimit(target="sign(z)", samples_per_dim=1.0), what="shift"
        ),
        (
            "Field `what` must be one of errors, trajectory, thresholds, branches"
            " (fresh inputs have the law of the samples; others are"
            " Network(shift=gs.Shift(scale=1.4))), but is what='shift'."
        ),
    ),
    "a shift of the best estimator": (
        lambda: gs.BayesLimit(
            target="sign(z)", samples_per_dim=1.0, shift=gs.Shift(scale=1.4)
        ),
        (
            "There is no field `shift` in BayesLimit: fresh inputs have the law of the"
            " samples; others are Network(shift=gs.Shift(scale=1.4))."
        ),
    ),
    "the calibration of a mixture": (
        lambda: gs.predict(gs.MixtureGLM.example(), what="calibration"),
        (
            "Field `what` must be one of errors, universality, thresholds, margins"
            " (test_loss is the log loss of a logistic fit; the rest is asked of"
            " Network), but is what='calibration'."
        ),
    ),
    "a mixture at other inputs": (
        lambda: gs.predict(gs.MixtureGLM.example(), what="shift"),
        (
            "Field `what` must be one of errors, universality, thresholds, margins"
            " (fresh inputs have the law of the samples; others are"
            " Network(shift=gs.Shift(scale=1.4))), but is what='shift'."
        ),
    ),
    "a class fit of several steps": (
        lambda: gs.FewSteps(**FEW, loss="logistic"),
        (
            "There is no field `loss` in FewSteps: its second layer is fitted by ridge"
            " regression only; a logistic or hinge fit is"
            " Network(readout=gs.Logistic(0.1))."
        ),
    ),
    "over losses of several steps": (
        lambda: gs.predict(STEPS, loss=["square", "logistic"]),
        (
            "There is no field `loss` in FewSteps: its second layer is fitted by ridge"
            " regression only; a logistic or hinge fit is"
            " Network(readout=gs.Logistic(0.1))."
        ),
    ),
    "classes of several steps": (
        lambda: gs.FewSteps(**FEW, flip=0.1),
        (
            "There is no field `flip` in FewSteps: its labels are not classes; Network"
            " has them."
        ),
    ),
    "a step of several steps": (
        lambda: gs.FewSteps(**FEW, step=gs.MaximalStep(2.0)),
        (
            "There is no field `step` in FewSteps: it takes `steps` maximal steps of"
            " size `rate`, on batches of `batch_per_dim`."
        ),
    ),
    "a target of two columns": (
        lambda: gs.FewSteps(**{**FEW, "target": columns}),
        (
            "Field `target`: The target columns must take an array of shape (n, 1) and"
            " return a real array of shape (n,), but for an array of shape (5, 1) it"
            " raised IndexError: index 1 is out of bounds for axis 1 with size 1; for"
            " two directions write gs.Target(f, directions=2)."
        ),
    ),
    "a target of seven directions": (
        lambda: gs.FewSteps(**{**FEW, "target": "z7"}),
        (
            "Field `target`: The target 'z7' has 7 directions (z1..z7); at most 6 are"
            " allowed."
        ),
    ),
    "no target": (
        lambda: gs.FewSteps(**{**FEW, "target": None}),
        (
            "Field `target`: A target must be a name, an expression in z or z1..zk, or"
            " a callable, but is None."
        ),
    ),
    "a list as second layer": (
        lambda: gs.FewSteps(**FEW, second_layer=[1, -1]),
        (
            'Field `second_layer` must be gs.Vocabulary([1, -1]) or "gaussian", in a'
            " file { values = [1, -1] } (a plain list would be a finite network, not a"
            " law), but is second_layer=[1, -1]."
        ),
    ),
    "a list as second layer of one step": (
        lambda: gs.OneStep(**ONE, second_layer=[1, -1]),
        (
            'Field `second_layer` must be gs.Vocabulary([1, -1]) or "gaussian", in a'
            " file { values = [1, -1] } (a plain list would be a finite network, not a"
            " law), but is second_layer=[1, -1]."
        ),
    ),
    "an activation that jumps": (
        lambda: gs.FewSteps(**FEW, activation="sign(z)"),
        (
            "Field `activation` must have a derivative for a gradient step, but sign(z)"
            " jumps at 0; take a smooth one such as tanh(5*z), or no gradient step."
        ),
    ),
    "as many rates as steps": (
        lambda: gs.FewSteps(**FEW, rate=[1.0, 2.0, 3.0], steps=2),
        (
            "Field `rate` must be a number or a list of 2, one for each step, but is"
            " rate=[1.0, 2.0, 3.0]."
        ),
    ),
    "a learning rate": (
        lambda: gs.FewSteps(**FEW, learning_rate=2.0),
        (
            "There is no field `learning_rate` in FewSteps (did you mean `rate`: step"
            f" size divided by the width: a number, or one for each step?); {FEW_HAS}"
        ),
    ),
    "epochs": (
        lambda: gs.FewSteps(**FEW, epochs=3),
        (
            "There is no field `epochs` in FewSteps (did you mean `steps`: number of"
            f" steps?); {FEW_HAS}"
        ),
    ),
    "a width in neurons": (
        lambda: gs.FewSteps(**FEW, width=300),
        (
            "There is no field `width` in FewSteps (did you mean `width_per_dim`?);"
            f" {FEW_HAS}"
        ),
    ),
    "a table of inputs without rows": (
        lambda: gs.FewSteps(**FEW, inputs=np.eye(3)),
        (
            "Field `inputs.rows` must be a table of at least 6 rows, twice its columns"
            " (a covariance is given by gs.InputCovariance(eigenvalues, target)), but"
            " is inputs.rows='<array 3x3>'."
        ),
    ),
    "inputs by name": (
        lambda: gs.FewSteps(**FEW, inputs="power-law"),
        (
            "Field `inputs` must be gs.PowerLaw(exponent=...) (in a file a table with"
            " kind = \"power-law\"), but is inputs='power-law'."
        ),
    ),
    "a finite batch on a power law": (
        lambda: gs.predict(
            gs.FewSteps(**FEW, batch_per_dim=5.0, inputs=gs.PowerLaw(exponent=1.0))
        ),
        (
            "Field `batch_per_dim` has no limit here: what is missing is a theory of"
            " the noise of finite batches where inputs have a covariance with several"
            " steps, a preconditioner or several directions. `gs.simulate` trains the"
            " real network."
        ),
    ),
    "a step by name": (
        lambda: gs.OneStep(**ONE, step="maximal"),
        (
            "Field `step` must be gs.MaximalStep(rate=...) (in a file a table with kind"
            " = \"maximal\"), but is step='maximal'."
        ),
    ),
    "a step by its class": (
        lambda: gs.OneStep(**ONE, step=gs.MaximalStep),
        (
            "Field `step` must be gs.MaximalStep(rate=...) (in a file a table with kind"
            ' = "maximal"), but is step=<class'
            " 'giantstep.problems.network.steps.maximal.MaximalStep'>."
        ),
    ),
    "a step of no kind": (
        lambda: gs.OneStep(**ONE, step={"kind": "maximum"}),
        (
            "Field `step.kind` must be one of 'none', 'planted', 'small', 'growing',"
            " 'maximal' (did you mean `maximal`?), but is step.kind='maximum'."
        ),
    ),
    "the rate of a step": (
        lambda: gs.OneStep(**ONE, rate=2.0),
        (
            "There is no field `rate` in OneStep: the step has it,"
            " step=gs.MaximalStep(rate=2.0)."
        ),
    ),
    "the rate of a step, asked": (
        lambda: gs.predict(STEP, rate=[1.0, 2.0]),
        (
            "There is no field `rate` in OneStep (did you mean `step.rate`, as a"
            " keyword step__rate?)."
        ),
    ),
    "several steps": (
        lambda: gs.OneStep(**ONE, steps=2),
        (
            "There is no field `steps` in OneStep: it takes one step; FewSteps takes"
            " several."
        ),
    ),
    "two directions for one": (
        lambda: gs.OneStep(**ONE, target="z1*z2"),
        (
            "Field `target` must be a function of one direction z (FewSteps takes"
            " several), but is target='z1*z2'."
        ),
    ),
    "another name of the loss": (
        lambda: gs.OneStep(**ONE, loss="cross-entropy"),
        (
            "Field `loss` must be one of 'square', 'logistic' or 'hinge' (that is"
            " loss=\"logistic\"), but is loss='cross-entropy'."
        ),
    ),
    "a class fit of real labels": (
        lambda: gs.OneStep(**ONE, loss="logistic"),
        (
            'Field `target` must be "sign(z)" where loss="logistic": the labels are'
            " classes, but is target='tanh(z)'."
        ),
    ),
    "a symbol for a field": (
        lambda: gs.OneStep(width_per_dim=1.5, alpha=2.0, ridge=0.1),
        (
            "There is no field `alpha` in OneStep (did you mean `samples_per_dim`:"
            f" samples of the fit per dimension?); {ONE_HAS}"
        ),
    ),
    "a penalty by another name": (
        lambda: gs.OneStep(width_per_dim=1.5, samples_per_dim=2.0, lam=0.1),
        (
            "There is no field `lam` in OneStep (did you mean `ridge`: penalty in sum"
            f" (y - f)^2 + lambda |a|^2; 0 is the ridgeless limit?); {ONE_HAS}"
        ),
    ),
    "a list in a scenario": (
        lambda: gs.OneStep(**{**ONE, "ridge": [0.1, 1.0]}),
        (
            "Field `ridge` must be a number (several go to the verb,"
            " gs.predict(scenario, ridge=[...]), or into [grid] of a file), but is"
            " ridge=[0.1, 1.0]."
        ),
    ),
    "a text for a number": (
        lambda: gs.OneStep(**{**ONE, "ridge": "0.1"}),
        "Field `ridge` must be a number, but is ridge='0.1'.",
    ),
    "a number below its bound": (
        lambda: gs.OneStep(**{**ONE, "ridge": -1}),
        "Field `ridge` must be a number at least 0, but is ridge=-1.0.",
    ),
    "a missing field": (
        lambda: gs.OneStep(width_per_dim=1.5, ridge=0.1),
        "Field `samples_per_dim` is missing: samples of the fit per dimension.",
    ),
    "a variable x": (
        lambda: gs.OneStep(**ONE, activation="max(x, 0)"),
        (
            "Field `activation`: The expression 'max(x, 0)' cannot be used: the name"
            f" `x` is not known (the variable is `z`); {FUNCTIONS}"
        ),
    ),
    "a function of NumPy by name": (
        lambda: gs.OneStep(**ONE, activation="np.tanh(z)"),
        (
            "Field `activation`: The expression 'np.tanh(z)' cannot be used: functions"
            " go by their names alone, `tanh` for `np.tanh`."
        ),
    ),
    "a misspelt function": (
        lambda: gs.OneStep(**ONE, activation="rleu"),
        (
            "Field `activation`: The expression 'rleu' cannot be used: the name `rleu`"
            f" is not known (did you mean `relu`?); {FUNCTIONS}"
        ),
    ),
    "a power with a hat": (
        lambda: gs.OneStep(**ONE, target="z^2"),
        (
            "Field `target`: The expression 'z^2' cannot be used: `^` is not allowed,"
            " powers are written `**`."
        ),
    ),
    "a step without its rate": (
        lambda: gs.MaximalStep(),
        "Field `rate` is missing: step size divided by the width: eta_raw = rate * p.",
    ),
    "a misspelt part of a field": (
        lambda: gs.predict(STEP, step__rates=[1.0, 2.0]),
        (
            "There is no field `step.rates` in OneStep (did you mean `step.rate`?);"
            f" {STEP_HAS}"
        ),
    ),
    "trials of the limit": (
        lambda: gs.predict(STEP, trials=5),
        (
            "There is no field `trials` in OneStep; it is a setting of simulate and"
            " compare."
        ),
    ),
    "a theory of the experiment": (
        lambda: gs.simulate(STEP, dim=50, theory="exact"),
        (
            "There is no field `theory` in OneStep; it is a setting of predict and"
            " compare."
        ),
    ),
    "a variable as question": (
        lambda: gs.predict(STEP, what="test_error"),
        (
            f"Field `what` must be one of {QUESTIONS} (test_error is a variable of"
            " what='errors'), but is what='test_error'."
        ),
    ),
    "a misspelt question": (
        lambda: gs.predict(STEP, what="spectra"),
        (
            f"Field `what` must be one of {QUESTIONS} (did you mean `spectrum`?), but"
            " is what='spectra'."
        ),
    ),
    "a setting of another question": (
        lambda: gs.predict(STEP, kappa=[0.0, 1.0]),
        (
            'There is no field `kappa` in OneStep: it is a setting of what="along", as '
            'in gs.predict(scenario, what="along", kappa=...).'
        ),
    ),
    "a class for a scenario": (
        lambda: gs.predict(gs.OneStep),
        (
            "The first argument must be a scenario, not the class OneStep: make one of"
            " it, OneStep(...)."
        ),
    ),
    "a list of scenarios": (
        lambda: gs.predict([STEP, STEP]),
        (
            "The first argument must be a scenario, not a list; name them, as in {'a':"
            " ..., 'b': ...}."
        ),
    ),
    "an experiment without dimension": (
        lambda: gs.simulate(STEP),
        (
            "Field `dim` is missing: an experiment needs the dimension of its data, a"
            " whole number."
        ),
    ),
    "an unknown device": (
        lambda: gs.simulate(STEP, dim=50, device="gpu"),
        'Field `device` must be "cpu", "cuda" or "cuda:0", but is device=\'gpu\'.',
    ),
    "one letter too few": (
        lambda: gs.compare(STEP, dim=50, trial=3),
        f"There is no field `trial` in OneStep (did you mean `trials`?); {STEP_HAS}",
    ),
    "d for dim": (
        lambda: gs.compare(STEP, d=50),
        f"There is no field `d` in OneStep (did you mean `dim`?); {STEP_HAS}",
    ),
    "a keyword in American spelling": (
        lambda: gs.optimize(STEP, over=OVER, minimize="test_error"),
        (
            "There is no field `minimize` in OneStep (did you mean `minimise`?);"
            f" {STEP_HAS}"
        ),
    ),
    "a misspelt observable": (
        lambda: gs.optimize(STEP, over=OVER, minimise="test_eror"),
        (
            f"Field `minimise` must be one of {VARIABLES} (did you mean `test_error`?),"
            " but is minimise='test_eror'."
        ),
    ),
    "an observable with entries": (
        lambda: gs.optimize(STEPS, over=OVER, minimise="Q2"),
        (
            "Field `minimise` must be one of the entries of `Q2`, which has the"
            ' dimensions `time`, `block`: write "Q2[time=last, block=1]", but is'
            " minimise='Q2'."
        ),
    ),
    "no observable": (
        lambda: gs.optimize(gs.OnlineSGD.example(), over={"rate": (0.1, 1.0)}),
        (
            "Field `minimise` is missing: name a variable, one of M[time=last,"
            " neuron=1, direction=1], Q[time=last, neuron=1, neuron_2=1],"
            " mse[time=last], cosine[time=last, neuron=1, direction=1], best[time=last,"
            " direction=1], rms[time=last, direction=1]."
        ),
    ),
    "a time that is not reached": (
        lambda: gs.optimize(STEPS, over=OVER, minimise="test_error[time=7]"),
        "`test_error` has no entry time=7; along time it has 0, 1, 2.",
    ),
    "a list to search over": (
        lambda: gs.optimize(STEP, over=["ridge"]),
        (
            'Field `over` must be a mapping such as {"ridge": (1e-6, 1e3)} with at'
            " least one field, but is over=['ridge']."
        ),
    ),
    "a budget of short names": (
        lambda: gs.optimize(STEP, over=OVER, budget="samples + ridge = 4"),
        (
            "The constraint 'samples + ridge = 4' names `samples`, which is no field"
            " (did you mean `samples_per_dim`?)."
        ),
    ),
    "the best of infinitely many samples": (
        lambda: gs.best_possible(STEP),
        (
            "OneStep takes its steps on infinitely many samples: the best possible"
            " error is then the noise alone; give the batches a finite `batch_per_dim`."
        ),
    ),
    "a misspelt keyword of a sweep": (
        lambda: gs.sweep(STEP, dim=50, stor="runs.db"),
        f"There is no field `stor` in OneStep (did you mean `store`?); {STEP_HAS}",
    ),
    "a target of a mixture": (
        lambda: gs.MixtureGLM(target="sign(z)", **SIZE),
        (
            "There is no field `target` in MixtureGLM: `labels` says how labels are"
            ' made, as in labels="sign" or labels="tanh(z)".'
        ),
    ),
    "a support vector machine": (
        lambda: gs.MixtureGLM(labels="sign", loss="svm", **SIZE),
        (
            "Field `loss` must be one of 'square', 'logistic', 'hinge', 'huber',"
            " 'interpolate' or 'maxmargin' (that is loss=\"hinge\", without errors"
            " loss=\"maxmargin\"), but is loss='svm'."
        ),
    ),
    "the lasso": (
        lambda: gs.MixtureGLM(labels="linear", loss="lasso", **SIZE),
        (
            "Field `loss` must be one of 'square', 'logistic', 'hinge', 'huber',"
            " 'interpolate' or 'maxmargin' (that is loss=\"square\" with `l1` above 0),"
            " but is loss='lasso'."
        ),
    ),
    "an inverse penalty": (
        lambda: gs.MixtureGLM(labels="sign", C=1.0, **SIZE),
        (
            "There is no field `C` in MixtureGLM: the penalty is `ridge`; in d"
            " dimensions scikit-learn's C is 1/(d * ridge)."
        ),
    ),
    "a class fit of a mixture with real labels": (
        lambda: gs.MixtureGLM(labels="linear", loss="logistic", **SIZE),
        (
            "Field `loss` must be square, huber or interpolate where labels are real"
            " numbers (labels=\"sign\" makes classes), but is loss='logistic'."
        ),
    ),
    "a law for a list of neurons": (
        lambda: gs.BatchReuse(
            target="z",
            activation="relu",
            second_layer=gs.Vocabulary([1]),
            samples_per_dim=2.0,
            rate=0.1,
        ),
        (
            "Field `second_layer` must be a list of numbers, but is"
            " second_layer=Vocabulary(values=(1.0,), probabilities=(1.0,))."
        ),
    ),
    "a width of neurons that are listed": (
        lambda: gs.BatchReuse(
            target="z", activation="relu", width=2, samples_per_dim=2.0, rate=0.1
        ),
        (
            "There is no field `width` in BatchReuse: its neurons are the numbers of"
            " `second_layer`, as in second_layer=[1, -1] for two."
        ),
    ),
    "samples of one pass": (
        lambda: gs.OnlineSGD(
            target="z", activation="relu", rate=0.1, steps=10, samples_per_dim=2.0
        ),
        (
            "There is no field `samples_per_dim` in OnlineSGD: it sees `batch_size`"
            " fresh samples in each of its `steps`."
        ),
    ),
    "a width per dimension of few neurons": (
        lambda: gs.GiantSteps(**GIANT, width_per_dim=2.0),
        (
            "There is no field `width_per_dim` in GiantSteps: its `width` is a number"
            " of neurons; in FewSteps it grows with the dimension."
        ),
    ),
    "a penalty that is a setting": (
        lambda: gs.GiantSteps(**GIANT, ridge=0.1),
        (
            'There is no field `ridge` in GiantSteps: it is a setting of what="errors",'
            ' as in gs.predict(scenario, what="errors", ridge=...).'
        ),
    ),
    "an experiment of infinitely many neurons": (
        lambda: gs.simulate(gs.GiantSteps(**GIANT), dim=50),
        (
            "Field `width` must be finite for an experiment, as in width=100, but is"
            " width=inf."
        ),
    ),
    "the network of an optimal estimator": (
        lambda: gs.BayesLimit(target="z", samples_per_dim=1.0, activation="relu"),
        (
            "There is no field `activation` in BayesLimit: it is the best any estimator"
            " can do; networks are OneStep, FewSteps, GiantSteps."
        ),
    ),
    "a letter for the clusters": (
        lambda: gs.SubspaceClustering(k=2, sparsity=0.1, snr=1.0, samples_per_dim=2.0),
        (
            "There is no field `k` in SubspaceClustering (did you mean `clusters`:"
            " number of clusters?); it has clusters, sparsity, snr, samples_per_dim,"
            " mean, weights."
        ),
    ),
    "a paper of another year": (
        lambda: gs.OneStep.from_paper("dandi2025randon", alpha=1.0),
        (
            "Field `paper` must be one of the papers OneStep knows: dandi2025random,"
            " cui2024asymptotics, moniri2024theory, ba2022high, mei2022generalization"
            " (did you mean `dandi2025random`?), but is paper='dandi2025randon'."
        ),
    ),
    "a phase diagram of one step": (
        lambda: gs.phase_diagram(STEP),
        (
            "OneStep has no phase diagram; MixtureGLM, OnlineSGD and SubspaceClustering"
            " have one."
        ),
    ),
}

IN_SHELL = {
    "new nonsense": "Field `family` must be one of FAMILIES, but is family='nonsense'.",
    "new one_step": (
        "Field `family` must be one of FAMILIES (did you mean `one-step`?), but is"
        " family='one_step'."
    ),
    "new": "Missing argument 'FAMILY'; `giantstep new --help` says what there is.",
    "nothing": "No such command 'nothing'; `giantstep --help` says what there is.",
    "--version": "No such option: --version; the command is `giantstep version`.",
    "predict": "A study is missing: give S.toml, or --data FILE --label COLUMN.",
    "predict none.toml": "There is no file 'none.toml'.",
    "predict S.toml --trials 3": (
        "No such option: --trials (Possible options: --variables)."
    ),
    "predict S.toml --dims 100": "No such option: --dims (Possible options: --dim).",
    "predict S.toml --nonsense 1": (
        "No such option: --nonsense; `giantstep predict --help` says what there is."
    ),
    "predict F.toml --set loss=logistic": (
        "There is no field `loss` in FewSteps: its second layer is fitted by ridge"
        " regression only; a logistic or hinge fit is"
        " Network(readout=gs.Logistic(0.1))."
    ),
    "predict S.toml --set step=maximal": (
        "Field `step` must be gs.MaximalStep(rate=...) (in a file a table with kind = "
        '"maximal"), '
        "but is step='maximal'."
    ),
    "predict S.toml --set rate=2": (
        "There is no field `rate` in OneStep (did you mean `step.rate`, as a keyword"
        " step__rate?)."
    ),
    "predict S.toml --set ridge": "--set takes FIELD=VALUE, but got 'ridge'.",
    "predict S.toml --grid ridge=1:10": (
        "The range '1:10' of `ridge` has no number of values, as in ridge=1:10:20."
    ),
    "predict S.toml --out a.xlsx": (
        "--out writes .csv, .nc, .json, .tex, but the file is called 'a.xlsx'."
    ),
    "optimize S.toml": (
        "--over is missing: name the fields to search over, as in --over"
        " ridge=1e-6:1e3."
    ),
    "optimize S.toml --over rigde=0.1:1": (
        f"There is no field `rigde` in OneStep (did you mean `ridge`?); {STEP_HAS}"
    ),
    "reproduce nonsense": (
        "There is no figure `nonsense`; `giantstep figures` lists them."
    ),
    "reproduce double_descent": (
        "There is no figure `double_descent` (did you mean `double-descent`?);"
        " `giantstep figures` lists them."
    ),
}

IN_A_FILE = {
    'ridge = 0.1 -> ridge = 0.1\nstep = "maximal"': (
        "Field `step` must be gs.MaximalStep(rate=...) (in a file a table with kind = "
        '"maximal"), '
        "but is step='maximal'."
    ),
    "ridge = 0.1 -> ridge = 0.1\nsecond_layer = [1, -1]": (
        'Field `second_layer` must be gs.Vocabulary([1, -1]) or "gaussian", in a file {'
        " values = [1, -1] } (a plain list would be a finite network, not a law), but"
        " is second_layer=[1, -1]."
    ),
    "ridge = 0.1 -> ridge = 0.1\nsteps = 2": (
        "There is no field `steps` in OneStep: it takes one step; FewSteps takes"
        " several."
    ),
    "one-step -> one-stop": (
        "Field `family` must be one of FAMILIES (did you mean `one-step`?), but is"
        " family='one-stop'."
    ),
    "one-step -> nonsense": (
        "Field `family` must be one of FAMILIES, but is family='nonsense'."
    ),
    "trials = 3 -> trails = 3": (
        "There is no `trails` in the table [experiment] (did you mean `trials`?); it"
        " may have dim, trials, seed, device, keep_trials, paired, test_samples."
    ),
    "dim = 50 -> dims = 50": (
        "There is no `dims` in the table [experiment] (did you mean `dim`?); it may"
        " have dim, trials, seed, device, keep_trials, paired, test_samples."
    ),
    "[experiment] -> [simulation]": (
        "There is no `simulation` in a study; it may have what, scenario, grid,"
        " settings, limit, experiment."
    ),
    "ridge = 0.1 -> ridge = 0.1\nstep = { rate = 2.0 }": (
        "Field `step` must be a table that says its `kind`, one of none, planted,"
        " small, growing, maximal, but is step={'rate': 2.0}."
    ),
    "ridge = 0.1 -> ridge = [0.1, 1.0]": (
        "Field `ridge` must be a number (several go to the verb, gs.predict(scenario,"
        " ridge=[...]), or into [grid] of a file), but is ridge=[0.1, 1.0]."
    ),
}
STUDY = """[scenario]
family = "one-step"
width_per_dim = 1.5
samples_per_dim = 2.0
ridge = 0.1
[experiment]
dim = 50
trials = 3
"""


def complete(sentence):
    """Put in the families there are: other tests may have brought some."""
    return sentence.replace("FAMILIES", ", ".join(family_names()))


def test_there_are_at_least_sixty():
    assert len(IN_PYTHON) + len(IN_SHELL) + len(IN_A_FILE) >= 60


@pytest.mark.parametrize("name", IN_PYTHON)
def test_in_python(name):
    call, sentence = IN_PYTHON[name]
    with pytest.raises(gs.InputError) as refused:
        call()
    assert str(refused.value) == sentence


@pytest.fixture
def studies(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, family in (("S.toml", gs.OneStep), ("F.toml", gs.FewSteps)):
        gs.Study(family.example()).write(name)
    return tmp_path


@pytest.mark.parametrize("words", IN_SHELL)
def test_in_a_shell(words, studies, capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["giantstep", *shlex.split(words)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert (ended.value.code, capsys.readouterr().err) == (
        2,
        f"giantstep: {complete(IN_SHELL[words])}\n",
    )


@pytest.mark.parametrize("change", IN_A_FILE)
def test_in_a_file(change):
    before, after = change.split(" -> ")
    with pytest.raises(gs.InputError) as refused:
        gs.Study.from_toml(STUDY.replace(before, after))
    assert str(refused.value) == complete(IN_A_FILE[change])


def test_a_point_without_an_answer_says_what_else_there_is(monkeypatch):
    """Where even random points are too many for the averages over what is not learnt
    yet.
    """
    monkeypatch.setattr("giantstep.core.maths.gaussian.conditional.MOST_VALUES", 100)
    with pytest.warns(gs.GiantstepWarning):
        status = str(
            gs.predict(
                STEPS.replace(rate=1.2345, target="sin(z1) + sin(z1)*sin(z2)")
            ).status.values
        )
    way_out = (
        "; smaller rates, fewer `atoms` of the inputs or a preconditioner need fewer,"
        " gs.simulate none"
    )
    assert re.search(
        r"would need [\d.e+]+ (nodes|values of the target)", status
    ) and status.endswith(way_out)


@pytest.mark.parametrize(
    ("name", "names", "near"),
    [
        ("minimize", ["finite_size", "minimise"], "minimise"),
        ("loss", ["rows", "loss_of_steps"], "loss_of_steps"),
        ("loss", ["rows", "noise"], ""),
        ("minimize", ["finite_size"], ""),
        ("nonsense", ["one-step", "online-sgd"], ""),
        ("ridge", ["target", "rate"], ""),
        ("rate", ["rows", "step.rate"], "step.rate"),
        ("Ridge", ["ridge"], "ridge"),
        ("x", ["k", "d"], ""),
        ("widht", ["what", "width_per_dim", "noise"], "width_per_dim"),
        ("smaples", ["samples_per_dim", "ridge"], "samples_per_dim"),
        ("batches", ["rows", "step.batch_per_dim"], "step.batch_per_dim"),
    ],
)
def test_a_suggestion_by_spelling_is_made_only_where_it_is_near(name, names, near):
    from giantstep.core.base.errors import nearest

    assert nearest(name, names) == (f" (did you mean `{near}`?)" if near else "")


def test_a_name_of_the_package_is_suggested_too():
    with pytest.raises(AttributeError, match="did you mean `optimize`"):
        _ = gs.optimise
    assert not hasattr(gs, "__wrapped__") and np.isinf(gs.inf)


def test_a_refusal_that_others_act_on_has_a_code():
    """Catches a code that is lost where an error gets the name of its field, or travels
    to another process.
    """
    step = gs.GrowingStep(rate=1.0, exponent=0.3, batch_per_dim=1.0)
    s = gs.OneStep(width_per_dim=1.5, samples_per_dim=2.0, ridge=0.1, step=step)
    with pytest.raises(gs.InputError) as caught:
        gs.predict(s, what="weights")
    for error in (
        caught.value,
        caught.value.inside("step"),
        pickle.loads(pickle.dumps(caught.value)),
    ):
        assert error.code is Code.NEEDS_DIMENSION
    assert gs.InputError("Something else.").code is None


SIZES = {"width_per_dim": 1.5, "samples_per_dim": 2.0}
NO_STEP = r"`step` is gs.NoStep\(\) here, which has none; take step=gs.Small"
UNTRAINED = gs.OneStep(ridge=0.1, **SIZES)
WORDS_OF_OTHERS = [
    (lambda: gs.OneStep(ridge=0.1, **SIZES, widht=1), "did you mean `width_per_dim`"),
    (lambda: gs.predict(UNTRAINED, widht=[1, 2]), "did you mean `width_per_dim`"),
    (
        lambda: gs.OneStep(ridge=0.1, **SIZES, learning_rate=1),
        "called `rate`: the step has it, step=gs.MaximalStep",
    ),
    (
        lambda: gs.predict(UNTRAINED, lr=[1, 2]),
        "called `rate`: the step has it, step=gs.MaximalStep",
    ),
    (
        lambda: gs.Network(**SIZES, learning_rate=1),
        "called `rate`: every step has its own",
    ),
    (lambda: gs.Network(**SIZES, lam=1), "called `ridge`: the read-out has it"),
    (
        lambda: gs.MixtureGLM(means=[[1.0, 2.0]]),
        "`means` in MixtureGLM: the covariances have them, cov",
    ),
    (
        lambda: gs.OneStep("relu", "tanh(z)"),
        r"by name, OneStep\(activation=..., target=...\), and none by position",
    ),
    (
        lambda: gs.predict(UNTRAINED, step__rate=[1, 2]),
        r"`step` is gs.NoStep\(\) here, which has none; take step=gs.Small",
    ),
    (
        lambda: gs.predict(UNTRAINED, step__rate=1.0),
        r"`step` is gs.NoStep\(\) here, which has none; take step=gs.Small",
    ),
    (lambda: UNTRAINED.replace(step__rate=1.0), NO_STEP),
]


@pytest.mark.parametrize(("call", "hint"), WORDS_OF_OTHERS)
def test_words_of_other_packages_lead_to_ours(call, hint):
    with pytest.raises((gs.InputError, TypeError), match=hint):
        call()


def test_names_that_users_of_other_packages_look_for():
    with pytest.raises(
        AttributeError, match="no attribute 'Adam' .its first step is gs.SignStep"
    ):
        _ = gs.Adam
    with pytest.raises(AttributeError, match="gs.OnlineSGD"):
        _ = gs.SGD


@pytest.mark.parametrize(
    "call",
    [
        lambda: gs.OneStep(ridge=-1, **SIZES),
        lambda: gs.MaximalStep("fast"),
        lambda: gs.predict(UNTRAINED, ridge=[-1]),
        lambda: gs.compare(UNTRAINED, trials=0, dim=30),
        lambda: gs.optimize(UNTRAINED, over={"nothing": (0, 1)}),
    ],
)
def test_a_refusal_shows_the_callers_line_and_one_frame_of_ours(call, monkeypatch):
    def frames():
        with pytest.raises(gs.InputError) as caught:
            call()
        files = [
            Path(frame.filename)
            for frame in traceback.extract_tb(caught.value.__traceback__)
        ]
        return [
            file
            for file in files
            if "giantstep" in file.parts and file.parent != Path(__file__).parent
        ]

    monkeypatch.delenv("GIANTSTEP_FULL_TRACEBACK")
    assert len(frames()) == 1
    monkeypatch.setenv("GIANTSTEP_FULL_TRACEBACK", "1")
    assert len(frames()) >= 1


def test_full_tracebacks_are_kept_where_they_are_asked_for(monkeypatch):
    monkeypatch.setenv("GIANTSTEP_FULL_TRACEBACK", "1")
    with pytest.raises(gs.InputError) as caught:
        gs.predict(UNTRAINED, ridge=[-1])
    assert len(traceback.extract_tb(caught.value.__traceback__)) > 4


def test_public_functions_are_found_by_pickle_and_keep_their_help():
    assert pickle.loads(pickle.dumps(gs.predict)) is gs.predict
    assert list(inspect.signature(gs.predict).parameters)[:2] == ["scenario", "grid"]
    assert "Answer a scenario with its limit" in gs.predict.__doc__


def test_a_warning_is_at_the_line_of_the_user():
    unlearnt = gs.Network(target="z1**2 + z2", steps=[gs.MaximalStep(1.0)], **SIZES)
    for answer in (gs.predict, lambda s: gs.Study(s).predict()):
        with pytest.warns(gs.GiantstepWarning, match="not learnt") as caught:
            answer(unlearnt)
        assert Path(caught[0].filename) == Path(__file__)
