"""How much memory an einsum may take."""

from __future__ import annotations

import os

__all__ = ["FREE_SHARE", "NEVER_REFUSED", "free_bytes", "refuse_too_large"]

FREE_SHARE = 0.8
"""The part of the free memory that one einsum may take when no limit is given."""

NEVER_REFUSED = 64 << 20
"""Bytes up to which nobody asks how much is free, which takes 20 us."""


def free_bytes() -> int | None:
    """Memory that can be had without swapping, in bytes; None where the system does not tell."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) << 10
    except OSError:
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def refuse_too_large(needed: int, limit: int | None) -> None:
    """Raise RuntimeError where a contraction needs more bytes than `limit`, or than its share of what is free."""
    if limit is not None:
        if needed > limit:
            raise RuntimeError(
                f"einsum(): the intermediates would take {needed:,} bytes at once, and memory_limit is {limit:,}; "
                "raise it, or backends.einsum_memory_limit, or try another strategy"
            )
        return
    if needed <= NEVER_REFUSED:
        return
    free = free_bytes()
    if free is not None and needed > FREE_SHARE * free:
        raise RuntimeError(
            f"einsum(): the intermediates would take {needed:,} bytes at once, and {free:,} are free, of which "
            f"{FREE_SHARE:.0%} may be used; try another strategy, or pass memory_limit="
        )
