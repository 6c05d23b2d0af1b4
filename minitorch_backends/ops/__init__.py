"""The operations: one decorated block each. Importing a module declares its ops and installs their methods.

A name that is listed in a module's `__all__` and imported here by `*` is a public name of the package.
"""

from . import (  # noqa: F401
    adaptive,
    attention,
    bilinear,
    columns,
    convolution,
    cross_entropy,
    ctc,
    distance,
    dropout,
    embedding,
    embedding_bag,
    fourier,
    fourier_many,
    fractional_pool,
    frequencies,
    grid_sample,
    history,
    linear,
    local,
    loss,
    margin_losses,
    multihead,
    normalization,
    padding,
    polynomials,
    pool,
    random_activations,
    recurrent,
    remake,
    resize,
    transforms,
)
from .activation import relu as relu
from .addmm import *  # noqa: F403
from .arithmetic import *  # noqa: F403
from .arrange import *  # noqa: F403
from .bessel import *  # noqa: F403
from .cast import *  # noqa: F403
from .comparison import *  # noqa: F403
from .complexes import *  # noqa: F403
from .contract import *  # noqa: F403
from .conv import *  # noqa: F403
from .einsum import *  # noqa: F403
from .exponential import *  # noqa: F403
from .extrema import *  # noqa: F403
from .fill import *  # noqa: F403
from .gamma import *  # noqa: F403
from .grid import *  # noqa: F403
from .histograms import *  # noqa: F403
from .index import *  # noqa: F403
from .join import *  # noqa: F403
from .linalg import *  # noqa: F403
from .logic import *  # noqa: F403
from .lookup import *  # noqa: F403
from .matmul import *  # noqa: F403
from .medians import *  # noqa: F403
from .moments import *  # noqa: F403
from .order import *  # noqa: F403
from .overwrite import *  # noqa: F403
from .pairwise import *  # noqa: F403
from .powers import *  # noqa: F403
from .reduce import *  # noqa: F403
from .rounding import *  # noqa: F403
from .scan import *  # noqa: F403
from .scatter import *  # noqa: F403
from .scatter_reduce import *  # noqa: F403
from .search import *  # noqa: F403
from .shape import *  # noqa: F403
from .short_time import *  # noqa: F403
from .slices import *  # noqa: F403
from .softmax import log_softmax as log_softmax
from .softmax import softmax as softmax
from .special import *  # noqa: F403
from .statistics import *  # noqa: F403
from .strided import *  # noqa: F403
from .transpose import *  # noqa: F403
from .trigonometric import *  # noqa: F403
from .window_functions import *  # noqa: F403

_module = type(loss)
__all__ = [name for name, value in globals().items() if not name.startswith("_") and not isinstance(value, _module)]
