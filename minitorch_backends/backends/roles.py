"""Roles of the operands of products, by the names of their flags below `backends.operands`."""

ROLES = {
    "weight": "weights of layers, and parameters in products with other tensors",
    "activation": "what meets a weight in the forward pass",
    "gradient": "gradients of results, in the products of the backward pass",
    "query": "attention's queries, with keys",
    "key": "attention's keys: its cache where queries have no format",
    "value": "attention's values: its cache where probabilities have no format",
    "probability": "attention's probabilities, with values",
    "input_gradient.gradient": "gradients, in products for gradients of inputs",
    "input_gradient.weight": "weights, in products for gradients of inputs",
    "weight_gradient.activation": "activations, in products for gradients of weights",
    "weight_gradient.gradient": "gradients, in products for gradients of weights",
}
"""The meaning of each role; with a prefix, in one product of the backward pass."""
