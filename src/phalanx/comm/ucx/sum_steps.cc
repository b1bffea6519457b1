#include "phalanx/comm/ucx/sum_steps.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace phalanx::ucx {
namespace {

// Digit by digit in base B: (number + sign * step) mod B.
int shifted(int number, int step, int sign, int base) {
  std::int64_t result = 0, weight = 1;
  for (; number > 0 || step > 0; number /= base, step /= base, weight *= base) {
    const int digit = (number % base + sign * (step % base) + base) % base;
    result += digit * weight;
  }
  return static_cast<int>(result);
}

}  // namespace

SumSteps::SumSteps(SumTree tree, std::vector<int> hosts)
    : tree_(tree), hosts_(std::move(hosts)), blocks_(tree.nodes(1)) {
  while (steps_ < blocks_) steps_ *= tree_.block();
  const bool are_apart = std::ranges::any_of(hosts_, [&](int host) { return host != hosts_[0]; });
  for (int block = 0; block < blocks_; ++block) {
    const auto begin = hosts_.begin() + first(block);
    const auto end = begin + std::min(tree_.block(), members() - first(block));
    const bool share =
        end - begin > 1 && std::all_of(begin, end, [&](int h) { return h == *begin; });
    host_of_block_.push_back(share ? *begin : -1);
    has_adders_ = has_adders_ || (share && are_apart);
  }
}

int SumSteps::taken_by(int block, int step) const {
  const int other = shifted(block, step, 1, tree_.block());
  return other < blocks_ ? other : -1;
}

int SumSteps::taker_of(int block, int step) const {
  const int other = shifted(block, step, -1, tree_.block());
  return other < blocks_ ? other : -1;
}

int SumSteps::adder(int block, int member) const {
  const int host = host_of_block_[static_cast<std::size_t>(block)];
  if (host < 0 || hosts_[static_cast<std::size_t>(member)] == host) return -1;
  return first(block) + member % size(block);
}

}  // namespace phalanx::ucx
