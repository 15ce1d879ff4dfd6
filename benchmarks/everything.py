"""`make verify` and `make figures` in one go, for a machine that is lent for minutes:
one list, the longest first.

    python benchmarks/everything.py --cores 16 --device cuda --budget 16 [--only NAMES]
    [--plan]

Figures that take long also run at their quick size, so that there is one to show where
the full one does not end. Nothing is written beside out/pieces; `verify.py --report`
and `figures.py --report` make the pages of it.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "agg")

import argparse

import figures
import verify
import verify_ladders
from giantstep.papers import recipes
from giantstep.papers.recipe import Size
from pieces import Piece, Records, add_options, work_through

FIRST = ("sgd-three-directions", "repetition-single")
"""Figures with single trials of many minutes."""
GUESS = 200
"""Seconds where nobody has measured them."""


def in_order(device: str, longest: float, tests: bool) -> list[Piece]:
    """Return all pieces: what cannot be split, work of the GPU, studies, figures by
    their times, the long figures.
    """
    known = recipes()
    full = figures.pieces(device, most=longest)
    parts = [piece for piece in full if not piece.kept]
    whole = [piece for piece in full if piece.kept]
    long = list(dict.fromkeys(piece.name.partition("-full/")[0] for piece in parts))
    spare = [figures.figure_pieces(known[name], Size(quick=True))[-1] for name in long]

    def seconds(piece: Piece) -> float:
        own = known[piece.arguments[0]].paper.startswith("giantstep")
        return (known[piece.arguments[0]].seconds_full or GUESS) - 10_000 * own

    def of_long(piece: Piece) -> bool:
        return piece.arguments[0] in long

    short = sorted(
        (piece for piece in whole if not of_long(piece)), key=seconds, reverse=True
    )
    return [
        *verify_ladders.pieces(device),
        *(piece for piece in parts if piece.arguments[0] in FIRST),
        *(piece for piece in short if piece.device == "cuda"),
        *verify.study_pieces(),
        *(piece for piece in short if piece.device == "cpu"),
        *spare,
        *(piece for piece in parts if piece.arguments[0] not in FIRST),
        *(piece for piece in whole if of_long(piece)),
        *(verify.test_pieces() if tests else ()),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_options(parser)
    parser.add_argument(
        "--with-tests",
        action="store_true",
        help="the slow tests that can be collected here, too",
    )
    parser.add_argument(
        "--longest",
        type=float,
        default=6000,
        help="seconds of a core that a figure may take in full",
    )
    options = parser.parse_args()
    failed = work_through(
        in_order(options.device, options.longest, options.with_tests),
        Records(verify.DATA),
        options,
    )
    print("Failed or not finished:", *failed, sep="\n  ")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
