"""Columns and frames that leave the GPU, and then host memory, when there is no room for them, and come back."""

from .oom import spilling
from .pool import SpillPool
from .stats import Moves, SpillStats

__all__ = ["Moves", "SpillPool", "SpillStats", "spilling"]
