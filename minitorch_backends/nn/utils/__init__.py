"""Helpers for training and inference: gradient clipping, fusion of layers, and layers under their own flags."""

from ...namespaces import serve
from .clip_grad import clip_grad_norm_, clip_grad_value_, clip_grads_with_norm_, get_total_norm
from .convert_parameters import parameters_to_vector, vector_to_parameters
from .fusion import fuse, fuse_conv_bn_eval, fuse_conv_bn_weights, fuse_linear_bn_eval, fuse_linear_bn_weights
from .scopes import matching_names, run_under
from .weight_norm import remove_spectral_norm, remove_weight_norm, spectral_norm, weight_norm

__all__ = [
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "fuse",
    "fuse_conv_bn_eval",
    "fuse_conv_bn_weights",
    "fuse_linear_bn_eval",
    "fuse_linear_bn_weights",
    "get_total_norm",
    "matching_names",
    "parameters_to_vector",
    "remove_spectral_norm",
    "remove_weight_norm",
    "run_under",
    "spectral_norm",
    "vector_to_parameters",
    "weight_norm",
]  # fmt: skip

serve(__name__)
