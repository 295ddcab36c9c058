"""Reads the results that pictures and pages are made of: the newest run of the column benchmark, and the anchors."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import readme_table

#: The column that everything is compared on.
DATASET = "tpch.l_comment.sf10"
OURS = "cudf_fsst"


@dataclass(frozen=True)
class Results:
    """One run of ours with what was measured beside it, and reference points that no run of ours produced."""

    run: dict[str, Any]
    anchors: tuple[dict[str, Any], ...]

    def values(self, dataset: str = DATASET) -> dict[str, dict[str, float]]:
        """Codec -> measure -> value, at default level; of a measure taken at several sizes the first."""
        found: dict[str, dict[str, float]] = {}
        for record in self.run["records"]:
            if record["dataset"] == dataset and record.get("level") == "default" and "stage" not in record:
                found.setdefault(record["codec"], {}).setdefault(record["measure"], record["value"])
        return found

    def ours(self, dataset: str = DATASET) -> dict[str, float]:
        return self.values(dataset)[OURS]

    def datasets(self) -> list[str]:
        """Those we were measured on."""
        return list(dict.fromkeys(one["dataset"] for one in self.run["records"] if one["codec"] == OURS))

    def reference(self, measure: str) -> dict[str, dict[str, Any]]:
        """Codec -> the anchor's record of this measure, on the compared column."""
        table = DATASET.rsplit(".", 1)[0]
        return {
            one["codec"]: one
            for one in self.anchors
            if one["measure"] == measure and one["dataset"] in ("none", table, DATASET)
        }

    def copy_gbps(self) -> float:
        """Device to device, bytes read plus bytes written."""
        return float(next(one["value"] for one in self.run["records"] if one["measure"] == "device_copy_gbps"))

    def chars(self) -> int:
        """Characters of the compared column."""
        return int(next(one["bytes"] for one in self.run["records"] if one["dataset"] == DATASET))

    def stages(self) -> dict[str, dict[str, float]]:
        """Call -> kernel or stage -> milliseconds; the benchmark writes them behind the rate of the call's kernels."""
        found: dict[str, dict[str, float]] = {"compress": {}, "decompress": {}}
        call = ""
        for record in self.run["records"]:
            if record["dataset"] != DATASET or record["codec"] != OURS or record.get("level") != "default":
                continue
            call = {"encode_kernel_gbps": "compress", "decode_kernel_gbps": "decompress"}.get(record["measure"], call)
            if record["measure"] == "stage_ms":
                found[call][record["stage"].replace("_", " ")] = record["value"]
        return found

    def call_milliseconds(self, call: str) -> tuple[float, float]:
        """The whole call; its encode or decode kernels, from the start of the first to the end of the last."""
        ours, kernel = self.ours(), {"compress": "encode", "decompress": "decode"}[call]
        return self.chars() / 1e6 / ours[f"{call}_call_gbps"], self.chars() / 1e6 / ours[f"{kernel}_kernel_gbps"]


def read(folder: Path = readme_table.RESULTS) -> Results:
    """The newest run in a folder, and its anchors."""
    run = readme_table.newest(folder)
    if run is None:
        raise FileNotFoundError(f"no results of a GPU in {folder}")
    return Results(run[1], tuple(json.loads((folder / "anchors.json").read_text())["records"]))
