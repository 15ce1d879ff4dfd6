"""Sweeps: large grids that survive interruptions, in one process, in many, or on a cluster, with a store of results.

`store` keeps results (SQLite), `keys` names them by content, `tasks` computes them; `backends`, `processes`
and `clusters` run tasks somewhere. `runner` brings these together for `answers`, `export` and `inspect` look into a
store.
"""
