"""What an experiment measures of a real network, one module for each kind of question."""
