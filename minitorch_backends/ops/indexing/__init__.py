"""Ops that read or write elements by position: indexing, gather and scatter, embeddings, sorting, searching.

`index` has `x[index]` and its assignment, `index_functions` has reads and writes by positions or masks; `scatter` those
along a dimension; `accumulate` adds at places that may repeat, which is the gradient of every look-up.
"""
