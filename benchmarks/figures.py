"""Every published figure at full size, in pieces; writes docs/reproduction.md with
small pictures of them.

    python benchmarks/figures.py [--plan] [--budget MINUTES] [--cores N] [--device cuda]
    [--only NAMES] [--report]

A piece is a figure, or one study of a long one that fills the figure's store before. A
figure whose full size takes longer than a night on two cores
(`papers/data/full_times.json`) is rebuilt at its quick size, which the page says.
Records go to docs/data/figures.json, pictures to docs/figures/reproduced.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "agg")

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

from figures_report import report
from giantstep.papers import FULL_TIMES, list_figures, recipes
from giantstep.papers.recipe import Recipe, Size
from giantstep.papers.runner import rebuild
from pieces import (
    ROOT,
    STATE,
    Piece,
    Record,
    Records,
    add_options,
    digest,
    study_content,
    work_through,
)

DATA = ROOT / "docs" / "data" / "figures.json"
PAGE = ROOT / "docs" / "reproduction.md"
PICTURES = ROOT / "docs" / "figures" / "reproduced"
NIGHT = 8 * 3600
MOST_BYTES = 30_000
ON_GPU = (
    *(
        "learned-features",
        "vocabulary-size",
        "large-batch",
        "learning-curves",
        "step-size",
        "small-step",
        "stairs",
    ),
    *(
        "crossover",
        "weights-spike",
        "giant-orientation",
        "giant-staircase",
        "giant-specialisation",
        "giant-stairway",
    ),
    *(
        "giant-one-step",
        "subspace-overlaps",
        "subspace-trajectory",
        "error-staircase",
        "next-step",
        "step-losses",
    ),
    *(
        "vocabulary-or-steps",
        "input-targets",
        "input-spectra",
        "finite-batch-logistic",
        "repetition-batches",
    ),
)
"""Figures whose networks gain from a GPU where there is one."""
IN_PARTS = (
    "sgd-recovery",
    "sgd-trajectories",
    "sgd-three-directions",
    "repetition-",
    "subspace-rivals",
)
"""Beginnings of the names of figures whose long experiments run study by study, trials
side by side.
"""
LONG_STEPS = 200_000
MOST_WORKERS = 5


def store_of(name: str, size: Size) -> Path:
    """Return the store of a figure."""
    path = (
        STATE
        / "stores"
        / f"{name}-{'quick' if size.quick else 'full'}-{size.device}.db"
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def answer_study(name: str, study: str, size: Size, workers: int) -> Record:
    """Put the experiment of one study of a figure into its store."""
    asked = recipes()[name].studies(size)[study]
    engine: dict[str, Any]
    if workers > 1:
        engine = {"engine": "processes", "workers": workers, "threads": 1}
    else:
        engine = {"engine": "local"}
    asked.study.sweep(
        store=store_of(name, size), device=size.device, progress=False, **engine
    )
    return {"ok": True}


def rebuild_figure(name: str, size: Size) -> Record:
    """Rebuild a figure from its store and what that lacks; keep the report and a small
    picture.
    """
    out = STATE / "figures" / ("quick" if size.quick else "full")
    made = rebuild(
        recipes()[name], out, size, progress=False, store=store_of(name, size)
    )
    picture = next(path for path in made.files if path.suffix == ".png")
    shrink(
        picture, STATE / "pictures" / f"{name}-{'quick' if size.quick else 'full'}.png"
    )
    return {**made.to_dict(), "ok": made.agrees, "said": made.verdict().verdict}


def shrink(picture: Path, small: Path) -> None:
    """Write a small PNG of a picture, of at most `MOST_BYTES`."""
    from PIL import Image

    small.parent.mkdir(parents=True, exist_ok=True)
    image = Image.open(picture).convert("RGB")
    for width, colours in (
        (900, 64),
        (800, 64),
        (700, 48),
        (600, 48),
        (500, 32),
        (400, 32),
    ):
        if image.width > width:
            scaled = image.resize(
                (width, round(image.height * width / image.width)),
                Image.Resampling.LANCZOS,
            )
        else:
            scaled = image
        # the widest cover keeps thin lines of different colours apart, which the most
        # frequent colours would merge
        scaled.quantize(
            colours, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE
        ).save(small, optimize=True)
        if small.stat().st_size < MOST_BYTES:
            return


def figure_digest(recipe: Recipe, size: Size) -> str:
    """Return the hash of all studies of a figure that need no results, and of what
    their gaps are relative to.
    """
    asked = recipe.studies(size)
    content = {
        name: [
            study.verb,
            study_content(study.study),
            *([study.scale] if study.scale else []),
        ]
        for name, study in asked.items()
    }
    return digest(content, recipe.then is not None)


def figure_pieces(recipe: Recipe, size: Size) -> list[Piece]:
    """Return the piece of a figure, after those of its long experiments."""
    own = f"{recipe.name}-{'quick' if size.quick else 'full'}"
    group = "figures"
    content = figure_digest(recipe, size)
    parts = []
    for name, asked in (
        recipe.studies(size).items()
        if recipe.name.startswith(IN_PARTS) and not size.quick
        else ()
    ):
        fields = asked.study.scenario.content()
        long = (
            fields.get("steps", LONG_STEPS) >= LONG_STEPS
            or recipe.name == "repetition-multi"
        )
        if asked.verb != "predict" and long:
            workers = min(MOST_WORKERS, asked.study.experiment.get("trials", 1))
            arguments = (recipe.name, name, size, workers)
            parts.append(
                Piece(
                    f"{own}/{name}",
                    (content,),
                    answer_study,
                    arguments,
                    workers,
                    kept=False,
                    group=group,
                )
            )
    after = tuple(part.name for part in parts)
    whole = Piece(
        own,
        (content,),
        rebuild_figure,
        (recipe.name, size),
        after=after,
        device=size.device,
        group=group,
    )
    return [*parts, whole]


def pieces(device: str, quick: bool = False, most: float = 2 * NIGHT) -> list[Piece]:
    """Return the pieces of all figures; a full size of more than `most` seconds of a
    core is quick.
    """
    found = []
    for recipe in list_figures():
        small = quick or (recipe.seconds_full or 0.0) > most
        found += figure_pieces(
            recipe,
            Size(small, device if recipe.name in ON_GPU and not small else "cpu"),
        )
    return found


def kept_pieces(records: Records) -> list[Piece]:
    """Return the piece of every figure that has a record: of its full size, else of the
    quick one.
    """
    chosen = []
    for recipe in list_figures():
        both = [figure_pieces(recipe, Size(quick))[-1] for quick in (False, True)]
        done = [
            piece
            for piece in both
            if "error" not in (records.get(piece) or {"error": ""})
        ]
        chosen += done[:1]
    return chosen


def add_parts(kept: dict[str, Record]) -> None:
    """Add to its record what the pieces before a figure took; None where this checkout
    has not run all of them.
    """
    known = recipes()
    for record in kept.values():
        parts = figure_pieces(
            known[record["figure"]], Size(record["quick"], record["device"])
        )[:-1]
        done = [own for part in parts if (own := part.record()) and part.done(own)]
        if record.get("parts_core_seconds") is None:
            whole = len(done) == len(parts)
            if whole:
                record["parts_core_seconds"] = round(
                    sum(own["core_seconds"] for own in done), 1
                )
            else:
                record["parts_core_seconds"] = None


def write_times(kept: dict[str, Record]) -> None:
    """Write what full sizes took beside the recipes; those that were not run again keep
    their times.
    """
    times = json.loads(FULL_TIMES.read_text())
    for record in kept.values():
        if not record["quick"] and record["parts_core_seconds"] is not None:
            how = record.get("how", f"measured, {record['machine']}")
            seconds = record["core_seconds"] + record["parts_core_seconds"]
            times[record["figure"]] = {"seconds": round(seconds, 1), "how": how}
    FULL_TIMES.write_text(json.dumps(dict(sorted(times.items())), indent=1) + "\n")


def collect_pictures(names: list[str]) -> None:
    """Copy the small pictures of this checkout beside the documentation."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    for name in names:
        small = STATE / "pictures" / f"{name}.png"
        if small.exists():
            shutil.copyfile(small, PICTURES / f"{name.rpartition('-')[0]}.png")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_options(parser)
    parser.add_argument(
        "--quick", action="store_true", help="the quick size of every figure"
    )
    options = parser.parse_args()
    records = Records(DATA)
    if options.report:
        failed = []
    else:
        failed = work_through(pieces(options.device, options.quick), records, options)
    if options.plan:
        return 0
    kept = records.keep(kept_pieces(records), add_parts)
    collect_pictures(list(kept))
    write_times(kept)
    PAGE.write_text(report(kept))
    print(f"{PAGE.relative_to(ROOT)} is written.")
    print(
        f"Failed, disagree or not finished: {', '.join(failed)}."
        if failed
        else "Nothing disagrees or failed."
    )
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
