#pragma once
// The witness of disturbance. A program on the sibling hyper-thread takes issue slots that a
// multiply-add peak does not need and a kernel does: the peak looks as it always does, and kernels
// are slow. Independent additions want every slot there is.

namespace phalanx::bench {

// Instructions per cycle of independent integer additions, the least of `threads` threads that run
// them at once; some tenths of a millisecond. A cycle is what an addition takes that waits for the
// one before. Near the number of the core's adders where it is alone, about half beside a busy
// sibling. 0 where it cannot be measured.
double instructions_per_cycle(int threads);

}  // namespace phalanx::bench
