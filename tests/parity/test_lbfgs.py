"""L-BFGS beside torch's: the same calls of the closure, and the same place."""

from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt

from ..optim.test_lbfgs import SEARCHES, closure_of, rosenbrock
from .peer import torch


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("options", [{}, {"lr": 0.1}, {"max_iter": 7, "history_size": 2}, {"max_eval": 9}], ids=str)
def test_the_way_is_the_same(search: str | None, options: dict[str, Any]) -> None:
    found = []
    for module in (mt, torch):
        x = module.tensor([-1.2, 1.0, -0.5, 2.0], dtype=module.float64, requires_grad=True)
        optimizer = module.optim.LBFGS([x], line_search_fn=search, **options)
        calls: list[float] = []
        for _ in range(3):
            optimizer.step(closure_of(optimizer, lambda x=x: rosenbrock(x), calls))
        found.append((x.detach().numpy(), calls, optimizer.state[x]["n_iter"], optimizer.state[x]["func_evals"]))
    ours, theirs = found
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-4)
    np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-3, atol=1e-9)
    assert ours[2:] == theirs[2:]
