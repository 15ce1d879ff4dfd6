"""A two-layer network: data, a first layer, any list of steps, a read-out. `OneStep`,
`FewSteps` are presets.

What happens to a first layer is a list of steps, and the state between two steps is one
`Layer`. A step knows nothing of read-outs or of its neighbours, and no answer asks for
the kind of a step. A step says itself which theory it lacks in its place (`missing`)
and what it approximates (`remarks`); the table of what composes (`composition`) asks
the steps, so that nothing is declared twice. The limit refuses for a missing theory
only, and the experiment never does.

One set of finite-size terms serves every way to say a network: two ways to say one
network have one answer. A preset translates its fields and points into those of the
network, asks the network, and keeps what it shows; no engine knows that presets exist.
"""
