#include "phalanx/comm/ucx/gathers.h"

#include <algorithm>

namespace phalanx::ucx {
namespace {

// A ring sends every byte to a neighbour, which is often on the same host; doubling sends the most
// of them half the group away. Up to here the number of steps counts more.
constexpr std::int64_t kDoubledSlice = 64 << 10;

// A ring: in each of n - 1 steps a rank passes on what it received last.
Task gather_around(Operation& operation, std::byte* output, Slices parts) {
  for (int step = 0; step + 1 < operation.size(); ++step) {
    const int given = before(operation, step), taken = before(operation, step + 1);
    Batch batch(operation);
    if (parts.bytes(taken) > 0) {
      batch.receive(before(operation, 1), Lane::kGather, output + parts.begin(taken),
                    unsigned_of(parts.bytes(taken)));
    }
    if (parts.bytes(given) > 0) {
      batch.send(after(operation, 1), Lane::kGather, output + parts.begin(given),
                 unsigned_of(parts.bytes(given)));
    }
    co_await batch;
  }
}

// The slices of `count` members up to `last`, round the group: one range of bytes, or two where it
// goes past the first member. Calls f(begin, bytes) for each.
template <typename F>
void for_ranges(const Slices& parts, int members, int last, int count, const F& f) {
  const int first = last - count + 1;
  const auto range = [&](int from, int to) {  // [from, to)
    const std::int64_t begin = parts.begin(from), bytes = parts.begin(to) - begin;
    if (bytes > 0) f(begin, bytes);
  };
  if (first < 0) range(first + members, members);
  range(std::max(first, 0), last + 1);
}

// A rank has the slices of itself and of the d - 1 members before it, and passes them on to the
// member d after it: d doubles in each step. They go straight to their places.
Task gather_doubling(Operation& operation, std::byte* output, Slices parts) {
  const int members = operation.size();
  for (int had = 1; had < members; had *= 2) {
    const int count = std::min(had, members - had);
    const int giver = before(operation, had), taker = after(operation, had);
    Batch batch(operation);
    for_ranges(parts, members, giver, count, [&](std::int64_t begin, std::int64_t bytes) {
      batch.receive(giver, Lane::kGather, output + begin, unsigned_of(bytes));
    });
    for_ranges(parts, members, operation.rank(), count,
               [&](std::int64_t begin, std::int64_t bytes) {
                 batch.send(taker, Lane::kGather, output + begin, unsigned_of(bytes));
               });
    co_await batch;
  }
}

}  // namespace

Task gather_slices(Operation& operation, std::byte* output, Slices parts) {
  return parts.slice <= kDoubledSlice ? gather_doubling(operation, output, parts)
                                      : gather_around(operation, output, parts);
}

}  // namespace phalanx::ucx
