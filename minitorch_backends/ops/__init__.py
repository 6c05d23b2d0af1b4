"""The operations: one decorated block each. Importing a module declares its ops and installs their methods.

A name that is listed in a module's `__all__` and imported here by `*` is a public name of the package.
"""

from .addmm import *  # noqa: F403
from .contract import *  # noqa: F403
from .matmul import *  # noqa: F403
