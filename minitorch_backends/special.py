"""Special functions under the names of `torch.special`."""

# ruff: noqa: F401

from typing import TYPE_CHECKING

from .namespaces import serve

if TYPE_CHECKING:
    from .ops.elementwise.activations import sigmoid as expit
    from .ops.elementwise.exponential import exp2, expm1, log1p
    from .ops.elementwise.rounding import round  # noqa: A004
    from .ops.elementwise.special import (
        airy_ai,
        bessel_j0,
        bessel_j1,
        bessel_y0,
        bessel_y1,
        chebyshev_polynomial_t,
        chebyshev_polynomial_u,
        chebyshev_polynomial_v,
        chebyshev_polynomial_w,
        digamma,
        entr,
        erf,
        erfc,
        erfcx,
        erfinv,
        hermite_polynomial_h,
        hermite_polynomial_he,
        i0,
        i0e,
        i1,
        i1e,
        laguerre_polynomial_l,
        legendre_polynomial_p,
        log_ndtr,
        logit,
        modified_bessel_k0,
        modified_bessel_k1,
        ndtr,
        ndtri,
        polygamma,
        scaled_modified_bessel_k0,
        scaled_modified_bessel_k1,
        shifted_chebyshev_polynomial_t,
        shifted_chebyshev_polynomial_u,
        shifted_chebyshev_polynomial_v,
        shifted_chebyshev_polynomial_w,
        sinc,
        spherical_bessel_j0,
        xlog1py,
        xlogy,
        zeta,
    )
    from .ops.elementwise.special import digamma as psi
    from .ops.elementwise.special import i0 as modified_bessel_i0
    from .ops.elementwise.special import i1 as modified_bessel_i1
    from .ops.elementwise.special import igamma as gammainc
    from .ops.elementwise.special import igammac as gammaincc
    from .ops.elementwise.special import lgamma as gammaln
    from .ops.elementwise.special import mvlgamma as multigammaln
    from .ops.reductions.variance import logsumexp
    from .ops.softmax import log_softmax, softmax

serve(__name__)
