"""The table of what depends on the CPU: the rule of the caches, its measured exceptions, and a user's own file."""

import json
import os
import re
from pathlib import Path

import pytest

from minitorch_backends.kernels.block import pairs, tiles, tuning, tuning_file, vectors
from minitorch_backends.kernels.runtime import cpu, machine

from ...support.processes import python

ROOT = Path(__file__).parents[3]


def with_cache(isa, size):
    """The thresholds of a CPU without a row that has an L2 cache of this size, in force for a block."""
    return tuning.thresholds(isa).override(**tuning.default(isa, size, "")._asdict())


@pytest.mark.parametrize(
    ("isa", "kernel", "kc", "item", "blocks"),
    [
        ("avx512", vectors.Avx512Float32(), 256, 4, (252, 512)),
        ("avx512", vectors.Avx512Float64(), 256, 8, (126, 256)),
        ("avx512", vectors.Avx512InTwo(), 128, 8, (252, 512)),
        ("avx2", vectors.Avx2Float32(), 256, 4, (252, 512)),
        ("portable", vectors.PortableFloat32(), 256, 4, (128, 256)),
        ("avx512_bf16", pairs.Pairs1(), 256, 2, (256, 512)),
        ("amx", tiles.Tiles6(), 96, 6, (256, 512)),
    ],
)
def test_a_mebibyte_gives_the_blocks_that_were_measured(isa, kernel, kc, item, blocks):
    with with_cache(isa, 1 << 20):
        assert tuning.blocking(isa, kernel, kc, item) == blocks


@pytest.mark.parametrize("size", [1 << 17, 1 << 18, 1 << 19, 3 << 19, 1 << 21, 1 << 25])
def test_blocks_of_any_cache_are_whole_panels_that_fit(size):
    for isa, kernel in (("avx512", vectors.Avx512Float64()), ("avx2", vectors.Avx2Float32()), ("amx", tiles.Tiles1())):
        with with_cache(isa, size):
            mc, nc = tuning.blocking(isa, kernel, 256, 8)
        assert mc >= kernel.mr
        assert nc >= kernel.nr
        assert mc % kernel.mr == nc % kernel.nr == 0
        assert mc * (256 * 8 + nc * kernel.size) <= max(size, 1 << 18)


def test_rows_of_known_cpus_deviate_from_the_rule():
    assert tuning.default("avx2", 1 << 19, "zen3").cache_bytes == 1 << 20
    assert tuning.default("avx2", 1 << 19, "").cache_bytes == 1 << 19
    assert [tuning.default(isa, 1 << 19, "").rows_across_most for isa in ("avx2", "avx512")] == [6, 16]


REPORT = """
import warnings
from minitorch_backends.kernels.block import tuning
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    row = tuning.tuning("avx2")
    assert tuning.tuning("avx2") is row
print(row.rows_most, tuning.origin(), *(each.message for each in caught), sep="|")
"""


def report(folder):
    printed = python(REPORT, MINITORCH_CONFIG_DIR=str(folder))
    assert not printed.error
    return printed.out.strip().split("|")


def content(**row):
    return {"date": "2026-11-27", "rows": {"avx2": row}}


def test_a_users_file_replaces_fields_and_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv(tuning_file.FOLDER_VARIABLE, str(tmp_path / "new"))
    file = tuning_file.write(content(rows_most=21))
    assert file.parent == tmp_path / "new"
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert report(file.parent) == ["21", f"measured by minitorch-backends tune on 2026-11-27 ({file})"]
    assert [path.name for path in file.parent.iterdir()] == [f"tuning-{machine.identity()}.json"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "Expecting property name"),
        ("[]", "must hold an object with a date and rows"),
        (json.dumps(content(rows_many=3)), "avx2 must have numbers by field, got 'rows_many': 3"),
        (json.dumps(content(rows_most="3")), "avx2 must have numbers by field, got 'rows_most': '3'"),
        (json.dumps(content(rows_most=-1)), "avx2.rows_most must lie from 0 to 1e15, got -1"),
        (json.dumps(content(rows_most=float("nan"))), "avx2.rows_most must lie from 0 to 1e15, got nan"),
        (json.dumps(content(rows_most=10**4000)), "avx2.rows_most must lie from 0 to 1e15, got 1000"),
        (json.dumps(content(**{"x" * 9999: 3})), "avx2 must have numbers by field, got 'xxx"),
        (json.dumps(content() | {"rows": {"avx9": {}}}), "rows must be objects by instruction set, got 'avx9'"),
        (json.dumps(content() | {"date": "now\nthen"}), "must hold an object with a date and rows"),
        (json.dumps(content() | {"microarchitecture": "z80"}), "of this CPU's microarchitecture, "),
        ("[" * 200_000, ""),
        (" " * (1 << 20) + "{}", "Expecting value"),
        ("9" * 5000, "integer string"),
        ("\udcff{}", "can't decode"),
    ],
)
def test_a_file_that_cannot_be_used_is_passed_over_with_one_warning(text, sentence, tmp_path, monkeypatch):
    monkeypatch.setenv(tuning_file.FOLDER_VARIABLE, str(tmp_path))
    tuning_file.path().write_bytes(text.encode(errors="surrogateescape"))
    with pytest.warns(RuntimeWarning, match="the thresholds of this CPU's products are the built-in ones") as caught:
        assert tuning_file.read() is None
    message = str(caught[0].message)
    assert sentence in message
    assert f"since {tuning_file.path()} cannot be used" in message
    assert len(message) < 500


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no owners of files here")
def test_a_folder_that_others_can_write_to_is_not_read_from(tmp_path):
    tmp_path.chmod(0o777)
    (tmp_path / f"tuning-{machine.identity()}.json").write_text(json.dumps(content(rows_most=21)))
    rows, origin, warning = report(tmp_path)
    assert (rows, "built-in" in origin or "caches" in origin) == ("32", True)
    assert f"other users can write to {tmp_path} (mode 777)" in warning


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_a_pipe_is_not_waited_for_and_users_see_the_warning(tmp_path):
    os.mkfifo(tmp_path / f"tuning-{machine.identity()}.json", 0o600)
    code = "import warnings\nwarnings.simplefilter('default')\nimport minitorch_backends as mt\nx = mt.eye(70)\nx @ x"
    printed = python(code, MINITORCH_CONFIG_DIR=str(tmp_path))
    assert re.match(r"<string>:5: RuntimeWarning: the thresholds .* is not a regular file; run", printed.error)


def test_without_a_file_nothing_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv(tuning_file.FOLDER_VARIABLE, str(tmp_path / "none"))
    assert tuning_file.read() is None


def test_measurements_behind_the_table_are_of_its_fields():
    found = json.loads((ROOT / "bench/data/crossovers.json").read_text(encoding="utf-8"))["measurements"]
    assert {row["field"] for row in found} <= set(tuning.Tuning._fields)
    for row in found:
        assert row["level"] in cpu.LEVELS
        assert all(len(times) == 2 + len(row["ways"]) for times in row["times"])
