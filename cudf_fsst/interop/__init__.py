"""The only place that knows the column layouts of cuDF, pandas and Arrow.

`pandas` and `cudf` offer the same functions (``check_dtype``, ``describe``, ``build``, ``frame``, ...), so a
column asks the one that fits its device.
"""
