"""The study ``giantstep new`` prints: every field with its symbol, meaning and bounds; it reads back."""

from __future__ import annotations

from giantstep.describe import describe
from giantstep.jsondata import with_infinity
from giantstep.toml import write_toml

_TAIL = """\
# Fields that vary: a range or a list; several make the outer product.
[grid]
# {field} = {{ start = {start}, stop = {stop}, num = 20 }}  # scale = "log" for equal ratios

# Settings of the limit.
[limit]
# theory = "{theory}"  # {theories}
# dim = 1000  # adds the leading finite-size correction, where it is known
# tolerance = 1e-10  # relative residual the equations are solved to

# Settings of the experiment.
[experiment]
dim = 200  # d: dimension of the data
trials = 5  # independent repetitions
seed = 0  # any whole number from 0 on
# device = "cpu"  # or "cuda"
# paired = false  # true gives all points the same draws
# keep_trials = false  # true keeps every trial, not just the mean
"""


def template(family: str) -> str:
    """Return a commented study of a family: its example; other parts and their fields are in its description."""
    about = describe(family)
    example = with_infinity(about["example"])
    rule = f"{about['title']}\n\n{about['update_rule']}\n\n`giantstep describe {family}` says all that fields may hold."
    questions = [f'what = "{name}"  # {question["meaning"]}' for name, question in about["questions"].items()]
    said = {field["name"]: f"{field['symbol']}: {field['meaning']}; {field['allowed']}" for field in about["fields"]}
    absent = [f"# {name} is left out here; {text}" for name, text in said.items() if example.get(name) is None]
    scenario = write_toml({"scenario": example}, {f"scenario.{name}": text for name, text in said.items()})
    numbers = [name for name in said if isinstance(example.get(name), float | int)]
    field = next(name for name in [*about["shared_fields"], *numbers] if name in numbers)
    value = float(example[field]) or 1.0
    theory, *more = about["theories"]
    theories = "; ".join([about["theories"][theory], *(f'or "{name}": {about["theories"][name]}' for name in more)])
    tail = _TAIL.format(field=field, start=value / 4, stop=value * 2, theory=theory, theories=theories)
    head = "\n".join(f"# {line}".rstrip() for line in rule.splitlines())
    return "\n\n".join([head, "\n# ".join(questions), scenario + "\n".join(absent), tail])
