"""The limit's answers to the questions that the read-out of features answers."""
