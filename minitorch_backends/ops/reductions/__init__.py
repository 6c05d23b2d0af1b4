"""Ops that bring dimensions to one number each: sums, extrema, variances, norms, medians, running forms, counts.

`reduce` has sums, means, all and any; `minmax` extrema; `variance` also norms and logsumexp; `cumulative` running sums
and products.
"""
