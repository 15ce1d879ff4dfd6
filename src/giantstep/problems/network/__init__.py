"""A two-layer network: data, a first layer, any list of steps, a read-out. `OneStep`,
`FewSteps` are presets.
"""
