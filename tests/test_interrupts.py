"""Interrupts at any time, on every operation: see `interrupts`, which is a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "interrupts.py"


def interrupted(kind: str, seed: int, count: int) -> dict[str, int]:
    """How often each operation met an interrupt."""
    command = [sys.executable, str(PROGRAM), kind, str(seed), str(count)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert result.returncode == 0, result.stderr[-6000:]
    found = result.stdout.strip().removeprefix("{").removesuffix("}")
    return {name.strip(" '"): int(number) for name, number in (one.split(":") for one in found.split(","))}


def test_some_of_each_kind() -> None:
    assert sum(interrupted("all", 1, 60).values()) > 80


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize(("kind", "count"), [("signals", 400), ("starts", 150), ("steps", 150)])
def test_many(kind: str, count: int) -> None:
    met = interrupted(kind, 2, count)
    assert sum(met.values()) > count / 4  # an operation may start fewer threads than were drawn
    assert len([name for name, number in met.items() if number]) >= 18
