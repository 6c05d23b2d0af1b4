"""Special functions under the names of `torch.special`."""

# ruff: noqa: F401

from typing import TYPE_CHECKING

from .namespaces import serve

if TYPE_CHECKING:
    from .ops.elementwise.bessel import (
        airy_ai,
        bessel_j0,
        bessel_j1,
        bessel_y0,
        bessel_y1,
        i0,
        i0e,
        i1,
        i1e,
        modified_bessel_k0,
        modified_bessel_k1,
        scaled_modified_bessel_k0,
        scaled_modified_bessel_k1,
        spherical_bessel_j0,
    )
    from .ops.elementwise.bessel import i0 as modified_bessel_i0
    from .ops.elementwise.bessel import i1 as modified_bessel_i1
    from .ops.elementwise.exponential import entr, exp2, expm1, log1p, xlog1py, xlogy
    from .ops.elementwise.exponential import sigmoid as expit
    from .ops.elementwise.gamma import igamma as gammainc
    from .ops.elementwise.gamma import igammac as gammaincc
    from .ops.elementwise.gamma import mvlgamma as multigammaln
    from .ops.elementwise.gamma import zeta
    from .ops.elementwise.polynomials import (
        chebyshev_polynomial_t,
        chebyshev_polynomial_u,
        chebyshev_polynomial_v,
        chebyshev_polynomial_w,
        hermite_polynomial_h,
        hermite_polynomial_he,
        laguerre_polynomial_l,
        legendre_polynomial_p,
        shifted_chebyshev_polynomial_t,
        shifted_chebyshev_polynomial_u,
        shifted_chebyshev_polynomial_v,
        shifted_chebyshev_polynomial_w,
    )
    from .ops.elementwise.rounding import round  # noqa: A004
    from .ops.elementwise.special import (
        digamma,
        erf,
        erfc,
        erfcx,
        erfinv,
        log_ndtr,
        logit,
        ndtr,
        ndtri,
        polygamma,
        sinc,
    )
    from .ops.elementwise.special import digamma as psi
    from .ops.elementwise.special import lgamma as gammaln
    from .ops.norm.softmax import log_softmax, softmax
    from .ops.reductions.variance import logsumexp

serve(__name__)
