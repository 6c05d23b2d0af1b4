"""Linear algebra. The names of `mt.linalg` are in its own module; those listed here are names of the package too."""

from . import eigen, least_squares, norms  # noqa: F401
from .determinant import logdet
from .functions import matrix_exp, matrix_power
from .legacy import cholesky, det, inverse, lu_solve, orgqr, ormqr, pinverse, qr, slogdet, svd, triangular_solve
from .legacy import lu_of as lu
from .legacy import norm_of as norm
from .legacy import vander_of as vander
from .low_rank import pca_lowrank, svd_lowrank
from .lu import lu_unpack
from .orthogonal import geqrf
from .triangular import cholesky_inverse, cholesky_solve
from .vectors import cross_product as cross

__all__ = [
    "cholesky", "cholesky_inverse", "cholesky_solve", "cross", "det", "geqrf", "inverse", "logdet", "lu", "lu_solve",
    "lu_unpack", "matrix_exp", "matrix_power", "norm", "orgqr", "ormqr", "pca_lowrank", "pinverse", "qr", "slogdet",
    "svd", "svd_lowrank", "triangular_solve", "vander",
]  # fmt: skip
