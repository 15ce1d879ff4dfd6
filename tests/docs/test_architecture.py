"""The page of the architecture is short and true: files exist, floors are those of the
contracts.
"""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
TEN_MINUTES = 1700
"""Words that a reader takes in within ten minutes, between code that they look at."""


def test_it_is_read_in_ten_minutes():
    assert len(PAGE.split()) < TEN_MINUTES


def test_every_file_and_folder_that_it_names_exists():
    named = set(re.findall(r"`(\w+/[\w/]+(?:\.pyi?)?)`", PAGE))
    assert len(named) > 30
    missing = sorted(
        name
        for name in named
        if not (ROOT / "src/giantstep" / name).exists() and not (ROOT / name).exists()
    )
    assert not missing


def test_its_floors_and_rooms_stand_in_the_order_of_the_contracts():
    picture = PAGE[PAGE.index("    faces/") : PAGE.index("- **The core knows")]
    floors = [layer.rpartition(".")[2] for layer in CONTRACTS["contracts"][0]["layers"]]
    rooms = CONTRACTS["contracts"][1]["layers"]
    places = [picture.index(f"{floor}/") for floor in floors]
    assert places == sorted(places)
    core = picture[picture.index("core/") :]
    places = [re.search(rf"\b{room} {{2,}}", core).start() for room in rooms]
    assert places == sorted(places)
