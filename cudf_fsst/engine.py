"""What the command line reads Parquet with: cuDF where a GPU is found, else pandas."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from .interop import cudf as interop
from .parquet.sources import reading

DeviceChoice = Literal["auto", "gpu", "cpu"]


@dataclass(frozen=True)
class Engine:
    """A data frame library and the device it works on.

    Attributes
    ----------
    library : module
        ``cudf`` or ``pandas``.
    device : str
        The device's name, for people.
    on_gpu : bool
    """

    library: Any
    device: str
    on_gpu: bool

    @property
    def name(self) -> str:
        """The library's name and version."""
        return f"{self.library.__name__} {self.library.__version__}"

    def read(self, path: Path, column: str, row_groups: list[int] | None = None) -> Any:
        """Read one column of a Parquet file, all of it or some row groups, as a Series with a RangeIndex."""
        with reading(path):
            if self.on_gpu:
                options = {} if row_groups is None else {"row_groups": row_groups}
                series = self.library.read_parquet(path, columns=[column], **options)[column]
                return series.reset_index(drop=True)
            import pyarrow.parquet as pq

            # pandas itself cannot read some of the row groups. A stored index is of no interest here.
            with pq.ParquetFile(path) as file:
                groups = range(file.num_row_groups) if row_groups is None else row_groups
                table = file.read_row_groups(groups, columns=[column])
            return table.to_pandas(ignore_metadata=True)[column]

    def synchronize(self) -> None:
        """Wait until the device has done all it was asked to."""
        if self.on_gpu:
            import cupy

            cupy.cuda.runtime.deviceSynchronize()


def find_engine(choice: DeviceChoice = "auto") -> Engine:
    """Pick the engine.

    Parameters
    ----------
    choice
        ``"auto"``: cuDF if it can be imported and there is a GPU, else pandas.

    Raises
    ------
    ImportError
        The GPU was asked for and cuDF cannot be imported.
    RuntimeError
        The GPU was asked for and none is found.
    """
    if interop.on_gpu(choice):
        return _gpu_engine()
    import pandas

    from .workers import num_threads

    return Engine(pandas, f"CPU, {num_threads()} threads", on_gpu=False)


def _gpu_engine() -> Engine:
    cudf = interop.cudf_module()
    import cupy

    device = cupy.cuda.runtime.getDevice()
    name = cupy.cuda.runtime.getDeviceProperties(device)["name"]
    return Engine(cudf, name.decode() if isinstance(name, bytes) else str(name), on_gpu=True)
