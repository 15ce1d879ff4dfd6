"""The commands ``store ls|show|export|gc|verify``: look into a store of results."""

from __future__ import annotations

import json as json_module
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from giantstep.cli.outputs import print_json
from giantstep.errors import InputError

if TYPE_CHECKING:
    from giantstep.sweeps.inspect import Entry

app = typer.Typer(name="store", help="Look into a store that `giantstep sweep` wrote.", rich_markup_mode=None)

Database = Annotated[Path, typer.Argument(metavar="DB", help="The store.")]
Json = Annotated[bool, typer.Option("--json", help="Print strict JSON.")]
_OUT = typer.Option(metavar="FILE", help="Write to this file.")


@app.command("ls")
def ls(store: Database, json: Json = False) -> None:
    """List what was asked, with the points, results and failures of each."""
    from giantstep.sweeps.inspect import overview

    asked = overview(store)
    if json:
        print_json(asked)
        return
    for line in asked:
        print(
            f"{line['family']}: {line['what']}, {line['source']}{_settings(line['settings'])}; "
            f"{line['points']} points, {line['results']} results, {line['failed']} failed, {line['seconds']:.3g} s, "
            f"{line['bytes'] / 2**20:.3g} MiB"
        )
    if not asked:
        print("The store is empty.")


@app.command("show")
def show(
    store: Database,
    key: Annotated[str, typer.Argument(metavar="[KEY]", help="Points whose key begins so; all if left out.")] = "",
    failures: Annotated[bool, typer.Option("--failures", help="Failures only.")] = False,
    json: Json = False,
) -> None:
    """Show points with their scenario, their trials, and why some failed."""
    from giantstep.sweeps.inspect import entries

    shown = [entry for entry in entries(store, key) if not failures or entry.failures]
    if key and not shown:
        raise InputError(f"No point in {str(store)!r} has a key that begins with {key!r}.")
    if json:
        print_json([_plain(entry) for entry in shown])
    else:
        print("\n".join(_text(entry, bool(key)) for entry in shown) or "Nothing to show.")


@app.command("export")
def export(store: Database, out: Annotated[Path, _OUT]) -> None:
    """Write a table with one row per point: .csv or .parquet."""
    from giantstep.sweeps.export import export as write_table

    rows = write_table(store, out)
    print(f"wrote {out} with {rows} rows", file=sys.stderr)


@app.command("gc")
def gc(store: Database, json: Json = False) -> None:
    """Take out damaged results and those of formulas that have changed, and free their space."""
    from giantstep.sweeps.inspect import collect_garbage

    removed = collect_garbage(store)
    counts = f"{removed['damaged']} damaged and {removed['outdated']} outdated results"
    print_json(removed) if json else print(f"{counts} taken out, {removed['bytes']} bytes freed")


@app.command("verify")
def verify(store: Database, json: Json = False) -> None:
    """Read everything and check it. Status 1: damaged."""
    from giantstep.sweeps.inspect import verify as check_store

    health = check_store(store)
    if json:
        print_json({**vars(health), "sound": health.sound})
    else:
        print(f"{health.points} points, {health.results} results, {health.failures} of them failures")
        if health.problem:
            print(f"the file is damaged: {health.problem}")
        for key, trial in health.damaged:
            print(f"damaged: {key[:16]} trial {trial}")
        if health.sound:
            print("everything is sound")
    if not health.sound:
        raise typer.Exit(1)


def _settings(settings: dict[str, Any]) -> str:
    shown = {n: f"{len(v)} values" if isinstance(v, list) and len(v) > 4 else v for n, v in settings.items()}
    text = ", ".join(f"{name}={value}" for name, value in shown.items() if value is not None)
    return f" ({text})" if text else ""


def _text(entry: Entry, in_full: bool) -> str:
    dim = "" if entry.point.dim == float("inf") else f", dim {entry.point.dim:g}"
    head = f"{entry.point.digest[:16]}  {entry.ask.family}: {entry.ask.what}, {entry.ask.source}{dim}"
    done = f"  {len(entry.rows) - len(entry.failures)} of {len(entry.rows)} trials gave numbers"
    lines = [head, f"  scenario {entry.point.scenario}", done]
    for row in entry.failures:
        lines.append(f"  trial {row.trial} failed: {row.reason.removeprefix(f'trial {row.trial}: ')}")
        if in_full and row.detail:
            lines += [f"    {line}" for line in row.detail.splitlines()]
    lines += [f"  trial {trial} is damaged" for trial in entry.damaged]
    return "\n".join(lines)


def _plain(entry: Entry) -> dict[str, Any]:
    from giantstep.jsondata import LONGEST, json_data

    return {
        "key": entry.point.digest,
        "family": entry.ask.family,
        "what": entry.ask.what,
        "source": entry.ask.source,
        "settings": entry.ask.settings,
        "scenario": json_module.loads(entry.point.scenario),
        "dim": entry.point.dim,
        "results": [
            {
                "trial": row.trial,
                "reason": row.reason,
                "detail": row.detail,
                "seconds": row.seconds,
                "values": json_data({name: array.tolist() for name, array in row.values.items()}, LONGEST),
            }
            for row in entry.rows
        ],
        "damaged": entry.damaged,
    }
