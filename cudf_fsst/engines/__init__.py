"""Compressed frames as tables of engines, which ask for some columns and rows of them, piece by piece.

``tables.py`` has the columns, of which engines ask pieces of rows. ``polars.py`` makes a ``polars.LazyFrame``, whose
rows ``polars_source.py`` gives, and for the GPU engine ``polars_gpu.py``. ``arrow_filter.py`` and ``polars_filter.py``
read what engines filter by, as predicates (``predicates.py``), which ``filter.py`` answers on the codes. Rows that
cannot be meant are not decoded; the engine filters the others itself. So a predicate that is not known costs time and
nothing else.
"""
