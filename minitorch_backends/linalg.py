"""Linear algebra under the names of `torch.linalg`.

`backends.cuda.preferred_linalg_library("default" | "cusolver" | "magma")` chooses the family of algorithms. The
precision flags of matrix products also apply inside `solve`, `inv`, `lstsq` and `cholesky_solve`, which refine their
solutions.
"""

# ruff: noqa: F401

from typing import TYPE_CHECKING

from .namespaces import serve

if TYPE_CHECKING:
    from .ops.linalg.checks import LinAlgError
    from .ops.linalg.cross_check import CrossCheckWarning
    from .ops.linalg.determinant import det, slogdet
    from .ops.linalg.eigen import eig, eigh, eigvals, eigvalsh
    from .ops.linalg.least_squares import lstsq
    from .ops.linalg.lu import ldl_factor, ldl_factor_ex, ldl_solve, lu, lu_factor, lu_factor_ex, lu_solve
    from .ops.linalg.matrix_functions import _linalg_matrix_power as matrix_power
    from .ops.linalg.matrix_functions import matrix_exp
    from .ops.linalg.norms import cond, matrix_norm, norm, vector_norm
    from .ops.linalg.orthogonal import householder_product, qr
    from .ops.linalg.singular import matrix_rank, pinv, svd, svdvals
    from .ops.linalg.solve import inv, inv_ex, solve, solve_ex, tensorinv, tensorsolve
    from .ops.linalg.triangular import cholesky, cholesky_ex, solve_triangular
    from .ops.linalg.vectors import cross, diagonal, vander, vecdot
    from .ops.matmul.matmul import matmul
    from .ops.matmul.tensor_products import multi_dot

serve(__name__)
