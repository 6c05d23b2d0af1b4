"""The tensor and its parts: `tensor` has the class, `dtypes` the element types and torch's promotion rules, `casting`
the casts, `size` shapes, `memory` torch's devices and orders of elements. What all calls share stands here too:
`registry` lists the ops, `instrumentation` holds the state that every call checks, `call_errors` words the errors.
"""
