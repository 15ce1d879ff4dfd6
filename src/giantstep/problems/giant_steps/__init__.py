"""Giant steps: a few gradient steps, each on a large fresh batch, of a two-layer
network on a multi-index target.
"""
