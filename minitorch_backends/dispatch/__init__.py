"""The op: how one is declared, and how a call of it is bound, promoted, run and recorded.

`op` has the decorators, `dispatch` the definition of a call, `codegen` the fast path that is generated from it.
`promotion` brings inputs to one dtype, `out_argument` and `mutation` write results into tensors, `call_errors` words
what went wrong. `registry` lists all ops, `samples` their test calls, `instrumentation` what every call checks.
"""
