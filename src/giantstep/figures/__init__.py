"""Figures: `giantstep.plot` for any result, and the recipes of published figures."""
