"""One-pass SGD of a two-layer network: batches, losses, repetition of samples; one
update rule with a per-sample F.
"""
