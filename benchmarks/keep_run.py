"""Keep the figures of the run in compare.json before it is made again: python benchmarks/keep_run.py [--note TEXT].

What is ours, cuDF's own and the GPU's copy rate goes to benchmarks/results/compare_runs.json, without sweeps; the page
shows how far the runs are apart.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from records import Record, as_text

RESULTS = Path(__file__).resolve().parent / "results"
#: What is kept of a run and of a record.
_RUN = ("date", "command", "machine")
_RECORD = ("dataset", "codec", "level", "measure", "value", "stage", "bytes")
_CODECS = ("cudf_fsst", "cudf", "copy")


def kept(content: dict[str, Any], note: str) -> dict[str, Any]:
    """A run, cut down to what the page shows the spread of."""
    records: list[Record] = [
        {key: record[key] for key in _RECORD if key in record}
        for record in content["records"]
        if record["codec"] in _CODECS and "sweep" not in record
    ]
    return {**{key: content[key] for key in _RUN}, "note": note, "records": records}


def with_run(runs: list[dict[str, Any]], run: dict[str, Any]) -> list[dict[str, Any]]:
    """The runs with one more, the newest first.

    Raises
    ------
    ValueError
        The run is there.
    """
    if any(one["records"] == run["records"] for one in runs):
        raise ValueError(f"this run of {run['date']} is kept already")
    return sorted([run, *runs], key=lambda one: one["date"], reverse=True)


def as_file(runs: list[dict[str, Any]]) -> str:
    """JSON with a line for every record."""
    return '{"runs": [\n' + ",\n".join(as_text(run).rstrip("\n") for run in runs) + "\n]}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, default=RESULTS / "compare.json", help="results file of the run")
    parser.add_argument("--note", default="", help="what was different in it, a sentence for the page")
    options = parser.parse_args()
    path = RESULTS / "compare_runs.json"
    runs = json.loads(path.read_text())["runs"] if path.exists() else []
    path.write_text(as_file(with_run(runs, kept(json.loads(options.run.read_text()), options.note))))


if __name__ == "__main__":
    main()
