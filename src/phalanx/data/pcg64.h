#pragma once
// NumPy's generator of today, `numpy.random.default_rng(seed)`: PCG64 (XSL-RR) seeded by a
// SeedSequence. It exists so that Megatron's made-up data has its documents.

#include <cstdint>

namespace phalanx {

class Pcg64 {
 public:
  explicit Pcg64(std::uint32_t seed);

  std::uint64_t next_u64();
  // Halves of a 64-bit draw, the lower one first.
  std::uint32_t next_u32();
  // Uniform in [0, bound), bound above 0, as `integers(..., dtype=int32)` draws it: Lemire's
  // rejection.
  std::uint32_t below(std::uint32_t bound);

 private:
  __extension__ using Wide = unsigned __int128;

  void step();

  Wide state_ = 0;
  Wide increment_ = 0;
  bool has_half_ = false;
  std::uint32_t half_ = 0;
};

}  // namespace phalanx
