"""What only torch's completeness asks for, apart from what the engine's users need.

`verbose` prints kernel calls as oneDNN and MKL do; `xeon` starts several instances of a program, each on cores of its
own. All of it stays reachable under torch's names.
"""
