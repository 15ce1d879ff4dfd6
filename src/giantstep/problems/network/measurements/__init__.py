"""What an experiment measures of a real network, a module for each kind of question."""
