"""The launcher: which cores instances get, and two instances that really run."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from minitorch_backends.backends.xeon import run_cpu
from minitorch_backends.backends.xeon.run_cpu import Topology, parsed_list, ranges, read_topology

from ..support.processes import PATIENCE

TWO_NODES = Topology({0: (0, 1, 2, 3, 8, 9, 10, 11), 1: (4, 5, 6, 7, 12, 13, 14, 15)}, tuple(range(8)))
"""Two nodes of four cores with two threads each, numbered as Linux does."""

CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
needs_two_cores = pytest.mark.skipif(len(CORES) < 2, reason="two cores are needed to bind two instances")


def plan(*options: str) -> list[tuple[int, ...]]:
    parsed = run_cpu._parser().parse_args([*options, "script.py"])
    return [instance.cores for instance in run_cpu.plan_instances(parsed, TWO_NODES)]


@pytest.mark.parametrize(
    ("options", "cores"),
    [
        ("", ["0-7"]),
        ("--ninstances 2", ["0-3", "4-7"]),
        ("--ninstances 3", ["0-1", "2-3", "4-5"]),
        ("--ncores-per-instance 3", ["0-2", "3-5"]),
        ("--ncores-per-instance 3 --skip-cross-node-cores", ["0-2", "4-6"]),
        ("--ninstances 2 --ncores-per-instance 1", ["0", "1"]),
        ("--node-id 1", ["4-7"]),
        ("--node-id 1 --ninstances 2", ["4-5", "6-7"]),
        ("--use-logical-core", ["0-15"]),
        ("--use-logical-core --node-id 1 --ninstances 2", ["4-7", "12-15"]),
        ("--core-list 0,2,4-5 --ncores-per-instance 2", ["0,2", "4-5"]),
        ("--core-list 1-3", ["1-3"]),
        ("--multi-instance", ["0-3", "4-7"]),
        ("--throughput-mode", ["0-3", "4-7"]),
        ("--latency-mode", ["0-3", "4-7"]),
        ("--ninstances 2 --rank 1", ["4-7"]),
    ],
)
def test_cores_of_instances(options: str, cores: list[str]) -> None:
    assert [ranges(each) for each in plan(*options.split())] == cores


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--ninstances 9", r"9 instances of 1 cores do not fit in 8 cores \(0-7\)"),
        ("--ninstances 2 --ncores-per-instance 5", "2 instances of 5 cores do not fit in 8 cores"),
        ("--ninstances 0", "--ninstances 0 is not a number of them"),
        ("--ncores-per-instance -2", "--ncores-per-instance -2 is not a number"),
        ("--core-list 1,x", "--core-list '1,x' is not a list of cores"),
        ("--core-list 1,99", r"--core-list names \[99\], and this process may use 0-15"),
        ("--node-id 2", "--node-id 2 is not one of the NUMA nodes, 0, 1"),
        ("--ninstances 2 --rank 2", "--rank 2 is not one of the 2 instances"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(options: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plan(*options.split())


def test_lists_of_cores() -> None:
    assert parsed_list("0-2, 5,7-8") == [0, 1, 2, 5, 7, 8]
    assert ranges((8, 0, 1, 2, 5, 7)) == "0-2,5,7-8"
    assert parsed_list("") == []


def test_topology_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)) - {3}, raising=False)
    for node, cpus in enumerate(("0-1,4-5", "2-3,6-7")):
        folder = tmp_path / f"node/node{node}"
        folder.mkdir(parents=True)
        (folder / "cpulist").write_text(cpus + "\n")
    for cpu in range(8):
        folder = tmp_path / f"cpu/cpu{cpu}/topology"
        folder.mkdir(parents=True)
        (folder / "physical_package_id").write_text("0\n")
        (folder / "core_id").write_text(f"{cpu % 4}\n")
    found = read_topology(tmp_path)
    assert found.nodes == {0: (0, 1, 4, 5), 1: (2, 6, 7)}
    assert found.physical == (0, 1, 2, 7)
    assert found.node_of(6) == 1
    bare = read_topology(tmp_path / "nothing")
    assert bare.nodes == {0: (0, 1, 2, 4, 5, 6, 7)}
    assert bare.physical == bare.logical


def test_command_and_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    options = run_cpu._parser().parse_args(["--ninstances", "2", "-m", "package.tool", "--flag", "x"])
    instance = run_cpu.plan_instances(options, TWO_NODES)[1]
    monkeypatch.setattr(run_cpu.shutil, "which", lambda name: f"/usr/bin/{name}")
    line = run_cpu.command(options, instance, TWO_NODES)
    assert line == ["numactl", "-C", "4-7", "-m", "1", sys.executable, "-u", "-m", "package.tool", "--flag", "x"]
    variables = run_cpu.environment(options, instance, {"OMP_NUM_THREADS": "3", "HOME": "/"})
    assert (variables["OMP_NUM_THREADS"], variables["NUMBA_NUM_THREADS"], variables["HOME"]) == ("3", "4", "/")
    assert "LD_PRELOAD" not in variables


def test_an_allocator_is_preloaded(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/libtcmalloc.so.4").touch()
    options = run_cpu._parser().parse_args(["--enable-tcmalloc", "script.py"])
    variables = run_cpu.environment(options, run_cpu.Instance(0, (0,)), {"LD_PRELOAD": "other.so"}, [str(tmp_path)])
    assert variables["LD_PRELOAD"] == f"other.so:{tmp_path}/lib/libtcmalloc.so.4"
    with pytest.raises(ValueError, match=r"--enable-tcmalloc: libtcmalloc.so was not found"):
        run_cpu.environment(options, run_cpu.Instance(0, (0,)), {}, [str(tmp_path / "nowhere")])


PROGRAM = """
import os, sys
print(sorted(os.sched_getaffinity(0)), os.environ["OMP_NUM_THREADS"], *sys.argv[1:])
print("to stderr", file=sys.stderr)
"""


def launch(tmp_path: Path, program: str, *options: str) -> subprocess.CompletedProcess[str]:
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(program))
    clean = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    return subprocess.run(
        [sys.executable, "-m", "minitorch_backends.backends.xeon.run_cpu", *options, str(script), "argument"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env=clean,
    )


@needs_two_cores
def test_two_instances_run_on_their_own_cores(tmp_path: Path) -> None:
    first, second = CORES[:2]
    pinned = ("--core-list", f"{first},{second}", "--ncores-per-instance", "1")
    done = launch(tmp_path, PROGRAM, *pinned, "--log-path", str(tmp_path / "logs"), "--log-file-prefix", "job")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == sorted(
        line
        for rank, core in enumerate((first, second))
        for line in (f"[job{rank}]: [{core}] 1 argument", f"[job{rank}]: to stderr")
    )
    for rank, core in enumerate((first, second)):
        text = (tmp_path / f"logs/job_instance_{rank}_cores_{core}.log").read_text(encoding="utf-8")
        assert set(text.splitlines()) == {f"[{core}] 1 argument", "to stderr"}


@needs_two_cores
def test_a_failure_ends_the_others_and_is_the_exit_code(tmp_path: Path) -> None:
    program = f"""
    import os, sys, time
    if os.sched_getaffinity(0) == {{{CORES[1]}}}:
        sys.exit(7)
    time.sleep(50)
    """
    done = launch(tmp_path, program, "--core-list", f"{CORES[0]},{CORES[1]}", "--ncores-per-instance", "1")
    assert done.returncode == 7


def test_a_signal_is_an_exit_code(tmp_path: Path) -> None:
    done = launch(tmp_path, "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert done.returncode == 128 + 9


def test_bad_options_are_an_error_of_usage(tmp_path: Path) -> None:
    done = launch(tmp_path, PROGRAM, "--ninstances", "1000")
    assert done.returncode == 2
    assert "do not fit" in done.stderr
    missing = subprocess.run(
        [sys.executable, "-m", "minitorch_backends.backends.xeon.run_cpu", "--no-python", str(tmp_path / "nothing")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert missing.returncode == 2
    assert "nothing" in missing.stderr
