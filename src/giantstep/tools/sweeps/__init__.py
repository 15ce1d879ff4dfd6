"""Sweeps: large grids that survive interruptions, in one process, in many, or on a
cluster, with a store of results.

`store` names results by content and keeps them (SQLite), `backends` and `clusters` run
tasks somewhere. `verb` brings these together, and `inspect` looks into a store.
"""
