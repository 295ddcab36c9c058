"""What users are told while they wait."""

from __future__ import annotations

import logging
import os
import sys

_log = logging.getLogger("cudf_fsst")


def tell(text: str) -> None:
    """Say why a call takes long.

    That is a record at level INFO of the logger ``cudf_fsst`` and, where that logger has no handlers at all, a line on
    stderr. ``CUDF_FSST_QUIET=1`` leaves the line out.
    """
    _log.info(text)
    if not _log.hasHandlers() and os.environ.get("CUDF_FSST_QUIET", "0") in ("", "0"):
        print(f"cudf_fsst: {text}", file=sys.stderr)
