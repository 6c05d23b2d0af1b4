"""What only torch's completeness asks for, apart from what the engine's users need.

`verbose` prints kernel calls as oneDNN and MKL do. All of it stays reachable under torch's names.
"""
