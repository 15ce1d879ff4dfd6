"""Full-batch gradient descent on the same samples: discrete-time mean-field theory and
its experiment.
"""
