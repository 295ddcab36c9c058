"""Which of several codecs a leaf gets: the one that is smallest, by what each measures."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TypeVar

from ..naming import What, named

_T = TypeVar("_T")
_log = logging.getLogger("cudf_fsst.codecs")


def smallest(
    candidates: Sequence[_T], sizes: Sequence[int], of: str, nbytes: int, *, plain: _T | None = None, what: What = None
) -> _T:
    """The candidate that is smallest, of equal ones the first.

    Parameters
    ----------
    candidates
        Codecs, with their options, as the log calls them.
    sizes
        Bytes that each measured.
    of, nbytes
        What was measured, a word, and its bytes as it is.
    plain
        What is taken unless a candidate saves a twentieth of these, which is what makes it worth decoding.
    what
        What the log calls the leaf.
    """
    best = min(range(len(sizes)), key=sizes.__getitem__, default=None)
    small = best is not None and (plain is None or sizes[best] <= 0.95 * nbytes)
    chosen = candidates[best] if best is not None and small else plain
    assert chosen is not None  # there is a candidate, or `plain`
    if _log.isEnabledFor(logging.DEBUG):
        said = ", ".join(f"{candidate} {size:,} B" for candidate, size in zip(candidates, sizes, strict=True))
        said = said or "nothing else takes them"
        _log.debug("%s: codec %s; a %s of %s B: %s", named(what), chosen, of, f"{nbytes:,}", said)
    return chosen
