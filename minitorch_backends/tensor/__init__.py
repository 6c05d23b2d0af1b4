"""The tensor and its parts: `tensor` has the class, `dtypes` the element types and torch's promotion rules, `casting`
the casts, `size` shapes, `memory` torch's devices and orders of elements.
"""
