"""The CPU: its model, its caches, and the cores available to this process. Each is read once.

On Linux everything comes from /proc/cpuinfo and /sys, elsewhere from the C library if it supports the query. Unreadable
values are assumed, and reported as such.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import NamedTuple

from . import cpu

CPUS = Path("/sys/devices/system/cpu")
"""Linux's description of the CPUs."""

_ASSUMED = {1: 32 << 10, 2: 1 << 20, 3: 0}
"""Bytes of the caches, by level, where the system does not say."""

_SUFFIXES = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class Cache(NamedTuple):
    """A data cache.

    Attributes:
        size: bytes; 0 if it does not exist.
        cores: physical cores that share it.
        ways: associativity; 0 if unknown.
    """

    size: int
    cores: int = 1
    ways: int = 0

    @property
    def share(self) -> int:
        """Bytes for each core that shares it."""
        return self.size // self.cores

    def __str__(self) -> str:
        unit, symbol = ((1 << 20), "MiB") if self.size >= 1 << 20 else ((1 << 10), "KiB")
        shared = "a core" if self.cores == 1 else f"shared by {self.cores} cores"
        return f"{self.size / unit:g} {symbol} {shared}" if self.size else "none"


class Caches(NamedTuple):
    """The data caches of the first CPU of this process; `known` says whether the system described them."""

    l1: Cache
    l2: Cache
    l3: Cache
    known: bool

    def __str__(self) -> str:
        levels = ", ".join(f"L{level} {cache}" for level, cache in enumerate(self[:3], 1))
        return levels if self.known else f"{levels} (assumed: the system does not say)"


def granted_cpus() -> list[int]:
    """The logical CPUs of the affinity mask, or all of them without masks."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))


def _numbers(text: str) -> frozenset[int]:
    """The members of a list such as "0-3,8"."""
    bounds = [part.partition("-") for part in text.strip().split(",") if part]
    return frozenset(number for first, _, last in bounds for number in range(int(first), int(last or first) + 1))


def _siblings(number: int, folder: Path) -> frozenset[int]:
    """The logical CPUs of one's physical core, itself among them."""
    try:
        return _numbers((folder / f"cpu{number}/topology/thread_siblings_list").read_text()) | {number}
    except (OSError, ValueError):
        return frozenset((number,))


def count_cores(numbers: list[int], folder: Path = CPUS) -> int:
    """Physical cores of these logical CPUs."""
    return len({min(_siblings(number, folder)) for number in numbers})


@functools.cache
def cores() -> int:
    """Physical cores of the affinity mask that the process had when it asked first."""
    return count_cores(granted_cpus())


def read_caches(first: int, folder: Path = CPUS) -> Caches:
    """The caches that hold data of one logical CPU."""
    found: dict[int, Cache] = {}
    for place in sorted((folder / f"cpu{first}/cache").glob("index*")):
        try:
            kind, level, size = ((place / name).read_text().strip() for name in ("type", "level", "size"))
            if kind == "Instruction":
                continue
            users = count_cores(sorted(_numbers((place / "shared_cpu_list").read_text())), folder)
            ways = (place / "ways_of_associativity").read_text().strip()
            unit = _SUFFIXES.get(size[-1:], 1)
            found[int(level)] = Cache(int(size.rstrip("KMG")) * unit, max(1, users), int(ways))
        except (OSError, ValueError):
            continue
    found = found or _by_c_library()
    known = 1 in found and 2 in found
    levels = [found.get(level, Cache(0 if known else size)) for level, size in _ASSUMED.items()]
    return Caches(*levels, known)


def _by_c_library() -> dict[int, Cache]:
    """The C library's values. It does not report sharing, so a cache is assumed private to its core."""
    names = {1: "SC_LEVEL1_DCACHE_SIZE", 2: "SC_LEVEL2_CACHE_SIZE", 3: "SC_LEVEL3_CACHE_SIZE"}
    known = getattr(os, "sysconf_names", {})
    sizes = {level: os.sysconf(name) for level, name in names.items() if name in known}
    return {level: Cache(size) for level, size in sizes.items() if size > 0}


@functools.cache
def caches() -> Caches:
    """The caches of the first CPU of the affinity mask."""
    return read_caches(granted_cpus()[0])


def _field(name: str) -> str:
    return " ".join(sorted(cpu.cpuinfo_field(name)))


@functools.cache
def identity() -> str:
    """The CPU's vendor, family and model, joined by hyphens: what two machines with equal thresholds have in common."""
    parts = [_field(name) for name in ("vendor_id", "cpu family", "model")]
    return "-".join(parts) if all(parts) else "unknown"


@functools.cache
def microarchitecture() -> str:
    """The name of the CPU's microarchitecture, of those that thresholds were measured on; "" for others.

    Families and models are those of AMD's and Intel's manuals, which CPUID gives.
    """
    vendor, family, model = (_field(name) for name in ("vendor_id", "cpu family", "model"))
    if not (family.isdecimal() and model.isdecimal()):
        return ""
    rows = _MICROARCHITECTURES.get((vendor, int(family)), ())
    return next((name for name, first, last in rows if first <= int(model) <= last), "")


_MICROARCHITECTURES = {
    ("AuthenticAMD", 25): (
        ("zen3", 0x00, 0x0F), ("zen4", 0x10, 0x1F), ("zen3", 0x20, 0x5F), ("zen4", 0x60, 0x7F), ("zen4", 0xA0, 0xAF),
    ),
    ("AuthenticAMD", 26): (("zen5", 0x00, 0x4F), ("zen5", 0x60, 0x7F)),
    ("GenuineIntel", 6): (("skylake_x", 0x55, 0x55), ("sapphire_rapids", 0x8F, 0x8F), ("sapphire_rapids", 0xCF, 0xCF)),
}  # fmt: skip
"""By vendor and family: names with their first and last model."""
