"""Errors, types, deadlines, files, text, progress: what knows nothing of the rest."""
