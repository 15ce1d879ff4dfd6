"""Sweeps: large grids that survive interruptions, in one process, in many, or on a
cluster, with a store of results.

`store` names results by content and keeps them (SQLite), `backends` and `clusters` run
tasks somewhere. `verb` brings these together, and `inspect` looks into a store.

`sweep` is `simulate` and `predict` with a store: the same request and the same draws,
between them a store that knows results by content. What is stored is taken, the rest
goes to a backend (the option is called `engine`), and every answer is stored before it
is reported. All that happens inside a task is its answer, errors too; a backend only
has to survive the loss of workers. There are three: this process, worker processes, and
Dask with its SLURM jobs, which moves lost work by itself.

Worker processes (`workers`) have a pipe of their own each, so that a death names its
task and the others go on. The pools of `concurrent.futures` and loky end with every
worker that dies, and lose the work of the others.

Only the sweeping process writes, one transaction for each answer (for those of 0.1 s of
work of its own); every row has a checksum. Several sweeps may fill one store: each
takes its tasks in random order and looks into the store before each. A result is named
by its content, so that writing it twice is harmless.
"""
