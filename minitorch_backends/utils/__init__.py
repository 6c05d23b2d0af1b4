"""Tools that work on functions and models, under the names of torch.utils; and the text of tensors."""

from ..namespaces import serve
from . import checkpoint, printing  # noqa: F401  (printing installs the text of tensors)

__all__ = ["checkpoint"]

serve(__name__)
