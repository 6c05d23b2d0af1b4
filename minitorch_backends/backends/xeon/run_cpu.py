"""Run one or more instances of a program, each on its own cores, with one thread per core.

    python -m minitorch_backends.backends.xeon.run_cpu --ninstances 2 --ncores-per-instance 4 script.py arguments

The options are those of torch.backends.xeon.run_cpu. Each instance is bound to its cores, and to the memory of their
NUMA node if `numactl` is installed and there are several nodes. OMP_NUM_THREADS, OPENBLAS_NUM_THREADS, MKL_NUM_THREADS
and NUMBA_NUM_THREADS are set to its number of cores, unless they are already set. Lines of the instances get a prefix,
`[run0]: `; with `--log-path` they are also written to one file per instance. When an instance fails, the others are
ended, and its exit code becomes the launcher's: 128 plus the number for a signal.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

__all__ = ["Topology", "main", "parsed_list", "ranges", "read_topology"]

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")

LATENCY_CORES = 4
"""Cores of an instance with `--latency-mode`, as in torch."""

_LIBRARY_FOLDERS = ("lib", "lib64", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu")
_TERMINATION_SECONDS = 10.0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m minitorch_backends.backends.xeon.run_cpu",
        description=__doc__.partition("\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--ninstances", type=int, default=-1, help="number of instances; -1: one, or as many as fit")
    add("--ncores-per-instance", "--ncores_per_instance", type=int, default=-1, help="cores of each; -1: a fair share")
    add("--core-list", "--core_list", default="", help='the cores to use, "0,1,2" or "0-2"')
    add("--node-id", "--node_id", type=int, default=-1, help="use the cores of this NUMA node only; -1: of all")
    add("--rank", type=int, default=-1, help="run this one of the instances only; -1: all of them")
    add("--multi-instance", "--multi_instance", action="store_true", help="without numbers, one for each NUMA node")
    add("--throughput-mode", "--throughput_mode", action="store_true", help="one instance for each NUMA node")
    add("--latency-mode", "--latency_mode", action="store_true", help=f"instances of {LATENCY_CORES} cores")
    add("--use-logical-core", "--use_logical_core", action="store_true", help="use every logical core")
    add("--skip-cross-node-cores", "--skip_cross_node_cores", action="store_true", help="no instance on two nodes")
    add("--disable-numactl", "--disable_numactl", action="store_true", help="do not bind memory by numactl")
    add("--disable-taskset", "--disable_taskset", action="store_true", help="do not bind instances to cores")
    add("--enable-tcmalloc", "--enable_tcmalloc", action="store_true", help="preload the allocator tcmalloc")
    add("--enable-jemalloc", "--enable_jemalloc", action="store_true", help="preload the allocator jemalloc")
    add("--use-default-allocator", "--use_default_allocator", action="store_true", help="preload neither (the default)")
    add("--disable-iomp", "--disable_iomp", action="store_true", help="taken for torch's sake: it is never preloaded")
    add("--log-path", "--log_path", default="", help="folder for the log files; none without it")
    add("--log-file-prefix", "--log_file_prefix", default="run", help="what log files and printed lines begin with")
    add("-m", "--module", action="store_true", help="the program is a module, as in `python -m`")
    add("--no-python", "--no_python", action="store_true", help="the program is not Python's")
    add("program", help="the script, module or program")
    add("arguments", nargs=argparse.REMAINDER, help="its arguments")
    return parser


class Instance(NamedTuple):
    """One instance to run."""

    rank: int
    cores: tuple[int, ...]


def plan_instances(options: argparse.Namespace, topology: Topology) -> list[Instance]:
    """The instances and their cores. Raises ValueError for numbers that do not fit."""
    cores = _cores(options, topology)
    size, count = _shares(options, topology, len(cores))
    if options.skip_cross_node_cores:
        of_nodes = [[core for core in cores if topology.node_of(core) == node] for node in topology.nodes]
        cores = [core for own in of_nodes for core in own[: len(own) // size * size]]
        count = min(count, len(cores) // size)
    if size < 1 or count < 1 or size * count > len(cores):
        raise ValueError(
            f"{max(count, 1)} instances of {max(size, 1)} cores do not fit in {len(cores)} cores "
            f"({ranges(tuple(cores))}); give smaller --ninstances or --ncores-per-instance"
        )
    instances = [Instance(rank, tuple(cores[rank * size : (rank + 1) * size])) for rank in range(count)]
    if options.rank == -1:
        return instances
    if not 0 <= options.rank < count:
        raise ValueError(f"--rank {options.rank} is not one of the {count} instances, 0 to {count - 1}")
    return [instances[options.rank]]


def _cores(options: argparse.Namespace, topology: Topology) -> list[int]:
    """The cores to share out."""
    available = topology.logical if options.use_logical_core else topology.physical
    if options.core_list:
        try:
            cores = parsed_list(options.core_list)
        except ValueError:
            raise ValueError(
                f'--core-list {options.core_list!r} is not a list of cores such as "0,1,2" or "0-2"'
            ) from None
        missing = sorted(set(cores) - set(topology.logical))
        if missing:
            raise ValueError(f"--core-list names {missing}, and this process may use {ranges(topology.logical)}")
        return list(dict.fromkeys(cores))
    if options.node_id == -1:
        return list(available)
    if options.node_id not in topology.nodes:
        raise ValueError(
            f"--node-id {options.node_id} is not one of the NUMA nodes, {', '.join(map(str, topology.nodes))}"
        )
    return [core for core in available if topology.node_of(core) == options.node_id]


def _shares(options: argparse.Namespace, topology: Topology, cores: int) -> tuple[int, int]:
    """Cores of an instance, and number of instances."""
    size, count = options.ncores_per_instance, options.ninstances
    for name, value in (("--ncores-per-instance", size), ("--ninstances", count)):
        if value != -1 and value < 1:
            raise ValueError(f"{name} {value} is not a number of them; expected at least 1, or -1 for the default")
    if options.latency_mode:
        return LATENCY_CORES, cores // LATENCY_CORES
    if options.throughput_mode or (options.multi_instance and (size, count) == (-1, -1)):
        return cores // len(topology.nodes), len(topology.nodes)
    if size == -1:
        count = max(count, 1)
        return cores // count, count
    return size, cores // size if count == -1 else count


def command(options: argparse.Namespace, instance: Instance, topology: Topology) -> list[str]:
    """The command line of an instance."""
    line: list[str] = []
    nodes = sorted({topology.node_of(core) for core in instance.cores})
    if not options.disable_numactl and len(topology.nodes) > 1 and shutil.which("numactl"):
        line += ["numactl", "-C", ranges(instance.cores), "-m", ",".join(map(str, nodes))]
    if not options.no_python:
        line += [sys.executable, "-u"]
    if options.module:
        line.append("-m")
    return [*line, options.program, *options.arguments]


def environment(
    options: argparse.Namespace,
    instance: Instance,
    inherited: Mapping[str, str],
    roots: Sequence[str] = (sys.prefix, "/usr/local", "/usr", "/"),
) -> dict[str, str]:
    """The environment of an instance. Raises ValueError for an allocator that no root has."""
    threads = {variable: str(len(instance.cores)) for variable in THREAD_VARIABLES}
    found = {**threads, **inherited}
    for name, wanted in (("tcmalloc", options.enable_tcmalloc), ("jemalloc", options.enable_jemalloc)):
        if wanted and not options.use_default_allocator:
            found["LD_PRELOAD"] = ":".join(filter(None, (found.get("LD_PRELOAD", ""), _library(name, roots))))
    return found


def _library(name: str, roots: Sequence[str]) -> str:
    for root in roots:
        for folder in _LIBRARY_FOLDERS:
            files = sorted(Path(root, folder).glob(f"lib{name}.so*"))
            if files:
                return str(files[0])
    raise ValueError(f"--enable-{name}: lib{name}.so was not found; install it, or leave the option out")


class _Running:
    """A started instance: its process, and the thread that passes its output on."""

    def __init__(self, options: argparse.Namespace, instance: Instance, topology: Topology) -> None:
        self.prefix = f"[{options.log_file_prefix}{instance.rank}]: "
        self.log = None
        if options.log_path:
            folder = Path(options.log_path)
            folder.mkdir(parents=True, exist_ok=True)
            name = f"{options.log_file_prefix}_instance_{instance.rank}_cores_{ranges(instance.cores)}.log"
            self.log = (folder / name).open("w", encoding="utf-8")
        self.process = _start(
            command(options, instance, topology),
            environment(options, instance, os.environ),
            None if options.disable_taskset else instance.cores,
        )
        self.reader = threading.Thread(target=self._pass_on, daemon=True)
        self.reader.start()

    def _pass_on(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            sys.stdout.write(f"{self.prefix}{line.rstrip()}\n")
            sys.stdout.flush()
            if self.log is not None:
                self.log.write(line)

    def finish(self) -> None:
        """Wait for the rest of the output."""
        self.reader.join()
        if self.process.stdout is not None:
            self.process.stdout.close()
        if self.log is not None:
            self.log.close()


def _start(line: list[str], variables: dict[str, str], cores: tuple[int, ...] | None) -> subprocess.Popen[str]:
    """Start a process on some cores: it inherits the affinity of the thread that starts it."""
    binds = cores is not None and hasattr(os, "sched_setaffinity")
    before = os.sched_getaffinity(0) if binds else None
    if cores is not None and binds:
        os.sched_setaffinity(0, cores)
    try:
        return subprocess.Popen(
            line,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
        )
    finally:
        if before is not None:
            os.sched_setaffinity(0, before)


def _wait(running: list[_Running]) -> int:
    """The exit code of the first instance that fails, after the others were ended; 0 when none does."""
    left = list(running)
    while left:
        for each in list(left):
            try:
                code = each.process.wait(timeout=0.05)
            except subprocess.TimeoutExpired:
                continue
            left.remove(each)
            if code != 0:
                _end(left)
                return code if code > 0 else 128 - code
    return 0


def _end(running: list[_Running]) -> None:
    for each in running:
        each.process.terminate()
    for each in running:
        try:
            each.process.wait(timeout=_TERMINATION_SECONDS)
        except subprocess.TimeoutExpired:
            each.process.kill()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the launcher with these command line arguments, and return its exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    topology = read_topology()
    running: list[_Running] = []
    try:
        instances = plan_instances(options, topology)
        running.extend(_Running(options, instance, topology) for instance in instances)
        return _wait(running)
    except (OSError, ValueError) as error:
        _end(running)
        parser.error(str(error))
    except KeyboardInterrupt:
        _end(running)
        return 128 + signal.SIGINT
    finally:
        for each in running:
            each.finish()


_SYSTEM = Path("/sys/devices/system")


class Topology(NamedTuple):
    """The CPUs that may be used."""

    nodes: dict[int, tuple[int, ...]]
    """The available logical CPUs by NUMA node. A machine without NUMA information has one node, 0."""
    physical: tuple[int, ...]
    """The first logical CPU of each core, in the order of nodes and numbers."""

    @property
    def logical(self) -> tuple[int, ...]:
        """Every logical CPU, in the order of nodes and numbers."""
        return tuple(cpu for node in sorted(self.nodes) for cpu in self.nodes[node])

    def node_of(self, cpu: int) -> int:
        """The NUMA node of a CPU."""
        return next(node for node, cpus in self.nodes.items() if cpu in cpus)


def read_topology(system: Path = _SYSTEM) -> Topology:
    """The topology as Linux describes it below /sys, restricted to the CPUs of this process's affinity mask."""
    allowed = _allowed_cores()
    nodes = {
        int(folder.name.removeprefix("node")): tuple(
            sorted(allowed.intersection(parsed_list(_text(folder / "cpulist"))))
        )
        for folder in sorted(system.glob("node/node[0-9]*"))
    }
    known = {cpu for cpus in nodes.values() for cpu in cpus}
    if known != allowed:
        nodes = {0: tuple(sorted(allowed))}
    nodes = {node: cpus for node, cpus in sorted(nodes.items()) if cpus}
    cores: dict[tuple[str, str], int] = {}
    for cpu in (cpu for cpus in nodes.values() for cpu in cpus):
        folder = system / f"cpu/cpu{cpu}/topology"
        core = _text(folder / "physical_package_id"), _text(folder / "core_id") or f"cpu{cpu}"
        cores.setdefault(core, cpu)
    return Topology(nodes, tuple(cores.values()))


def _allowed_cores() -> set[int]:
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def parsed_list(text: str) -> list[int]:
    """The numbers of a list such as "0-3, 8". Raises ValueError for anything else."""
    numbers: list[int] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        first, _, last = part.partition("-")
        numbers.extend(range(int(first), int(last or first) + 1))
    return numbers


def ranges(cpus: tuple[int, ...]) -> str:
    """CPUs as a short list, "0-3,8"."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and cpu == runs[-1][-1] + 1:
            runs[-1].append(cpu)
        else:
            runs.append([cpu])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


if __name__ == "__main__":
    raise SystemExit(main())
