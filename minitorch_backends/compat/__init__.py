"""Features that exist only for compatibility with torch.

`verbose` prints kernel calls as oneDNN and MKL do; `xeon` starts several instances of a program, each on its own cores.
All of it is available under torch's names.
"""
