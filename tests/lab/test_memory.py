import pytest

from giantstep.core.base.errors import InputError
from giantstep.core.lab import available_memory, check_memory, devices


def test_what_fits_passes_and_what_does_not_is_refused_with_both_numbers():
    assert available_memory() > 2**20
    check_memory(2**20)
    with pytest.raises(
        InputError,
        match=r"needs 1\.05e\+06 GiB of memory, but device 'cpu' has .* GiB free",
    ):
        check_memory(2**50)


def test_limits_of_control_groups_count(tmp_path, monkeypatch):
    monkeypatch.setattr(devices, "_CGROUP", tmp_path)
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("50\n")
    (tmp_path / "memory.stat").write_text("anon 30\ninactive_file 10\n")
    assert available_memory() > 2**20
    (tmp_path / "memory.max").write_text("100\n")
    assert available_memory() == 60


def test_systems_without_proc_are_asked_for_their_pages(tmp_path, monkeypatch):
    monkeypatch.setattr(devices, "_MEMINFO", tmp_path / "none")
    assert available_memory() > 2**20
