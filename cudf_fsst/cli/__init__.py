"""The ``cudf-fsst`` command: a function for each command in `commands`, what it shows in `terminal`."""

from .commands import app as app
from .commands import main as main
