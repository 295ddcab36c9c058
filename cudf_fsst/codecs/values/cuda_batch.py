"""Streams of fixed-width values in GPU memory that are measured, and packed, at once: see `cuda_compress`."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...device.memory import ALIGNMENT, Lane, Workspace
from ...naming import What
from ...profiling import ENCODE, MEASURE
from ..cuda_kernels import blocks, get_kernel
from ..cuda_tables import JobTables
from ..part import Packed, align
from ..registry import PLAIN, on_device
from . import plan
from .launch import DEFINES, FILL_BLOCK, GatherJob

_THREADS = 256
#: Bytes of the room. What is gathered there is read again from the L2.
_ROOM_NBYTES = 16 << 20
#: Bytes that a job's kernels leave for the host.
_TOTALS_NBYTES = 24
_Fields = tuple[int, ...]
#: Thread blocks and fields of a job.
_Jobs = Sequence[tuple[int, _Fields]]


class StreamSource(NamedTuple):
    """The values of a stream in GPU memory, or the bitmap or wide column they are gathered from.

    Attributes
    ----------
    address : int
    rows, itemsize : int
        Values of the stream, and bytes of one.
    half : int or None
        0 or 1: the low or high 64 bits of numbers of 16 bytes, which lie at `address`; None: all of the values.
    validity, validity_offset : int
        Bitmap of values that are not null, 0: none are; nulls are filled in.
    bits : int
        The values are the bytes of a bitmap of so many bits, which begins at bit `validity_offset` of `address`; 0:
        they are not.
    """

    address: int
    rows: int
    itemsize: int
    half: int | None = None
    validity: int = 0
    validity_offset: int = 0
    bits: int = 0

    @classmethod
    def bitmap(cls, address: int, offset: int, bits: int) -> StreamSource:
        """The bytes of a bitmap, with its first bit at bit 0."""
        return cls(address, blocks(bits, 8), 1, validity_offset=offset, bits=bits)

    @property
    def in_place(self) -> bool:
        """Whether the values lie there as the codecs want them."""
        return self.half is None and not self.validity and not self.bits

    def gather(self, start: int, stop: int, out: int, run: int = 0, step: int = 0) -> tuple[int, _Fields]:
        """Thread blocks and fields of the job that writes rows `start` (a multiple of `FILL_BLOCK`) to `stop`.

        With a `run`: only so many rows of each `step` rows.
        """
        if self.bits:
            rows, itemsize, stride = min(self.bits - 8 * start, 8 * (stop - start)), 0, 1
            address, offset = self.address, self.validity_offset + 8 * start
        else:
            rows, itemsize, stride = stop - start, self.itemsize, 1 if self.half is None else 2
            address = self.address + itemsize * (stride * start + (self.half or 0))
            offset = self.validity_offset + start
        if run:
            run_blocks = run // FILL_BLOCK
            count = run_blocks * ((stop - start - run) // step + 1)
        else:
            count = run_blocks = blocks(stop - start, FILL_BLOCK)
        fields = GatherJob(address, out, rows, itemsize, stride, count, run_blocks, step, self.validity, offset)
        return blocks(count, _THREADS // 32), fields


class StreamTask(NamedTuple):
    """A stream of values to compress.

    Attributes
    ----------
    source : StreamSource
    floats, signed : bool
        What the values are: floating point numbers, or integers with a sign.
    codec : str or None
        One of `plan.CODECS`; None: the best on a sample.
    what : str, callable or None
        What the log calls them.
    choice : plan.Choice or None
        The codec, with its options; then nothing is tried.
    """

    source: StreamSource
    floats: bool = False
    signed: bool = False
    codec: str | None = None
    what: What = None
    choice: plan.Choice | None = None

    @property
    def choices(self) -> Sequence[plan.Choice]:
        """Codecs with options of which the sample tells the smallest."""
        if self.choice is not None:
            return (self.choice,)
        return plan.candidates(self.source.itemsize, floats=self.floats, codec=self.codec)

    @property
    def known(self) -> bool:
        """Whether the codec is known without a sample."""
        return self.choice is not None or (self.codec is not None and len(self.choices) == 1)


class _Window(NamedTuple):
    """Values of an item that are gathered, measured and packed at once."""

    first: int
    rows: int
    offset: int | None  # in the staging buffer; None: they are read where they lie


class StreamItem:
    """Consecutive values that become a `Packed`, or the sample of a stream: `run` rows of each `step`."""

    def __init__(
        self,
        task: StreamTask,
        choices: Sequence[plan.Choice],
        start: int,
        stop: int,
        work: Workspace,
        run: int = 0,
        step: int = 0,
    ) -> None:
        self.source, self.choices = task.source, choices
        self._start, self._stop, self._run, self._step = start, stop, run, step
        self.place = (start, stop, run, step) if run else (start, stop)
        #: Bits of a NaN in whose place stand-ins are put where the values are gathered; 0: none are.
        self.nan = dict(choices[0].options).get("nan", 0) if len(choices) == 1 else 0
        self.rows = ((stop - start - run) // step + 1) * run if run else stop - start
        self.itemsize = itemsize = self.source.itemsize
        self.nbytes = self.rows * itemsize
        #: Of each choice; none where the only one is raw.
        self.jobs = [
            on_device(choice.codec).Job(self.rows, itemsize, task.signed, work, **dict(choice.options))
            for choice in choices
            if choice.codec != PLAIN.NAME
        ]
        #: What looks for a NaN: codecs that have stand-ins for one, if it is not known which codec is taken.
        self.finders: Sequence[plan.Choice] = ()
        if len(choices) > 1:
            self.finders = plan.with_nan(itemsize, floats=task.floats, codec=task.codec, nan=1)
        self.in_place = self.source.in_place and not run and not self.nan
        self.address = self.source.address + itemsize * start if self.in_place else 0
        #: Whether its values are in several windows.
        self.cut = False

        #: Bytes that each job makes, and the bits of the least NaN, when they were measured; where that is found.
        self.sizes: list[int] = []
        self.least_nan = self.nan_found = 0
        #: The same values with stand-ins for that, by the choice that it means; which of them, or this, is packed.
        self.replaced: dict[plan.Choice, StreamItem] = {}
        self.replacement = self
        #: Offset in the workspace of the NaN and its stand-ins, and how many bytes they are.
        self.stand_ins = self.stand_ins_nbytes = 0
        #: The one that was chosen; None: raw.
        self.job: Any = None

    @property
    def unit(self) -> int:
        """Windows begin at multiples of so many values."""
        return self.rows if self._run else math.lcm(FILL_BLOCK, *(job.unit for job in self.jobs))

    def gather(self, first: int, rows: int, out: int) -> tuple[int, _Fields]:
        """The job that writes some of the values, or the sample, to an address."""
        if self._run:
            return self.source.gather(self._start, self._stop, out, self._run, self._step)
        return self.source.gather(self._start + first, self._start + first + rows, out)

    def gather_sample(self, job: Any, out: int) -> tuple[int, _Fields]:
        """The job that writes the sample of one of the jobs to an address, its runs one after another."""
        step, rows = job.sample_step, min(self.rows, job.sample_rows)
        if step == job.unit:
            return self.gather(0, rows, out)
        stop = self._start + step * (rows // job.unit - 1) + job.unit
        return self.source.gather(self._start, stop, out, job.unit, step)

    def choose(self, codec: str | None, what: What = None) -> plan.Choice:
        """Take the best choice, by what was measured; `codec`: what the user wants; `what`: the column, for the log."""
        if len(self.choices) == 1 and (codec is not None or not self.jobs):
            choice = self.choices[0]
        else:
            measured = dict(zip(self.choices, self.sizes, strict=True))
            measured |= {choice: item.sizes[0] for choice, item in self.replaced.items()}
            choice = plan.choose(self.nbytes, measured, named=codec is not None, what=what)
        if choice in self.replaced:
            self.replacement = self.replaced[choice]
            self.replacement.choose(choice.codec)
        elif choice.codec != PLAIN.NAME:
            self.job = self.jobs[self.choices.index(choice)]
        return choice


#: Thread blocks and fields of jobs, by codec and what its kernels are told: bytes of a value, and the variant.
_Groups = dict[tuple[str, tuple[int, ...]], list[tuple[int, _Fields]]]


class StreamBatch:
    """Items that are measured at once, and packed at once."""

    def __init__(self) -> None:
        self.work = Workspace()
        self.items: list[StreamItem] = []
        self._turns: list[list[tuple[StreamItem, _Window]]] = [[]]
        self._used = self._staging_nbytes = self._sample_nbytes = 0

    def __enter__(self) -> StreamBatch:
        return self

    def __exit__(self, *_: object) -> None:
        self.work.release()

    def add(self, task: StreamTask, choices: Sequence[plan.Choice], start: int, stop: int, *sample: int) -> StreamItem:
        """Values of a stream, for which there are these choices; `sample`: run and step."""
        item = StreamItem(task, choices, start, stop, self.work, *sample)
        self.items.append(item)
        if item.nan:
            item.stand_ins_nbytes = on_device(choices[0].codec).nan_nbytes(item.rows, item.itemsize)
            item.stand_ins = self.work.reserve(item.stand_ins_nbytes)
        if item.in_place:
            self._turns[0].append((item, _Window(0, item.rows, None)))
        elif item.jobs:
            self._cut(item)
        return item

    def _cut(self, item: StreamItem) -> None:
        """Cut an item into windows that fit the staging buffer."""
        turns = len(self._turns)
        self._cut_windows(item)
        if len(self._turns) > turns and self._turns[-1][-1][1].rows < item.rows:
            # It fills up the turn in which it begins, so no other such item begins there, and one sample has room.
            item.cut = True
            nbytes = max(min(job.sample_rows, item.rows) for job in item.jobs) * item.itemsize
            self._sample_nbytes = max(self._sample_nbytes, nbytes)

    def _cut_windows(self, item: StreamItem) -> None:
        itemsize, first = item.source.itemsize, 0
        while first < item.rows:
            remaining, fit = item.rows - first, (_ROOM_NBYTES - self._used) // itemsize
            rows = remaining if remaining <= fit else fit // item.unit * item.unit
            if rows == 0:
                if self._used:
                    self._turns.append([])
                    self._used = 0
                    continue
                rows = min(item.unit, remaining)  # as few as there may be
            self._turns[-1].append((item, _Window(first, rows, self._used)))
            self._used += align(rows * itemsize, ALIGNMENT)
            self._staging_nbytes = max(self._staging_nbytes, self._used)
            first += rows

    def _take(self, lane: Lane) -> None:
        """Take the workspace."""
        jobs = sum(len(item.jobs) for item in self.items)
        finders = sum(bool(item.finders) for item in self.items)
        totals = self.work.reserve(_TOTALS_NBYTES * jobs + 8 * finders)
        staging, sample = self.work.reserve(self._staging_nbytes), self.work.reserve(self._sample_nbytes)
        self.work.take(lane)
        self._totals = job_totals = self.work[totals] if jobs else 0
        for item in self.items:
            for job in item.jobs:
                job.place(self.work, job_totals)
                job_totals += _TOTALS_NBYTES
        if finders:
            lane.zero(job_totals, 8 * finders)
        for number, item in enumerate(item for item in self.items if item.finders):
            item.nan_found = job_totals + 8 * number
        for item in self.items:
            if item.nan:
                lane.zero(self.work[item.stand_ins], item.stand_ins_nbytes)
        self._staging = self.work[staging] if self._staging_nbytes else 0
        self._sample = self.work[sample] if self._sample_nbytes else 0

    def _values(self, item: StreamItem, window: _Window) -> int:
        """Address of a window's values."""
        if window.offset is None:
            return item.address + item.itemsize * window.first
        return self._staging + window.offset

    def _gather(self, tables: JobTables, turn: Sequence[tuple[StreamItem, _Window]], others: _Jobs = ()) -> None:
        jobs = [
            item.gather(window.first, window.rows, self._staging + window.offset)
            for item, window in turn
            if window.offset is not None
        ]
        gather(tables, [*jobs, *others])

    def _stand_in(
        self, tables: JobTables, turn: Sequence[tuple[StreamItem, _Window]], *, sampled: bool = False
    ) -> None:
        """Put stand-ins in the place of a NaN in gathered values; `sampled`: in gathered samples, too."""
        groups: _Groups = {}
        for item, window in turn:
            if not item.nan:
                continue
            (job,), at = item.jobs, self.work[item.stand_ins]
            module, jobs = on_device(job.codec), groups.setdefault((job.codec, (item.itemsize,)), [])
            jobs.append(module.stand_in(self._values(item, window), window.rows, item.nan, at, window.first))
            if sampled and item.cut and not window.first:
                jobs.append(module.stand_in(self._sample, min(job.sample_rows, item.rows), item.nan))
        self._launch(tables, "stand_in_kernel", groups)

    def _sample_jobs(self, turn: Sequence[tuple[StreamItem, _Window]]) -> tuple[_Jobs, dict[str, list[_Fields]]]:
        """For items that begin in a turn: jobs that gather samples, and by codec the fields of jobs that read these."""
        sample_gathers: list[tuple[int, _Fields]] = []
        divisor_jobs: dict[str, list[_Fields]] = {}
        for item, window in turn:
            for job in item.jobs:
                if window.first or not job.sample_rows:
                    continue
                values, step = self._values(item, window), job.sample_step
                if item.cut:
                    values, step = self._sample, job.unit
                    sample_gathers.append(item.gather_sample(job, values))
                divisor_jobs.setdefault(job.codec, []).append(job.find_divisor(values, step))
        return sample_gathers, divisor_jobs

    def _launch(self, tables: JobTables, kernel: str, groups: _Groups) -> None:
        for (codec, constants), jobs in groups.items():
            module = on_device(codec)
            _add(tables, getattr(module, kernel)(*constants), module.THREADS, jobs)

    def measure(self, lane: Lane) -> Generator[None, None, None]:
        """Take the workspace and find all items' sizes."""
        if not self.items:
            return
        self._take(lane)
        if not any(item.jobs for item in self.items):
            return
        totals = self._measure(lane)
        yield
        jobs = sum(len(item.jobs) for item in self.items)
        job_totals, nan_totals = iter(totals[: 3 * jobs].reshape(-1, 3).tolist()), iter(totals[3 * jobs :].tolist())
        for item in self.items:
            item.sizes = [job.measured(*next(job_totals)) for job in item.jobs]
            # What was found is the complement.
            item.least_nan = (1 << 8 * item.itemsize) - 1 - nan if item.finders and (nan := next(nan_totals)) else 0

    @MEASURE
    def _measure(self, lane: Lane) -> Any:
        """Start to find sizes; the array in which they will be."""
        tables = JobTables()
        for turn in self._turns:
            sample_gathers, divisor_jobs = self._sample_jobs(turn)
            self._gather(tables, turn, sample_gathers)
            self._stand_in(tables, turn, sampled=True)
            for codec, fields in divisor_jobs.items():
                module = on_device(codec)
                _add(tables, module.sample_kernel(), module.SAMPLE_THREADS, [(1, job_fields) for job_fields in fields])
            groups: _Groups = {}
            finders: _Groups = {}
            for item, window in turn:
                values = self._values(item, window)
                for codec, _ in item.finders[:1]:
                    fields = on_device(codec).find_nan(values, window.rows, item.nan_found)
                    finders.setdefault((codec, (item.itemsize,)), []).append(fields)
                for job in item.jobs:
                    fields = job.measure(values, window.first, window.rows)
                    groups.setdefault((job.codec, (item.itemsize, *job.variant)), []).append(fields)
            self._launch(tables, "find_nan_kernel", finders)
            self._launch(tables, "measure_kernel", groups)
        scans: dict[tuple[str, tuple[int, ...]], list[_Fields]] = {}
        for item in self.items:
            for job in item.jobs:
                scans.setdefault((job.codec, job.variant), []).append(job.scan())
        for (codec, variant), sums in scans.items():
            module = on_device(codec)
            _add(tables, module.scan_kernel(*variant), module.SCAN_THREADS, [(1, fields) for fields in sums])
        tables.launch(lane)
        words = sum(len(item.jobs) * _TOTALS_NBYTES // 8 + bool(item.finders) for item in self.items)
        return lane.fetch(self._totals, words, np.uint64)

    @ENCODE
    def pack(self, items: Sequence[StreamItem], lane: Lane) -> list[Packed]:
        """Start to write the results of items that have chosen."""
        if not items:
            return []
        tables = JobTables()
        parts, copied = [], []
        buffers: dict[StreamItem, tuple[int, int]] = {}
        sizes: list[int] = []
        for item in items:
            sizes += (0, item.nbytes) if item.job is None else (item.job.meta_nbytes, item.job.codes_nbytes)
        allocated = iter(lane.allocate_all(sizes))
        for item in items:
            meta, codes = next(allocated), next(allocated)
            if item.job is None:
                if item.in_place:
                    lane.copy(codes.ptr, item.address, item.nbytes)
                else:
                    copied.append(item.gather(0, item.rows, int(codes.ptr)))
                parts.append(Packed(PLAIN.NAME, item.rows, item.itemsize, (), meta, codes, 0, item.nbytes))
            else:
                buffers[item] = int(meta.ptr), int(codes.ptr)
                parts.append(item.job.packed(meta, codes))
        gather(tables, copied)
        for turn in self._turns:
            packed = [(item, window) for item, window in turn if item in buffers]
            if len(self._turns) > 1:  # other windows have been in the staging buffer since
                self._gather(tables, packed)
                self._stand_in(tables, packed)
            groups: _Groups = {}
            for item, window in packed:
                fields = item.job.pack(self._values(item, window), window.first, window.rows, *buffers[item])
                groups.setdefault((item.job.codec, (item.itemsize, *item.job.variant)), []).append(fields)
            self._launch(tables, "pack_kernel", groups)
        tables.launch(lane)
        for item in items:
            if item.nan:
                lane.copy(buffers[item][0] + item.job.nan_at, self.work[item.stand_ins], item.stand_ins_nbytes)
        return parts


def _add(tables: JobTables, kernel: Any, threads: int, jobs: _Jobs) -> None:
    fields = [field for _, job_fields in jobs for field in job_fields]
    tables.add_jobs(kernel, threads, [count for count, _ in jobs], fields)


def gather_kernel() -> Any:
    """The kernel that copies values to where they are compressed, those of null rows filled."""
    return get_kernel("values", "gather_values", DEFINES)


def gather(tables: JobTables, jobs: _Jobs) -> None:
    if jobs:
        _add(tables, gather_kernel(), _THREADS, jobs)
