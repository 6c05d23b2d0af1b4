"""Function transforms, under the names of torch.func: derivatives, maps over batches, and modules as functions of their
parameters.

Transforms can be nested. Arguments may be tensors, or tuples, lists and dicts of them.
"""

from ..namespaces import serve
from .derivatives import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp
from .modules import functional_call, replace_all_batch_norm_modules_, stack_module_state
from .vmap import vmap

__all__ = [
    "functional_call", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize",
    "replace_all_batch_norm_modules_", "stack_module_state", "vjp", "vmap",
]  # fmt: skip

serve(__name__)
