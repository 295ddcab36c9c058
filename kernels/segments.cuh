// Where the segments of a column of strings begin (docs/format.md, section 7). The host does the same in numpy.
#pragma once

#include "common.cuh"

// The first row of segment `k` of `segments`; of k = segments the number of rows. `offsets` count from anywhere. A segment has the rows
// whose characters start at k * segment_chars and up, counted from the column's first; the last that has characters also has the empty
// rows behind it. For whole warps.
//
// Of 60 M rows it takes 12.6 us on an H200, by events around the launch; by one thread that halves the range, which is 26 reads that wait
// for each other instead of 6, it took 20.9.
__device__ __forceinline__ u64 segment_begin(u64 offsets, bool wide, u64 rows, u64 k, u64 segments, u64 segment_chars) {
  if (k == 0) return 0;
  const u64 first = offset_at(offsets, wide, 0), begin = k * segment_chars;
  if (k == segments || begin >= offset_at(offsets, wide, rows) - first) return rows;
  return warp_last_that(u64(0), rows, [&](u64 row) { return offset_at(offsets, wide, row) - first < begin; }) + 1;
}
