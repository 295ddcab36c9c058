"""The only place that knows the column layouts of cuDF, pandas and Arrow.

The modules `pandas` and `cudf` are each an `adapter.Adapter`, so a column asks the one that fits its device.
"""
