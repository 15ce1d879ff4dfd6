"""Files a command writes: checked before anything is computed, and all moved to their names together at the end."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import giantstep as gs
from giantstep.cli.options import Output
from giantstep.errors import InputError, check_ending

if TYPE_CHECKING:
    import xarray

RESULTS = (".csv", ".nc", ".json", ".tex")
PLOTS = (".png", ".pdf", ".svg", ".pgf")


def print_json(data: Any) -> None:
    """Print data as strict JSON on one line."""
    from giantstep.jsondata import json_data

    print(json.dumps(json_data(data), allow_nan=False))


def check_outputs(output: Output) -> None:
    """Refuse what could not be written: unknown suffixes, missing or closed folders, one name twice."""
    out, plot = output.out or [], output.plot or []
    for option, paths, suffixes in (("--out", out, RESULTS), ("--plot", plot, PLOTS)):
        for path in paths:
            check_ending(path, suffixes, f"{option} writes {{}}")
            check_folder(path.parent)
            if path.is_dir():
                raise InputError(f"{str(path)!r} is a folder, not a file.")
            if path.exists() and not os.access(path, os.W_OK):
                raise InputError(f"{str(path)!r} cannot be written to.")
    if any(path.suffix.lower() == ".pgf" for path in plot):
        from giantstep.figures.plot import checked_path  # it asks for a TeX system

        checked_path("any.pgf")
    if output.paper not in (None, "column", "page"):
        raise InputError(f"--paper must be column or page, but is {output.paper!r}.")
    if output.paper is not None and not plot:
        raise InputError("--paper is for --plot, which is missing.")
    if len({path.absolute() for path in [*out, *plot]}) < len(out) + len(plot):
        raise InputError("One file is named twice as an output.")


def check_folder(folder: Path) -> None:
    """Refuse a folder that is not there or cannot be written to."""
    if not folder.is_dir():
        raise InputError(f"There is no folder {str(folder)!r} to write into.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"The folder {str(folder)!r} cannot be written to.")


def check_new_folder(folder: Path) -> None:
    """Refuse a folder that is not there and could not be made."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{str(folder)!r} is a file, not a folder.")
    check_folder(next(parent for parent in [folder, *folder.absolute().parents] if parent.exists()))


def write_outputs(result: xarray.Dataset, output: Output) -> list[Path]:
    """Write a result to all its files and return them; where one fails, none is left behind or changed."""
    from giantstep.files import atomic_write

    out, plot = output.out or [], output.plot or []
    try:
        with ExitStack() as stack:
            for path in out:
                gs.save(result, stack.enter_context(atomic_write(path)))
            for path in plot:
                look: dict[str, Any] = {} if output.paper is None else {"style": "paper", "width": output.paper}
                gs.plot(result, path=stack.enter_context(atomic_write(path)), **look)
    except OSError as error:
        raise InputError(f"The output cannot be written: {(error.strerror or str(error)).lower()}.") from None
    return [*out, *plot]
