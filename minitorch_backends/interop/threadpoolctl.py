"""The kernels' pool of threads among those that threadpoolctl shows and limits.

threadpoolctl finds pools by the shared libraries that a process has loaded. This one lies in none, so that NumPy's own
stands for it. This module is imported with threadpoolctl.
"""

from __future__ import annotations

from importlib import metadata

from threadpoolctl import LibController, register

from ..kernels.runtime.threading import get_num_threads, set_num_threads


class _Pool(LibController):
    user_api = internal_api = "minitorch_backends"
    filename_prefixes = ("_multiarray_umath",)

    get_num_threads = staticmethod(get_num_threads)
    set_num_threads = staticmethod(set_num_threads)

    def get_version(self) -> str:
        return metadata.version("minitorch-backends")


register(_Pool)
