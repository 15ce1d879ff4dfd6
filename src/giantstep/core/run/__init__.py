"""The verbs `predict`, `simulate`, `compare` and studies: both engines over a grid."""
