"""The functions of neural networks, under the names of torch.nn.functional.

The decorator of `ops.functional` declares each of them beside its definition. They are loaded at their first use.
"""

from ..namespaces import serve

serve(__name__)
