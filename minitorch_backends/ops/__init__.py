"""The operations: one decorated block each. Importing a module declares its ops and installs their methods.

A name that is listed in a module's `__all__` and imported here by `*` is a public name of the package.
"""

# ruff: noqa: F401, F403, I001  (sorted by subject)

from . import recurrent, recurrent_cells
from .creation.factories import *
from .creation.memory import *
from .creation.sampling import *
from .creation.variates import *
from .elementwise import dropout, gated_activations, polynomials, random_activations, shrinkage
from .elementwise.arithmetic import *
from .elementwise.bessel import *
from .elementwise.cast import *
from .elementwise.comparison import *
from .elementwise.complex_numbers import *
from .elementwise.exponential import *
from .elementwise.formats import *
from .elementwise.gamma import *
from .elementwise.logic import *
from .elementwise.powers import *
from .elementwise.rounding import *
from .elementwise.special import *
from .elementwise.trigonometric import *
from .elementwise.activations import relu as relu
from .reductions.differences import *
from .reductions.histograms import *
from .reductions.medians import *
from .reductions.minmax import *
from .reductions.reduce import *
from .reductions.scan import *
from .reductions.statistics import *
from .reductions.variance import *
from .indexing import embedding, embedding_bag
from .indexing.fill import *
from .indexing.index import *
from .indexing.lookup import *
from .indexing.overwrite import *
from .indexing.scatter import *
from .indexing.scatter_reduce import *
from .indexing.search import *
from .indexing.sorting import *
from .views import inplace_metadata, padding, view_replay
from .views.broadcasting import *
from .views.join import *
from .views.rearrange import *
from .views.shape import *
from .views.slices import *
from .views.strided import *
from .views.transpose import *
from .matmul import bilinear, linear
from .matmul.addmm import *
from .matmul.matmul import *
from .matmul.scaled import *
from .matmul.tensor_products import *
from .einsum import *
from .conv import convolution, fold
from .conv.functions import *
from .images import adaptive_pool, fractional_pool, grid_sample, lp_pool, pool, resize
from .norm import normalization
from .norm.softmax import log_softmax as log_softmax
from .norm.softmax import softmax as softmax
from .losses import cross_entropy, ctc, margin, pointwise
from .attention import multihead, scaled_dot_product
from .distances import similarity
from .distances.pairwise import *
from .fft import frequencies, many_dims, one_dim, transforms
from .fft.stft import *
from .fft.windows import *
from .linalg import *
from .derived_methods import *
from .aliases import *

_module = type(recurrent)
__all__ = [name for name, value in globals().items() if not name.startswith("_") and not isinstance(value, _module)]
