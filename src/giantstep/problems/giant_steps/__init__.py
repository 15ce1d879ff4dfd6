"""Giant steps: a few gradient steps, each on a large fresh batch, of a two-layer
network on a multi-index target.

The map needs one average over the space that neurons share, with one-neuron averages at
its nodes, whatever the width: given the shared coordinates the neurons are independent.
"""
