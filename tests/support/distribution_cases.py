"""Distributions for tests, as their names and arguments, and their names in SciPy.

Lists stand for float64 tensors.
"""

from typing import Any

import numpy as np

__all__ = ["CASES", "SCIPY", "make_distribution"]

_COVARIANCE = [[2.0, 0.3, 0.1], [0.3, 1.0, -0.2], [0.1, -0.2, 0.5]]
_PROBS = [[0.2, 0.5, 0.3], [0.6, 0.1, 0.3]]

CASES: dict[str, tuple[str, dict[str, Any], Any]] = {
    "Normal": ("Normal", {"loc": [0.3, -1.0], "scale": [0.5, 2.0]}, [0.1, 0.7]),
    "Laplace": ("Laplace", {"loc": [0.3, -1.0], "scale": [0.5, 2.0]}, [0.1, 0.7]),
    "Cauchy": ("Cauchy", {"loc": [0.3, -1.0], "scale": [0.5, 2.0]}, [0.1, 0.7]),
    "Gumbel": ("Gumbel", {"loc": [0.3, -1.0], "scale": [0.5, 2.0]}, [0.1, 0.7]),
    "LogNormal": ("LogNormal", {"loc": [0.3, -1.0], "scale": [0.5, 0.8]}, [0.4, 1.7]),
    "HalfNormal": ("HalfNormal", {"scale": [0.5, 2.0]}, [0.1, 0.7]),
    "HalfCauchy": ("HalfCauchy", {"scale": [0.5, 2.0]}, [0.1, 0.7]),
    "StudentT": ("StudentT", {"df": [2.5, 5.0], "loc": [0.3, -1.0], "scale": [0.5, 2.0]}, [0.1, 0.7]),
    "Uniform": ("Uniform", {"low": [0.0, -1.0], "high": [0.5, 2.0]}, [0.1, 0.7]),
    "Exponential": ("Exponential", {"rate": [0.5, 2.0]}, [0.4, 1.7]),
    "Gamma": ("Gamma", {"concentration": [0.7, 2.5], "rate": [0.5, 2.0]}, [0.4, 1.7]),
    "Chi2": ("Chi2", {"df": [1.5, 4.0]}, [0.4, 1.7]),
    "InverseGamma": ("InverseGamma", {"concentration": [2.7, 3.5], "rate": [0.5, 2.0]}, [0.4, 1.7]),
    "FisherSnedecor": ("FisherSnedecor", {"df1": [3.0, 4.0], "df2": [5.0, 7.0]}, [0.4, 1.7]),
    "Beta": ("Beta", {"concentration1": [0.7, 2.5], "concentration0": [1.5, 3.0]}, [0.3, 0.6]),
    "Kumaraswamy": ("Kumaraswamy", {"concentration1": [0.7, 2.5], "concentration0": [1.5, 3.0]}, [0.3, 0.6]),
    "Pareto": ("Pareto", {"scale": [0.5, 1.0], "alpha": [2.5, 3.0]}, [0.8, 1.7]),
    "GeneralizedPareto": (
        "GeneralizedPareto", {"loc": [0.1, 0.0], "scale": [0.5, 1.0], "concentration": [0.2, -0.3]}, [0.8, 1.7]
    ),
    "Weibull": ("Weibull", {"scale": [0.5, 1.0], "concentration": [0.8, 3.0]}, [0.4, 1.7]),
    "VonMises": ("VonMises", {"loc": [0.3, -1.0], "concentration": [0.5, 3.0]}, [0.1, 0.7]),
    "Bernoulli": ("Bernoulli", {"probs": [0.2, 0.7]}, [1.0, 0.0]),
    "Bernoulli of logits": ("Bernoulli", {"logits": [0.2, -0.7]}, [1.0, 0.0]),
    "ContinuousBernoulli": ("ContinuousBernoulli", {"probs": [0.2, 0.5001]}, [0.3, 0.6]),
    "Geometric": ("Geometric", {"probs": [0.2, 0.7]}, [3.0, 0.0]),
    "Binomial": ("Binomial", {"total_count": 4, "probs": [0.2, 0.7]}, [3.0, 0.0]),
    "NegativeBinomial": ("NegativeBinomial", {"total_count": 4, "probs": [0.2, 0.7]}, [3.0, 0.0]),
    "Poisson": ("Poisson", {"rate": [0.2, 3.0]}, [3.0, 0.0]),
    "Categorical": ("Categorical", {"probs": _PROBS}, [2.0, 0.0]),
    "Categorical of logits": ("Categorical", {"logits": [[0.1, 1.0, -1.0]]}, [2.0]),
    "OneHotCategorical": ("OneHotCategorical", {"probs": _PROBS}, [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]),
    "Multinomial": ("Multinomial", {"total_count": 4, "probs": _PROBS}, [[1.0, 3.0, 0.0], [2.0, 1.0, 1.0]]),
    "Dirichlet": ("Dirichlet", {"concentration": [[0.7, 2.5, 1.0], [2.0, 3.0, 4.0]]}, [0.2, 0.3, 0.5]),
    "MultivariateNormal": (
        "MultivariateNormal", {"loc": [0.3, -1.0, 0.0], "covariance_matrix": _COVARIANCE}, [0.1, 0.7, -0.4]
    ),
    "LowRankMultivariateNormal": (
        "LowRankMultivariateNormal",
        {"loc": [0.3, -1.0, 0.0], "cov_factor": [[0.5], [1.0], [-0.3]], "cov_diag": [0.5, 0.2, 0.3]},
        [0.1, 0.7, -0.4],
    ),
    "LKJCholesky": (
        "LKJCholesky",
        {"dim": 3, "concentration": 1.5},
        np.linalg.cholesky([[1, 0.3, 0.1], [0.3, 1, -0.2], [0.1, -0.2, 1]]),
    ),
    "Wishart": (
        "Wishart", {"df": 4.0, "covariance_matrix": _COVARIANCE}, [[2.0, 0.1, 0.3], [0.1, 3.0, 0.2], [0.3, 0.2, 1.0]]
    ),
    "LogisticNormal": ("LogisticNormal", {"loc": [0.3, -1.0], "scale": [0.5, 2.0]}, [0.2, 0.3, 0.5]),
    "RelaxedBernoulli": ("RelaxedBernoulli", {"temperature": 0.7, "probs": [0.2, 0.7]}, [0.3, 0.6]),
    "RelaxedOneHotCategorical": ("RelaxedOneHotCategorical", {"temperature": 0.7, "probs": _PROBS}, [0.2, 0.3, 0.5]),
}  # fmt: skip
"""The name of a case -> the class, its arguments, and a value of the support."""

SCIPY: dict[str, tuple[str, dict[str, Any]]] = {
    "Normal": ("norm", {"loc": 0.3, "scale": 0.5}),
    "Laplace": ("laplace", {"loc": 0.3, "scale": 0.5}),
    "Cauchy": ("cauchy", {"loc": 0.3, "scale": 0.5}),
    "Gumbel": ("gumbel_r", {"loc": 0.3, "scale": 0.5}),
    "LogNormal": ("lognorm", {"s": 0.5, "scale": np.exp(0.3)}),
    "HalfNormal": ("halfnorm", {"scale": 0.5}),
    "HalfCauchy": ("halfcauchy", {"scale": 0.5}),
    "StudentT": ("t", {"df": 2.5, "loc": 0.3, "scale": 0.5}),
    "Uniform": ("uniform", {"loc": 0.0, "scale": 0.5}),
    "Exponential": ("expon", {"scale": 2.0}),
    "Gamma": ("gamma", {"a": 0.7, "scale": 2.0}),
    "Chi2": ("chi2", {"df": 1.5}),
    "InverseGamma": ("invgamma", {"a": 2.7, "scale": 0.5}),
    "FisherSnedecor": ("f", {"dfn": 3.0, "dfd": 5.0}),
    "Beta": ("beta", {"a": 0.7, "b": 1.5}),
    "Pareto": ("pareto", {"b": 2.5, "scale": 0.5}),
    "GeneralizedPareto": ("genpareto", {"c": 0.2, "loc": 0.1, "scale": 0.5}),
    "Weibull": ("weibull_min", {"c": 0.8, "scale": 0.5}),
    "VonMises": ("vonmises", {"kappa": 0.5, "loc": 0.3}),
    "Bernoulli": ("bernoulli", {"p": 0.2}),
    "Geometric": ("geom", {"p": 0.2, "loc": -1}),
    "Binomial": ("binom", {"n": 4, "p": 0.2}),
    "NegativeBinomial": ("nbinom", {"n": 4, "p": 0.8}),
    "Poisson": ("poisson", {"mu": 0.2}),
    "Dirichlet": ("dirichlet", {"alpha": [0.7, 2.5, 1.0]}),
    "MultivariateNormal": ("multivariate_normal", {"mean": [0.3, -1.0, 0.0], "cov": _COVARIANCE}),
    "Multinomial": ("multinomial", {"n": 4, "p": [0.2, 0.5, 0.3]}),
}
"""The first of a case's batch in SciPy."""


def make_distribution(name: str, module: Any, requires_grad: bool = False) -> tuple[Any, list[Any], Any]:
    """The distribution of a case, its parameters, and the value, of a module with torch's names."""
    kind, arguments, value = CASES[name]
    given = {
        key: module.tensor(each, dtype=module.float64, requires_grad=requires_grad)
        if not isinstance(each, int)
        else each
        for key, each in arguments.items()
    }
    leaves = [each for each in given.values() if not isinstance(each, int)]
    return getattr(module.distributions, kind)(**given), leaves, module.tensor(value, dtype=module.float64)
