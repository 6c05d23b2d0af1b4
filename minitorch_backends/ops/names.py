"""The functions of the package that ops declare. They are loaded at their first use (`namespaces`)."""

# ruff: noqa: F401, F403, I001  (sorted by subject)

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .creation.factories import *
    from .creation.sampling import *
    from .elementwise.arithmetic import *
    from .elementwise.special import *
    from .elementwise.cast import *
    from .elementwise.comparison import *
    from .elementwise.complex_numbers import *
    from .elementwise.exponential import *
    from .elementwise.logic import *
    from .elementwise.powers import *
    from .elementwise.rounding import *
    from .elementwise.trigonometric import *
    from .elementwise.activations import celu, celu_, prelu, relu, relu_, selu, sigmoid
    from .elementwise.activations import selu_, rrelu, rrelu_, hardshrink, threshold, threshold_
    from .reductions.cumulative import *
    from .reductions.statistics import *
    from .reductions.minmax import *
    from .reductions.reduce import *
    from .reductions.variance import *
    from .indexing.fill import *
    from .indexing.index import *
    from .indexing.index_functions import *
    from .indexing.scatter import *
    from .indexing.search import *
    from .indexing.sorting import *
    from .views.broadcasting import *
    from .views.join import *
    from .views.rearrange import *
    from .views.shape import *
    from .views.slices import *
    from .views.strided import *
    from .views.transpose import *
    from .matmul.addmm import *
    from .matmul.linear import bilinear
    from .matmul.matmul import *
    from .matmul.scaled import *
    from .matmul.tensor_products import *
    from .einsum.api import einsum
    from .einsum.user_plan import einsum_path, einsum_plan
    from .conv.functions import *
    from .images.pool import adaptive_avg_pool1d, max_pool1d, max_pool1d_with_indices, max_pool2d, max_pool3d
    from .normalization import rms_norm
    from .softmax import log_softmax, softmax
    from .distances import *
    from .distances import pdist
    from .distances import cosine_similarity, pairwise_distance
    from .fft.stft import *
    from .fft.windows import *
    from .linalg.determinant import det_of as det, logdet, slogdet_of as slogdet
    from .linalg.matrix_functions import matrix_exp, matrix_power
    from .linalg.lu import lu_of as lu, lu_solve_of as lu_solve, lu_unpack
    from .linalg.norms import norm_of as norm
    from .linalg.orthogonal import geqrf, orgqr, ormqr, qr_of as qr
    from .linalg.singular import pca_lowrank, pinverse, svd_lowrank, svd_of as svd
    from .linalg.solve import inverse
    from .linalg.triangular import cholesky_inverse, cholesky_of as cholesky, cholesky_solve, triangular_solve
    from .linalg.vectors import cross_product as cross, vander_of as vander
    from .views.view_copies import *
