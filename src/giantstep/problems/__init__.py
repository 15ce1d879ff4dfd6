"""One folder for each problem; copy ``_skeleton`` to begin one.

- `scenario.py`: a subclass of `Scenario` with its fields, and the class attributes
  `family`, `title`, `update_rule`, `questions` (each with its table of variables and
  its settings), `theories`, `papers`, `formula_version`, `shared_fields`.
- `limit.py`: ``limit(scenario, points, what, settings) -> Answer``. ``points`` holds an
  array (B,) for every numeric field, varying or not, and ``points["dim"]``, infinite
  for the bare limit. An answer that depends on a finite one says how in
  ``attrs["finite_size"]`` and names what it approximates in ``approximations``. Point
  by point it may say in ``jumps`` near which value 0 of a field the bare limit jumps,
  and in ``neglected`` what a finite dimension leaves out. Optional: ``prepare``, called
  once so that both engines share what was left open (the x of a spectrum), and
  ``refuse_missing``, which says what has no theory before anything is computed.
- `experiment.py`: ``trial(scenario, points, what, dim, draws, settings)``: one draw
  answers all points that differ only in the shared fields. Optional: ``memory``, the
  bytes it needs, checked before anything is allocated; ``networks`` and
  ``kept_memory``, what ``keep_networks=True`` adds.
- optional, `script.py`: ``program(scenario, dim, lang)``, one trial as the text of a
  program without giantstep.
- optional, `tolerances.py`: where the problem draws its lines, what is zero, solved or
  diverged; every number with its unit and its reason.

Problems never import each other. What several of them share is in ``inputs`` (laws of
the inputs) and ``learnability`` (exponents); ``bounds`` holds results of any problem
against the best possible error.

A class that derives from one of ours and gives itself no name (`family`, `kind`) is
another thing: the experiment is inherited, its limit is not, unless the class has the
methods that make it in its own body. `giantstep.core.scenario.own_classes` has the
rule.
"""
