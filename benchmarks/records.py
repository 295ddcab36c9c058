"""Records of measurements, and a results file that several runs fill, part by part."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

Record = dict[str, Any]


class ResultsFile:
    """Records in parts: a part that is measured again replaces its records, everything else stays.

    Every part names the date, the command and the seconds of its run, what its machine had different from the file's
    (a driver, say), and what failed.

    Parameters
    ----------
    path
        The file; read if it exists.
    machine
        What this run measures on.
    date, command
        Of this run.

    Raises
    ------
    ValueError
        The file holds results of another GPU.
    """

    def __init__(self, path: Path, machine: dict[str, Any], date: str, command: str) -> None:
        self.path = path
        self.run = {"date": date, "command": command}
        self.content: dict[str, Any] = {"machine": machine, **self.run, "parts": {}, "records": []}
        if path.exists():
            self.content = json.loads(path.read_text())
            other = self.content["machine"]
            if other["gpu"] != machine["gpu"]:
                raise ValueError(f"{path} holds results of {other['gpu']}, this is {machine['gpu']}")
            differs = {key: value for key, value in machine.items() if value != other.get(key)}
            if differs:
                self.run["machine"] = differs

    def missing(self, part: str) -> bool:
        """Whether the part has not been measured."""
        return part not in self.content["parts"]

    def seconds(self, kind: str) -> float:
        """The longest that a part of this kind (its name up to the colon) has taken."""
        parts = self.content["parts"].items()
        return max((one["seconds"] for part, one in parts if part.partition(":")[0] == kind), default=0.0)

    def replace(self, part: str, records: list[Record], seconds: float, failed: list[str]) -> None:
        """Put a part's records in the place of those it had, or at the end, and write the file."""
        content = self.content
        by_part: dict[str, list[Record]] = {one: [] for one in content["parts"]}
        for record in content["records"]:
            by_part[record["part"]].append(record)
        by_part[part] = [{**one, "part": part} for one in records]
        content["records"] = [record for those in by_part.values() for record in those]
        content["parts"][part] = {**self.run, "seconds": round(seconds, 1)}
        if failed:
            content["parts"][part]["failed"] = failed
        content["date"] = max(one["date"] for one in content["parts"].values())
        content["command"] = "; ".join(dict.fromkeys(one["command"] for one in content["parts"].values()))
        written = self.path.with_suffix(".new")
        written.write_text(as_text(content))
        written.replace(self.path)


def as_text(content: dict[str, Any]) -> str:
    """JSON with a line for every record."""
    head = json.dumps({key: value for key, value in content.items() if key != "records"}, indent=1)
    lines = (json.dumps(record, separators=(",", ":")) for record in content["records"])
    records = ",\n".join(f"  {line}" for line in lines)
    return f'{head[:-2]},\n "records": [\n{records}\n ]\n}}\n'


def best_chunk(records: list[Record]) -> int:
    """The chunk size whose ratio times both rates is highest, of one codec's records."""
    figures: dict[int, list[float]] = {}
    for record in records:
        if record["measure"] in ("ratio_column", "compress_call_gbps", "decompress_call_gbps"):
            figures.setdefault(record["chunk_bytes"], []).append(record["value"])
    return max(figures, key=lambda chunk: math.prod(figures[chunk]))
