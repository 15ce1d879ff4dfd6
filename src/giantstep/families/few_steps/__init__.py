"""Several giant steps on several directions, then a read-out."""
