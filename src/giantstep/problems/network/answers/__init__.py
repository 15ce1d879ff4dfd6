"""The limit's answers, a module for each kind of question, all of them over `time`."""
