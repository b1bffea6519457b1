#pragma once
// How fast memory can be changed in place: the limit of an operation that computes little. Reading
// and writing one stream moves every line exactly twice (a copy would also read what it
// overwrites).

namespace phalanx::bench {

// Bytes per second, read and written, of `threads` threads over arrays far larger than most caches.
double measure_bandwidth(int threads);

}  // namespace phalanx::bench
