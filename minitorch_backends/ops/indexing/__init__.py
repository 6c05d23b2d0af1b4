"""Ops that read or write elements by position: indexing, gather and scatter, embeddings, sorting, searching.

`index` has `x[index]` and its assignment; `lookup` and `scatter` read and write along a dimension; `accumulate` adds at
places that may repeat, which is the gradient of every look-up.
"""
