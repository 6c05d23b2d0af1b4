"""The CPUs available to this process, their cores, and their NUMA nodes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

__all__ = ["Topology", "parsed_list", "ranges", "read_topology"]

_SYSTEM = Path("/sys/devices/system")


class Topology(NamedTuple):
    """The CPUs that may be used."""

    nodes: dict[int, tuple[int, ...]]
    """For each NUMA node with available CPUs, its logical CPUs. A machine without NUMA information has one node, 0."""
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
