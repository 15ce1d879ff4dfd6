"""Each theory once, as a plain file."""
