"""The operations: one decorated block each. Importing a module declares its ops and installs their methods.

A name that is listed in a module's `__all__` and imported here by `*` is a public name of the package.
"""

from . import history as _history  # noqa: F401
from .addmm import *  # noqa: F403
from .arrange import *  # noqa: F403
from .cast import *  # noqa: F403
from .contract import *  # noqa: F403
from .fill import *  # noqa: F403
from .grid import *  # noqa: F403
from .index import *  # noqa: F403
from .join import *  # noqa: F403
from .lookup import *  # noqa: F403
from .matmul import *  # noqa: F403
from .scatter import *  # noqa: F403
from .shape import *  # noqa: F403
from .slices import *  # noqa: F403
from .transpose import *  # noqa: F403
