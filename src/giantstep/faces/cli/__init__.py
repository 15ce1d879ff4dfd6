"""The command line: one command per verb; ``giantstep --help`` lists them."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line.

    Exit status: 0 fine, 1 not converged or not in agreement, 2 bad input, 130
    interrupted.
    """
    try:
        from giantstep.faces.cli.app import app

        app(prog_name="giantstep")
    except KeyboardInterrupt:
        sys.exit(130)
