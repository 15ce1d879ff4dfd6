"""Sweeps: large grids that survive interruptions, in one process, in many, or on a cluster, with a store of results.

`store` keeps results (SQLite), `keys` names them by content, `tasks` computes them; `backends` and `clusters` run
tasks somewhere. `runner` brings these together for `verb`, and `inspect` looks into a store.
"""
