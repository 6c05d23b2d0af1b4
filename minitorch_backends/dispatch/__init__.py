"""Dispatch of ops: declaration, binding, promotion, execution and recording.

`op` has the decorators, `dispatch` the definition of a call, `codegen` the fast path generated from it. `promotion`
casts inputs to one dtype, `out_argument` writes results into tensors.
"""
