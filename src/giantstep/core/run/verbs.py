"""The verbs `predict` (the limit), `simulate` (the experiment) and `compare` (both).

They know no family: all they use is what `giantstep.core.scenario.model.Scenario` says
every family provides. `request` checks what is asked, `limit` runs the limit, `trials`
the experiment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep.core.base.errors import InputError
from giantstep.core.base.progress import ProgressOption
from giantstep.core.run.limit import checked_cpu_limit, solve_limit
from giantstep.core.run.problems import Problems, warn
from giantstep.core.run.request import (
    ExperimentSettings,
    Request,
)
from giantstep.core.run.stored import check_stored
from giantstep.core.run.trials import TrialPlan, Watch
from giantstep.core.scenario.checks import check_flags
from giantstep.core.scenario.family import DIAGNOSTICS
from giantstep.core.scenario.grid import Grid
from giantstep.core.scenario.several import Scenarios, stack

if TYPE_CHECKING:
    import xarray


def predict(
    scenario: Scenarios,
    grid: Mapping[str, Any] | None = None,
    /,
    *,
    what: str | None = None,
    theory: str | Sequence[str] | None = None,
    dim: Any = None,
    tolerance: float = 1e-10,
    strict: bool = False,
    seed: int = 0,
    cpu_limit: float | None = None,
    progress: ProgressOption = None,
    **fields: Any,
) -> xarray.Dataset:
    """Answer a scenario with its limit, over a grid in one batched call.

    Parameters
    ----------
    scenario : what is studied; several by name, ``{"no step": s0, "one step": s1}``,
        have the dimension ``scenario``.
    grid : dotted field -> value or list of values; the same as keywords.
    what : the question asked; the scenario's first one if left out.
    theory : a name in ``scenario.theories``; the family chooses if left out, and the
        result says which. A list of names makes the dimension ``theory``.
    dim : adds the leading finite-size correction at that dimension, where it is known;
        may be a list.
    tolerance : relative residual the equations are solved to; above 1e-6 some families
        take coarser rules, too.
    strict : raise `ConvergenceError` where a point is not solved, rather than warn.
    seed : of the points of a limit that is computed by sampling; others do not depend
        on it.
    cpu_limit : seconds of CPU one point may take before it is given up and flagged
        (``inf`` waits for ever); 15 if left out, or what the environment variable
        ``GIANTSTEP_CPU_LIMIT`` says.
    progress : True, False or a callable(done, total, text); a line on a terminal if
        left out.
    **fields : fields of the scenario (``step__rate=[0.5, 1]``) and settings of the
        question (``x=...``).

    Returns
    -------
    xarray.Dataset
        Grid dimensions first; ``converged``, ``residual``, ``iterations``, ``status``
        beside the variables.

    Examples
    --------
    >>> import giantstep as gs
    >>> s = gs.OneStep(
    ...     activation="relu",
    ...     target="tanh(z)",
    ...     width_per_dim=1.5,
    ...     samples_per_dim=2.0,
    ...     ridge=0.1,
    ... )
    >>> curve = gs.predict(s, samples_per_dim=[0.5, 2.0, 8.0], ridge=[0.1, 1.0])
    >>> curve.test_error.dims, bool(curve.converged.all())
    (('samples_per_dim', 'ridge'), True)
    >>> gs.predict(s, what="spectrum").density.dims
    ('x',)
    """
    if isinstance(theory, list | tuple) and theory:
        answers = [
            predict(
                scenario,
                grid,
                what=what,
                theory=name,
                dim=dim,
                tolerance=tolerance,
                strict=strict,
                seed=seed,
                cpu_limit=cpu_limit,
                progress=progress,
                **fields,
            )
            for name in theory
        ]
        return stack(answers, theory, "theory")
    one: Any = theory  # what is no name is refused
    request = Request(
        scenario,
        grid,
        fields,
        what=what,
        dim=dim,
        theory=one,
        tolerance=tolerance,
        seed=seed,
    )
    check_flags(strict=strict)
    result, problems = solve_limit(
        request, None, progress, cpu_limit=checked_cpu_limit(cpu_limit)
    )
    problems.refuse(strict)
    warn(problems)
    return result


def simulate(
    scenario: Scenarios,
    grid: Mapping[str, Any] | None = None,
    /,
    *,
    what: str | None = None,
    dim: Any = None,
    trials: int = 5,
    seed: int = 0,
    device: str = "cpu",
    keep_trials: bool = False,
    keep_networks: bool = False,
    paired: bool = False,
    strict: bool = False,
    progress: ProgressOption = None,
    **fields: Any,
) -> xarray.Dataset:
    """Answer a scenario with an experiment of finite dimension: means over trials, with
    standard errors.

    The numbers of a point depend on the seed, on what the point is, and on the trial,
    never on its place in the grid: more points or more trials change no number.

    Parameters
    ----------
    scenario, grid, what, strict, progress, **fields : as in `predict`.
    dim : dimension of the data; may be a list.
    trials : number of independent repetitions.
    seed : any whole number from 0 on.
    device : ``"cpu"`` or ``"cuda"``; they draw different numbers.
    keep_trials : keep the dimension ``trial`` rather than the mean.
    keep_networks : add the networks of every trial, over the dimension ``trial``:
        ``first_layer``, ``second_layer`` and ``target_directions`` of a network, of
        ``what="spectrum"`` also all ``eigenvalues``. Every network is trained a second
        time for that. A family that keeps no networks refuses.
    paired : give all points the same draws, so that their differences are less noisy.

    Returns
    -------
    xarray.Dataset
        The variables of `predict`, each with its standard error ``*_stderr``.

    Examples
    --------
    >>> import giantstep as gs
    >>> s = gs.OneStep(
    ...     activation="relu",
    ...     target="tanh(z)",
    ...     width_per_dim=1.5,
    ...     samples_per_dim=2.0,
    ...     ridge=0.1,
    ... )
    >>> few = gs.simulate(s, dim=40, trials=4, keep_trials=True)
    >>> more = gs.simulate(s, dim=40, trials=6, keep_trials=True)
    >>> # more trials change no number
    >>> bool((few.test_error == more.test_error[:4]).all())
    True
    """
    request = Request(scenario, grid, fields, what=what, dim=dim)
    experiment = ExperimentSettings(
        trials=trials,
        seed=seed,
        device=device,
        keep_trials=keep_trials,
        paired=paired,
        keep_networks=keep_networks,
    )
    check_flags(strict=strict)
    result, problems = TrialPlan(request, experiment).run(progress)
    problems.refuse(strict)
    warn(problems)
    return result


def compare(
    scenario: Scenarios,
    grid: Mapping[str, Any] | None = None,
    /,
    *,
    what: str | None = None,
    theory: str | Sequence[str] | None = None,
    dim: Any = None,
    tolerance: float = 1e-10,
    trials: int = 5,
    seed: int = 0,
    device: str = "cpu",
    paired: bool = False,
    finite_size: bool = True,
    strict: bool = False,
    progress: ProgressOption = None,
    watch: Watch | None = None,
    stored: xarray.Dataset | None = None,
    twin: bool | None = None,
    **fields: Any,
) -> xarray.Dataset:
    """Answer a scenario with both engines and say how far apart they are.

    Parameters
    ----------
    scenario, grid, what, theory, tolerance, strict, progress, **fields : as in
        `predict`.
    dim, trials, seed, device, paired : as in `simulate`.
    finite_size : compare with the limit and its finite-size correction at `dim`, where
        it is known (it is called "theory at d = ..." then, and the bare limit stands
        beside it); False compares with the bare limit.
    watch : called after every trial with a function that returns what was measured so
        far, as `simulate` would.
    stored : an experiment at the same points, as `simulate` or `sweep` returned it, in
        place of a new one. One of another scenario, question, dimension or seed is
        refused.
    twin : on a table, whether the same trials are run on its Gaussian twin, too, which
        splits the gap: the report says how much the finite size makes, and how much
        that the data are not Gaussian. If left out: unless `stored`.

    Returns
    -------
    xarray.Dataset
        The dimension ``source`` first: "limit" is the bare limit, "theory" the limit
        with its finite-size correction at `dim` (only where the family knows one),
        "experiment" the measurement. ``*_gap`` is experiment minus theory (minus limit
        where there is no "theory"; the attribute ``compared_with`` says which), ``*_z``
        its normal score. `giantstep.agreement` sums it up. Of several scenarios those
        without a theory are NaN there, and their ``status`` says why. On a table
        ``*_twin`` and ``*_twin_stderr`` are those of its Gaussian twin.

    Examples
    --------
    >>> import giantstep as gs
    >>> s = gs.OneStep(
    ...     width_per_dim=1.5,
    ...     samples_per_dim=2.0,
    ...     ridge=0.1,
    ...     step=gs.MaximalStep(rate=2.0),
    ... )
    >>> both = gs.compare(s, dim=60, trials=5, samples_per_dim=[0.5, 2.0])
    >>> both.source.values.tolist()  # the bare limit, the limit with its correction at d = 60, the networks
    ['limit', 'theory', 'experiment']
    >>> gap = both.test_error.sel(source="experiment") - both.test_error.sel(
    ...     source="theory"
    ... )
    >>> bool((abs(gap - both.test_error_gap) < 1e-12).all())
    True
    """  # noqa: E501
    from giantstep.core.result.comparison import combine
    from giantstep.core.result.provenance import provenance

    if twin is None:
        twin = stored is None
    check_flags(finite_size=finite_size, strict=strict, twin=twin)
    if isinstance(theory, list | tuple) and theory:
        # one experiment serves all of them
        drawn: dict[str, Any] = {
            "what": what,
            "dim": dim,
            "trials": trials,
            "seed": seed,
            "device": device,
            "paired": paired,
            "strict": strict,
            "progress": progress,
            **fields,
        }
        if stored is None:
            stored = simulate(scenario, grid, **drawn)
        compared_with_each = [
            compare(
                scenario,
                grid,
                theory=name,
                tolerance=tolerance,
                finite_size=finite_size,
                stored=stored,
                twin=twin,
                **drawn,
            )
            for name in theory
        ]
        return stack(compared_with_each, theory, "theory")
    one: Any = theory  # what is no name is refused
    request = Request(
        scenario,
        grid,
        fields,
        what=what,
        dim=dim,
        theory=one,
        tolerance=tolerance,
        seed=seed,
    )
    if stored is not None:
        trials = int(getattr(stored, "attrs", {}).get("trials", trials))
    experiment = ExperimentSettings(
        trials=trials, seed=seed, device=device, paired=paired
    )
    if stored is not None:
        check_stored(stored, request, experiment)
    plan: TrialPlan | None = None
    if stored is None or twin:
        plan = TrialPlan(request, experiment, compared=True)
        settings = plan.settings
    else:
        settings = request.prepare(device=device, trials=trials)
    # theory before experiment: what it refuses is said before hours of trials
    layers, unsolved = _theory_layers(
        request, settings, progress, finite_size=finite_size
    )
    unsolved.refuse(strict)
    unmeasured = Problems("experiment", request.grid.size)
    if stored is None:
        assert plan is not None
        stored, unmeasured = plan.run(progress, watch)
    unmeasured.refuse(strict)
    compared_with = list(layers)[-1]
    theory_name = str(layers[compared_with].attrs.get("theory", ""))
    on_twins: xarray.Dataset | None = None
    unmeasured_twins = unmeasured
    if plan is not None and twin:
        plan_of_twins = plan.of_twins(theory_name)
        if plan_of_twins is not None:
            on_twins, unmeasured_twins = plan_of_twins.run(progress)
    warn(unsolved, unmeasured, unmeasured_twins)
    settings_shown = {
        **request.shown(),
        "tolerance": request.tolerance,
        **experiment.shown(),
        "finite_size": finite_size,
    }
    attrs = provenance(request.grid, request.what, "comparison", settings_shown, {})
    facts = {
        "finite_size": int(finite_size),
        "compared_with": compared_with,
        **layers[compared_with].attrs,
        **stored.attrs,
        **_about_dimension(request.grid, theory_name, has_twin=on_twins is not None),
    }
    both = combine({**layers, "experiment": stored}, request.question, on_twins)
    # those of the comparison come first in order, and win
    return both.assign_attrs({**attrs, **facts, **attrs})


def _about_dimension(grid: Grid, theory: str, *, has_twin: bool) -> dict[str, Any]:
    """Return that the dimension is fixed, where it is, and why a table has no Gaussian
    twin beside it.
    """
    scenarios = [batch.scenario for batch in grid.batches()]
    if any(scenario.own_dim() is None for scenario in scenarios):
        return {}
    facts: dict[str, Any] = {"fixed_dim": 1}
    first = next(iter(scenarios[0].theories))
    if has_twin or scenarios[0].gaussian_twin(first) is None:
        return facts
    if scenarios[0].gaussian_twin(theory) is None:
        why = (
            f'The theory "{theory}" reads the rows themselves; with theory="{first}"'
            " the Gaussian twin splits the gap."
        )
    else:
        why = (
            "gs.compare(..., twin=True) runs the Gaussian twin of the table, which"
            " splits the gap."
        )
    return {**facts, "without_twin": why}


def _theory_layers(
    request: Request,
    settings: Mapping[str, Any],
    progress: ProgressOption,
    *,
    finite_size: bool,
) -> tuple[dict[str, xarray.Dataset], Problems]:
    """Return the limit under its name; where it carries a finite-size correction, the
    bare one beside it.
    """
    theory, problems = solve_limit(request, settings, progress, bare=not finite_size)
    if not theory.attrs.get("finite_size") or request.grid.dim_is_field:
        return {"limit": theory}, problems
    try:
        # nobody asked for the bare limit: what it lacks stands in its status, and is no
        # reason to warn or to refuse
        bare, _ = solve_limit(request, settings, progress, bare=True)
    except InputError:
        # a theory that exists at a finite dimension only
        return {"theory": theory}, problems
    if _same_numbers(theory, bare):
        return {"limit": theory}, problems
    return {"limit": bare, "theory": theory}, problems


def _same_numbers(theory: xarray.Dataset, bare: xarray.Dataset) -> bool:
    """Tell whether the correction at a finite size changes no variable."""
    for name in theory.data_vars:
        if name in DIAGNOSTICS or name not in bare or theory[name].dtype.kind != "f":
            continue
        corrected = theory[name].values
        plain = bare[name].values
        if corrected.shape != plain.shape:
            return False
        if not np.allclose(corrected, plain, rtol=1e-9, atol=1e-12, equal_nan=True):
            return False
    return True
