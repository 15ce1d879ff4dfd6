"""The command `script`: a study's experiment as a program on stdout."""

import giantstep as gs


def test_it_prints_the_program(run):
    scenario = gs.Study.read("S.toml").scenario
    assert run("script", "S.toml").stdout == gs.script(scenario, dim=24, trials=3)
    changed = run(
        "script", "S.toml", "--set", "ridge=0.5", "--dim", "30", "--lang", "torch"
    ).stdout
    assert changed == gs.script(
        scenario.replace(ridge=0.5), dim=30, trials=3, lang="torch"
    )


def test_what_varies_or_asks_otherwise_is_refused(run, refused):
    scenario = gs.Study.read("S.toml").scenario
    gs.Study(scenario, grid={"ridge": [0.1, 1.0]}).write("grid.toml")
    said = refused("script", "grid.toml")
    assert (
        "Field `ridge` varies in the study, but a script has one value: --set"
        " ridge=VALUE." in said
    )
    assert run("script", "grid.toml", "--set", "ridge=0.1").exit_code == 0
    gs.Study(scenario, what="spectrum").write("other.toml")
    assert 'Field `what` must be "errors" (or left out)' in refused(
        "script", "other.toml"
    )
