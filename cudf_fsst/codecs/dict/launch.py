"""What the host must know to launch the kernels of kernels/dict_*.cu. Needs no GPU."""

from __future__ import annotations

from collections import namedtuple
from functools import cache

from ..bitpack import launch as bitpack
from . import plan

#: Threads of a block of the kernels that find values, and thread blocks of dict_find on a multiprocessor.
FIND_THREADS, FIND_BLOCKS = 256, 4
#: Words of 8 bytes of a slot that has its value's bytes.
SLOT_WORDS = 8
#: Rows of a thread of dict_number at once, and its thread blocks on a multiprocessor.
NUMBER_ROWS, NUMBER_BLOCKS = 2, 5
#: What dict_find_few keeps: places for values, words of 4 bytes that these may have, rows of a thread at once, turns
#: after which values that were missed are taken in, thread blocks on a multiprocessor.
FEW_PLACES, FEW_WORDS, FEW_ROWS, FEW_TURNS, FEW_BLOCKS = 512, 8, 4, 8, 4
#: Bytes of a row from which on a thread block looks for it.
FIND_LONG = 512
#: Rows that are counted together when values are numbered.
RANK_CHUNK = 4096
#: Threads of the thread block that sums up.
SCAN_THREADS = 1024
#: Rows of the sample.
SAMPLE_ROWS = plan.SAMPLE_RUNS * plan.RUN_ROWS
#: The kernels that find different values and number rows by them, by file.
FINDING = {
    "dict_sample": ("dict_begins", "dict_sample"),
    "dict_find": ("dict_find", "dict_find_long", "dict_number"),
    "dict_few": ("dict_find_few",),
    "dict_rank": ("dict_mark", "dict_count_marks", "dict_scan", "dict_rank", "dict_rank_few", "dict_renumber"),
}
#: What these files are compiled with.
FIND_DEFINES = {
    "FIND_THREADS": FIND_THREADS,
    "FIND_BLOCKS": FIND_BLOCKS,
    "SLOT_WORDS": SLOT_WORDS,
    "NUMBER_ROWS": NUMBER_ROWS,
    "NUMBER_BLOCKS": NUMBER_BLOCKS,
    "FEW_PLACES": FEW_PLACES,
    "FEW_WORDS": FEW_WORDS,
    "FEW_ROWS": FEW_ROWS,
    "FEW_TURNS": FEW_TURNS,
    "FEW_BLOCKS": FEW_BLOCKS,
    "FIND_LONG": FIND_LONG,
    "RANK_CHUNK": RANK_CHUNK,
    "SCAN_THREADS": SCAN_THREADS,
    "SAMPLE_ROWS": SAMPLE_ROWS,
    "SAMPLE_RUN": plan.RUN_ROWS,
    "SAMPLE_ENDS": plan.SAMPLE_ENDS,
    "HASH_FIRST": plan.HASH_MULTIPLIERS[0],
    "HASH_NEXT": plan.HASH_MULTIPLIERS[1],
}

#: Threads of a block of dict_read.cu, rows of a thread at once, rows of which it is known where they go.
READ_THREADS, READ_ROWS = 256, 8
READ_TILE = 2 * READ_THREADS * READ_ROWS
#: Values whose lengths a thread block keeps; thread blocks of dict_write on a multiprocessor.
READ_KEPT, WRITE_BLOCKS = 1024, 4
#: Characters of a warp of dict_chars.
CHARS_STRETCH = 2048
READ_DEFINES = {
    "READ_THREADS": READ_THREADS,
    "READ_ROWS": READ_ROWS,
    "READ_TILE": READ_TILE,
    "READ_KEPT": READ_KEPT,
    "CHARS_STRETCH": CHARS_STRETCH,
    "SCAN_THREADS": SCAN_THREADS,
}

#: Warps and threads of a block of dict_packed.cu. Thread blocks of dict_spell that a multiprocessor has at a time, and
#: of dict_answer in all.
PACKED_WARPS = 4
PACKED_THREADS = 32 * PACKED_WARPS
SPELL_BLOCKS, ANSWER_BLOCKS = 6, 16
#: Warps of dict_lengths for one of dict_spell.
LENGTHS_PARTS = 4
#: What a thread block keeps in shared memory, at most: a warp's characters, an image or a table of answers, lengths.
PACKED_STAGED, PACKED_IMAGE, PACKED_KEPT = 8192, 8192, 4096
#: Counters of a thread block of dict_count.cu: of few values in copies, and of many. With these a multiprocessor has
#: fewer thread blocks, as each adds all of its counters to the result.
COUNT_COPIED, COUNT_KEPT = 1024, 8192
COUNT_BLOCKS = 4

# Structs of the kernels: a word of 8 bytes for each field.
BeginsJob = namedtuple("BeginsJob", "offsets wide rows segment_size count out_rows out_chars")
SampleJob = namedtuple("SampleJob", "chars offsets wide validity validity_offset begin end set found")
FindJob = namedtuple(
    "FindJob",
    "chars offsets wide scope_rows first rows validity validity_offset table slots stride limit found long_rows out"
    " out_nbytes map blocks",
)
RankJob = namedtuple("RankJob", "table slots stride found offsets wide rows marks before map firsts")
RenumberJob = namedtuple("RenumberJob", "slots rows map blocks")
WriteJob = namedtuple(
    "WriteJob",
    "codes code_nbytes rows validity validity_offset chars offsets wide values sums out_offsets out_wide first_char"
    " out_chars limit last blocks",
)
GatherStringsJob = namedtuple("GatherStringsJob", "chars offsets wide rows count out_offsets out_chars")
LongestJob = namedtuple("LongestJob", "offsets wide rows longest blocks")
BitsJob = namedtuple("BitsJob", "source bits to to_bit")
ScopeRows = namedtuple("ScopeRows", "first_row rows first codes code_nbytes values validity")
MapJob = namedtuple("MapJob", "codes code_nbytes rows map values out item_nbytes blocks")
CodesJob = namedtuple(
    "CodesJob", "starts bases slopes codes units rows divisor begin end validity validity_offset values blocks"
)
SpellJob = namedtuple(
    "SpellJob",
    "starts bases slopes codes units rows divisor begin end validity validity_offset values blocks"
    " chars offsets wide image stride sums first placed out_offsets out_wide first_char out_chars limit last",
)
AnswerJob = namedtuple(
    "AnswerJob",
    "starts bases slopes codes units rows divisor begin end validity validity_offset values blocks map out item_nbytes",
)
CountJob = namedtuple(
    "CountJob",
    "starts bases slopes codes units rows divisor begin end validity validity_offset values blocks out",
)


@cache
def packed_defines(itemsize: int, plain: bool = False) -> dict[str, int]:
    """Constants of dict_packed.cu and dict_count.cu for codes of so many bytes; `plain`: which are not packed."""
    return {
        **bitpack.defines(itemsize),
        "PLAIN_CODES": int(plain),
        "BITPACK_WARPS": PACKED_WARPS,
        "SPELL_BLOCKS": SPELL_BLOCKS,
        "LENGTHS_PARTS": LENGTHS_PARTS,
    }


def variants(shared_per_block: int) -> dict[str, list[dict[str, int]]]:
    """File -> all sets of constants that it may be compiled with for a GPU."""
    return {
        **{file: [FIND_DEFINES] for file in FINDING},
        "dict_read": [READ_DEFINES],
        "dict_packed": [packed_defines(itemsize, plain) for plain in (False, True) for itemsize in (1, 2, 4)],
        "dict_count": [packed_defines(itemsize) for itemsize in (1, 2, 4)],
    }
