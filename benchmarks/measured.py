"""Reads the results that pictures and pages are made of: the newest run, the kernels' counters and the anchors."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import readme_table

#: The column that everything is compared on.
DATASET = "tpch.l_comment.sf10"
OURS = "cudf_fsst"


@dataclass(frozen=True)
class Results:
    """One run of ours with what was measured beside it, and reference points that no run of ours produced.

    Beside it: counters of kernels, what single calls cost, and the figures of earlier runs, the newest first.
    """

    run: dict[str, Any]
    anchors: tuple[dict[str, Any], ...]
    kernels: dict[str, Any] | None = None
    latency: dict[str, Any] | None = None
    earlier: tuple[dict[str, Any], ...] = ()

    def values(self, dataset: str = DATASET) -> dict[str, dict[str, float]]:
        """Codec -> measure -> value; of a measure taken at several sizes the first.

        Another level than the default is a codec of its own, ``cudf_fsst.max`` for example. Sweeps are left out.
        """
        found: dict[str, dict[str, float]] = {}
        for record in self.run["records"]:
            if record["dataset"] == dataset and not {"stage", "sweep"} & record.keys():
                codec = codec_of(record)
                found.setdefault(codec, {}).setdefault(record["measure"], record["value"])
        return found

    def sweep(self, kind: str, dataset: str = DATASET) -> list[dict[str, Any]]:
        """Records of a sweep."""
        return [one for one in self.run["records"] if one.get("sweep") == kind and one["dataset"] == dataset]

    @property
    def main_column(self) -> str:
        """The compared column, for people."""
        return f"TPC-H {DATASET.split('.')[1]}"

    @property
    def subject(self) -> str:
        """The compared column and where it was measured, for people."""
        gpu = self.run["machine"]["gpu"]
        return f"{self.main_column}, {self.chars() / 1e9:.2f} GB in the memory of one {gpu}"

    @property
    def compared(self) -> bool:
        """Whether the run is one of the whole comparison."""
        return "parts" in self.run

    def ours(self, dataset: str = DATASET) -> dict[str, float]:
        return self.values(dataset)[OURS]

    def datasets(self) -> list[str]:
        """Those we were measured on."""
        names = dict.fromkeys(one["dataset"] for one in self.run["records"])
        return [name for name in names if "decompress_call_gbps" in self.values(name).get(OURS, {})]

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
        return int(
            next(
                one["bytes"]
                for one in self.run["records"]
                if one["dataset"] == DATASET and one["codec"] == OURS and "sweep" not in one
            )
        )

    def stages(self) -> dict[str, dict[str, float]]:
        """Call -> kernel or stage -> milliseconds, on the compared column."""
        return stages_of(
            one
            for one in self.run["records"]
            if one["dataset"] == DATASET and codec_of(one) == OURS and "sweep" not in one
        )

    def call_milliseconds(self, call: str) -> tuple[float, float]:
        """The whole call; its encode or decode kernels, from the start of the first to the end of the last."""
        ours, kernel = self.ours(), {"compress": "encode", "decompress": "decode"}[call]
        return self.chars() / 1e6 / ours[f"{call}_call_gbps"], self.chars() / 1e6 / ours[f"{kernel}_kernel_gbps"]


#: Codecs whose names people write differently.
NAMES = {
    OURS: "cudf-fsst",
    f"{OURS}.max": 'cudf-fsst, "max"',
    f"{OURS}.cpu": "cudf-fsst, CPU",
    f"{OURS}.onpair": "cudf-fsst, onpair",
    f"{OURS}.onpair.max": 'cudf-fsst, onpair "max"',
    "nvcomp.lz4": "LZ4",
    "nvcomp.ans": "ANS",
    "nvcomp.gdeflate": "GDeflate",
    "cudf.parquet_snappy": "cuDF Parquet, Snappy",
    "cudf.parquet_zstd": "cuDF Parquet, Zstd",
    "cudf.category": "cuDF category",
    "cudf.pinned_copy": "plain pinned copy",
}


def name_of(codec: str) -> str:
    """A codec's name for people."""
    short = codec.removeprefix("nvcomp.")
    return NAMES.get(codec, short if short == codec else short.capitalize())


def stages_of(records: Iterable[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Call -> kernel or stage -> milliseconds; benchmarks write them behind the rate of the call's kernels."""
    found: dict[str, dict[str, float]] = {"compress": {}, "decompress": {}}
    call = ""
    for record in records:
        call = {"encode_kernel_gbps": "compress", "decode_kernel_gbps": "decompress"}.get(record["measure"], call)
        if record["measure"] == "stage_ms":
            found[call][record["stage"].replace("_", " ")] = record["value"]
    return found


def codec_of(record: dict[str, Any]) -> str:
    """The codec's name, with the level where that is not the default."""
    level = record.get("level", "default")
    return str(record["codec"]) if level in ("default", "none") else f"{record['codec']}.{level}"


def read(folder: Path = readme_table.RESULTS) -> Results:
    """The newest run in a folder and its anchors; where there are some the kernels' counters, calls, earlier runs."""

    def content(name: str) -> dict[str, Any] | None:
        path = folder / f"{name}.json"
        return json.loads(path.read_text()) if path.exists() else None

    run = readme_table.newest(folder)
    if run is None:
        raise FileNotFoundError(f"no results of a GPU in {folder}")
    anchors = json.loads((folder / "anchors.json").read_text())["records"]
    earlier = content("compare_runs") or {"runs": []}
    return Results(run[1], tuple(anchors), content("kernels"), content("latency"), tuple(earlier["runs"]))
