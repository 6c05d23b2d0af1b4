"""The tensor and its parts: dtypes, sizes, casts, printing, copies, and conversion from and to other libraries.

`tensor` has the class, `dtypes` the element types and torch's promotion rules, `casting` the casts. `from_data` makes
arrays from Python data, `dlpack` exchanges them with other libraries, `printing` lays out their text.
"""
