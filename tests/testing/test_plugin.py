"""The plugin of pytest, in suites of its own: leaks of flags are errors, and a suite runs under a family of flags."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from ..support.processes import PATIENCE

SUITE = """
import os, subprocess, sys
import pytest
import minitorch_backends as mt
from minitorch_backends import backends


@pytest.fixture(scope="module", autouse=True)
def module_wide():
    backends.cudnn.benchmark = True
    yield
    backends.cudnn.benchmark = False


@pytest.fixture
def own():
    backends.fp32_precision = "tf32"
    yield
    backends.fp32_precision = "none"


def test_that_leaks():
    backends.fp32_precision = "bf16"
    backends.cudnn.enabled = False


def test_after_a_leak():
    assert (backends.fp32_precision, backends.cudnn.enabled) == ("none", True)


def test_that_leaves_a_scope_open():
    backends.flags(fp32_precision="bf16").__enter__()


def test_after_an_open_scope():
    assert backends.fp32_precision == "none"


def test_with_a_fixture(own):
    assert backends.fp32_precision == "tf32"


def test_with_a_scope():
    with backends.flags(fp32_precision="tf32"):
        pass


def test_that_fails_and_leaks():
    backends.emulate = "cuda"
    raise KeyError


def test_that_sees_the_module():
    assert backends.cudnn.benchmark is True
"""


def run_suite(folder: Path, text: str, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run pytest with the plugin, whether the installation has its entry point already or not."""
    (folder / "test_suite.py").write_text(textwrap.dedent(text))
    plugin = ("-p", "no:minitorch_backends", "-p", "minitorch_backends.pytest_plugin")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("MINITORCH_", "PYTEST_"))}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *plugin, "-q", "-rA", *options, "test_suite.py"],
        cwd=folder,
        env=clean | environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def test_leaks_are_errors(tmp_path: Path) -> None:
    done = run_suite(tmp_path, SUITE)
    assert done.returncode == 1, done.stdout
    errors = [line.split(" - ")[0] for line in done.stdout.splitlines() if line.startswith("ERROR ")]
    assert errors == [
        "ERROR test_suite.py::test_that_leaks",
        "ERROR test_suite.py::test_that_leaves_a_scope_open",
        "ERROR test_suite.py::test_that_fails_and_leaks",
    ]
    assert "7 passed, 1 failed" in done.stdout.replace("1 failed, 7 passed", "7 passed, 1 failed")
    assert (
        "the test left flags changed: cudnn.enabled from 'unset' to False, fp32_precision from 'unset' to 'bf16'; "
        "use `with backends.flags(...)`, or restore a snapshot"
    ) in done.stdout


def test_a_freeze_is_an_error(tmp_path: Path) -> None:
    suite = """
    from minitorch_backends import backends

    def test_that_freezes():
        backends.disable_global_flags()

    def test_after_it():
        with backends.flags(fp32_precision="tf32"):
            pass
    """
    done = run_suite(tmp_path, suite)
    assert "the test froze the flags with disable_global_flags(), which cannot be undone" in done.stdout
    assert "2 passed, 1 error" in done.stdout


@pytest.mark.parametrize(("family", "precision"), [("cuda", "ieee"), ("mkldnn", "ieee"), ("xla", "bf16")])
def test_a_suite_runs_under_a_family(family: str, precision: str, tmp_path: Path) -> None:
    suite = f"""
    import subprocess, sys
    import minitorch_backends as mt
    from minitorch_backends import backends, explain

    def test_family():
        assert backends.emulate == {family!r}
        with explain.record() as log:
            mt.ones(2, 2) @ mt.ones(2, 2)
        assert log[0].precision == {precision!r}

    def test_child():
        code = "from minitorch_backends import backends; print(backends.emulate)"
        assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == {family!r}
    """
    done = run_suite(tmp_path, suite, f"--minitorch-emulate={family}", "-v")
    assert done.returncode == 0, done.stdout
    assert f"minitorch-backends: backends.emulate = {family!r}" in done.stdout


def test_a_suite_runs_on_the_matrix_unit_of_a_device(tmp_path: Path) -> None:
    suite = """
    import subprocess, sys
    import minitorch_backends as mt
    from minitorch_backends import backends

    def test_product():
        assert (backends.profile, backends.emulate) == ("a100", "cuda")
        row, column = mt.tensor([[1.0, 1.5 * 2.0**-24, -1.0]]), mt.ones(3, 1)
        with backends.flags(fp32_precision="tf32"):
            assert (row @ column).item() == 2.0**-24  # the unit drops what lies below 2**-24 of the largest product

    def test_child():
        code = "from minitorch_backends import backends; print(backends.profile, backends.emulate)"
        assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == ["a100", "cuda"]
    """
    done = run_suite(tmp_path, suite, "--minitorch-profile=a100", "--minitorch-emulate=cuda", "-v")
    assert done.returncode == 0, done.stdout
    assert "minitorch-backends: backends.emulate = 'cuda', backends.profile = 'a100'" in done.stdout


def test_without_the_option_nothing_is_emulated(tmp_path: Path) -> None:
    suite = "from minitorch_backends import backends\ndef test_it(): assert backends.emulate is None\n"
    assert run_suite(tmp_path, suite).returncode == 0
    kept = "from minitorch_backends import backends\ndef test_it(): assert backends.emulate == 'xla'\n"
    assert run_suite(tmp_path, kept, MINITORCH_EMULATE="xla").returncode == 0


ROOM = """
import pytest
import minitorch_backends as mt
from minitorch_backends.testing import assert_close

@pytest.mark.parametrize("used", [0.25, 0.75])
def test_numbers(used):
    assert_close(1.0 + used, 1.0, rtol=0.0, atol=1.0)
    assert_close(1.0, 1.0)

def test_products():
    exact = mt.full((2, 2), 4.0)
    assert_close([exact, exact + 0.01, mt.ones(2)], [exact, exact, mt.ones(2)], k=4)

def test_that_fails():
    assert_close(mt.ones(2), mt.tensor([1.0, float("nan")]))
"""


@pytest.mark.parametrize("processes", [(), ("-p", "xdist", "-n", "1")])
def test_assertions_with_the_least_room_are_listed(processes: tuple[str, ...], tmp_path: Path) -> None:
    done = run_suite(tmp_path, ROOM, "--minitorch-closest=3", "-k", "not products", *processes)
    _, _, summary = done.stdout.partition(
        "calls of assert_close that came closest to failing, with the share of the tolerance that they used"
    )
    lines = [line.split()[:3] for line in summary.splitlines()[1:4]]
    assert lines == [
        ["inf", "test_suite.py:16", "test_that_fails"],
        ["75.0%", "test_suite.py:8", "test_numbers[0.75]"],
        ["25.0%", "test_suite.py:8", "test_numbers[0.25]"],
    ]


def test_an_emulated_family_lists_what_had_the_least_room(tmp_path: Path) -> None:
    done = run_suite(tmp_path, ROOM, "--minitorch-emulate=xla", "-k", "products")
    assert "test_suite.py:13  test_products  as expected of sums of 4 products at bf16" in done.stdout


NOTHING = """
from minitorch_backends.testing import assert_close

def test_numbers():
    assert_close(1.0, 1.0)
"""


def test_a_suite_in_which_no_product_obeys_the_flags_fails(tmp_path: Path) -> None:
    assert run_suite(tmp_path, NOTHING).returncode == 0
    done = run_suite(tmp_path, NOTHING, "--minitorch-emulate=xla")
    assert done.returncode == 1
    assert "no product obeyed precision flags, in 1 tests" in done.stdout
    assert "the run fails, since it says nothing about the flags" in done.stdout


@pytest.mark.parametrize("processes", [(), ("-n", "1")])
def test_products_are_counted(processes: tuple[str, ...], tmp_path: Path) -> None:
    suite = """
    import minitorch_backends as mt

    def test_two():
        mt.ones(2, 2) @ mt.ones(2, 2) @ mt.ones(2, 2)

    def test_doubles():
        mt.ones(2, 2).double() @ mt.ones(2, 2).double()
    """
    done = run_suite(tmp_path, suite, "--minitorch-emulate=xla", *processes)
    assert done.returncode == 0
    assert "2 products obeyed precision flags, 1 did not: 1 matmul of float64, in 2 tests" in done.stdout


def test_failures_are_short_and_stand_where_reports_are_read(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    done = run_suite(
        tmp_path, ROOM, "--minitorch-closest=9", f"--junitxml={report}", "-p", "no:xdist", GITHUB_ACTIONS="true"
    )
    failure = done.stdout.partition("test_that_fails ____")[2].partition("\n====")[0].partition("\n----")[0]
    assert len([line for line in failure.splitlines()[1:] if line.strip()]) <= 10
    assert "testing.py" not in failure
    assert "call_errors.py" not in failure
    assert '<property name="minitorch_closest" value="   75.0%  test_suite.py:8"' in report.read_text(encoding="utf-8")
    assert "::notice file=test_suite.py,line=8::75.0%  test_numbers[0.75]" in done.stdout
    assert "::error file=test_suite.py,line=16::inf  test_that_fails" in done.stdout


@pytest.mark.parametrize("flag", ["emulate", "profile"])
def test_an_unknown_name_is_refused(flag: str, tmp_path: Path) -> None:
    done = run_suite(tmp_path, "", f"--minitorch-{flag}=gameboy")
    assert done.returncode == 4
    assert "invalid choice: 'gameboy'" in done.stderr


def test_the_entry_point_is_declared() -> None:
    import tomllib

    text = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    project = tomllib.loads(text)["project"]
    assert project["entry-points"]["pytest11"] == {"minitorch_backends": "minitorch_backends.pytest_plugin"}
    assert project["scripts"] == {"minitorch-backends": "minitorch_backends.cli:main"}
