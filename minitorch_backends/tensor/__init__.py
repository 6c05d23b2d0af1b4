"""The tensor and what it is made of: element types, sizes, casts, printing, copies, and arrays in and out.

`tensor` has the class, `dtypes` the element types and torch's rules of promotion, `casting` conversions between them.
`from_data` makes arrays from Python data, `dlpack` exchanges them with other libraries, `printing` lays out their text.
"""
