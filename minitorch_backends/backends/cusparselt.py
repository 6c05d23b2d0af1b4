"""NVIDIA's library of sparse products, which is not used."""

from __future__ import annotations

import sys

from ..flags import Group

__all__ = ["get_max_alg_id", "is_available", "version"]


def is_available() -> bool:
    """Whether cuSPARSELt is used: False."""
    return False


def version() -> None:
    """cuSPARSELt's version: None, since it is not used."""
    return


def get_max_alg_id() -> None:
    """The number of cuSPARSELt's algorithms: None, since it is not used."""
    return


Group.install(sys.modules[__name__], "cusparselt")
