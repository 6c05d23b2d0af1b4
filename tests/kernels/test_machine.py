"""Properties of the CPU at hand: caches, cores and microarchitecture, from folders as Linux has them."""

import itertools
import os

import pytest

from minitorch_backends.kernels.runtime import cpu, machine

LINUX = machine.CPUS.is_dir()


def describe(folder, siblings, caches):
    """Write a folder of CPUs: the logical CPUs of each one's core, and (level, type, size, sharing) of its caches."""
    for number, together in enumerate(siblings):
        topology = folder / f"cpu{number}/topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text(f"{together}\n")
    for index, (level, kind, size, sharing) in enumerate(caches):
        place = folder / f"cpu0/cache/index{index}"
        place.mkdir(parents=True)
        texts = {"level": level, "type": kind, "size": size, "shared_cpu_list": sharing, "ways_of_associativity": "8"}
        for name, text in texts.items():
            (place / name).write_text(f"{text}\n")
    return folder


HYPERTHREADS = ["0,4", "1,5", "2,6", "3,7"] * 2
CACHES = [
    ("1", "Data", "48K", "0,4"), ("1", "Instruction", "32K", "0,4"),
    ("2", "Unified", "2048K", "0-1,4-5"), ("3", "Unified", "32M", "0-7"),
]  # fmt: skip


def test_caches_have_their_sizes_and_how_many_cores_share_them(tmp_path):
    found = machine.read_caches(0, describe(tmp_path, HYPERTHREADS, CACHES))
    assert found == (
        machine.Cache(48 << 10, 1, 8), machine.Cache(2 << 20, 2, 8), machine.Cache(32 << 20, 4, 8), True,
    )  # fmt: skip
    assert found.l2.share == 1 << 20
    assert str(found) == "L1 48 KiB a core, L2 2 MiB shared by 2 cores, L3 32 MiB shared by 4 cores"


def test_hyperthreads_of_a_core_count_once(tmp_path):
    folder = describe(tmp_path, HYPERTHREADS, [])
    assert machine.count_cores(list(range(8)), folder) == 4
    assert machine.count_cores([4, 5], folder) == 2
    assert machine.count_cores([1, 5], folder) == 1
    assert machine.count_cores([0, 1], tmp_path / "nothing") == 2


def test_a_missing_level_has_no_bytes_and_damaged_files_are_passed_over(tmp_path):
    folder = describe(tmp_path, ["0"], [*CACHES[:3], ("x", "Unified", "?", "")])
    found = machine.read_caches(0, folder)
    assert found.known
    assert str(found.l3) == "none"


def test_what_the_system_does_not_say_is_assumed_and_said_so(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "_by_c_library", dict)
    found = machine.read_caches(0, tmp_path)
    assert (found.l1.size, found.l2.size, found.known) == (32 << 10, 1 << 20, False)
    assert str(found).endswith("(assumed: the system does not say)")


@pytest.mark.skipif(not LINUX, reason="the system has no description of its CPUs in files")
def test_this_machine_agrees_with_the_c_library():
    assert 1 <= machine.cores() <= len(machine.granted_cpus()) <= (os.cpu_count() or 1)
    said = machine._by_c_library()
    for level, cache in enumerate(machine.caches()[:2], 1):
        assert said.get(level, cache).size == cache.size


@pytest.mark.parametrize(
    ("vendor", "family", "model", "name"),
    [
        ("AuthenticAMD", "25", "33", "zen3"),
        ("AuthenticAMD", "25", "17", "zen4"),
        ("AuthenticAMD", "26", "2", "zen5"),
        ("AuthenticAMD", "26", "80", ""),
        ("GenuineIntel", "6", "143", "sapphire_rapids"),
        ("GenuineIntel", "6", "999", ""),
        ("", "", "", ""),
    ],
)
def test_microarchitectures_by_family_and_model(monkeypatch, vendor, family, model, name):
    described = {"vendor_id": vendor, "cpu family": family, "model": model}
    monkeypatch.setattr(cpu, "cpuinfo_field", lambda field: frozenset(described[field].split()))
    machine.microarchitecture.cache_clear()
    machine.identity.cache_clear()
    try:
        assert machine.microarchitecture() == name
        assert machine.identity() == (f"{vendor}-{family}-{model}" if vendor else "unknown")
    finally:
        machine.microarchitecture.cache_clear()
        machine.identity.cache_clear()


def test_each_level_adds_features_to_those_before_it():
    sets = list(cpu.FEATURES.values())
    assert all(below < above for below, above in itertools.pairwise(sets))
    assert cpu.FEATURES[cpu.hardware()] <= cpu.features()
