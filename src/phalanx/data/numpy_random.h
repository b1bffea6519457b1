#pragma once
// NumPy's legacy generator, `numpy.random.RandomState(seed)`: the streams behind Megatron's data
// shuffles, draw for draw. It exists so that the same seed gives the same sample order; everything
// else in Phalanx uses base/philox.h.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <utility>

namespace phalanx {

class NumpyRandom {
 public:
  explicit NumpyRandom(std::uint32_t seed) : engine_(seed) {}

  std::uint32_t next_u32() { return static_cast<std::uint32_t>(engine_()); }

  // Uniform in [0, 1) with 53 bits, from two draws (`random_sample`).
  double random_sample();

  // Uniform in [0, max]: draws masked to the bits of `max` until one fits; no draw when max is 0.
  std::uint64_t interval(std::uint64_t max);

  // Uniform in [low, high) (`randint` of the default dtype). Needs low < high.
  std::int64_t randint(std::int64_t low, std::int64_t high);

  // An index (`choice` of as many values with `p`): `cumulative` are the ascending sums of their
  // probabilities, the last of which is 1.
  std::size_t choice(std::span<const double> cumulative);

  // How many tries it takes until one succeeds, each with this probability in (0, 1]
  // (`geometric`). From 1 on; NumPy's 0, where the draw is 0, is 1 here.
  std::int64_t geometric(double probability);

  // Permutes in place (`shuffle` of a one-dimensional array): Fisher-Yates from the end. `poll` is
  // called every million values or so; what it throws ends the shuffle.
  template <typename T>
  void shuffle(std::span<T> values, const std::function<void()>& poll = nullptr) {
    // The draws do not depend on the values: a few are made ahead, and memory fetches what they
    // will swap.
    std::array<std::size_t, 32> partners;
    std::uint32_t rounds = 0;
    for (std::size_t left = values.size(); left > 1;) {
      if (poll && ++rounds % kRoundsBetweenPolls == 0) poll();
      const std::size_t count = std::min(partners.size(), left - 1);
      for (std::size_t k = 0; k < count; ++k) {
        partners[k] = interval(left - 1 - k);
        __builtin_prefetch(&values[partners[k]], 1);
      }
      for (std::size_t k = 0; k < count; ++k) std::swap(values[left - 1 - k], values[partners[k]]);
      left -= count;
    }
  }

 private:
  static constexpr std::uint32_t kRoundsBetweenPolls = 1U << 15;

  std::mt19937 engine_;
};

}  // namespace phalanx
