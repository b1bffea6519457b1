#include "phalanx/pipeline/schedules/interleaved_order.h"

#include <algorithm>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

std::vector<int> group_sizes(const ScheduleRequest& request) {
  const int microbatches = request.microbatches;
  if (request.group_size < 0) {
    throw ConfigError("a group of {} microbatches: it must have at least 1 (0: chosen for you)",
                      request.group_size);
  }
  std::vector<int> sizes;
  if (request.group_size > 0) {
    for (int i = 0; i < microbatches; i += request.group_size) {
      sizes.push_back(std::min(request.group_size, microbatches - i));
    }
    return sizes;
  }
  const int groups = std::max(1, microbatches / request.ranks);
  const int larger = microbatches % groups;
  for (int g = 0; g < groups; ++g) sizes.push_back(microbatches / groups + (g < larger ? 1 : 0));
  return sizes;
}

}  // namespace

InterleavedOrder interleaved_order(const ScheduleRequest& request, int chunks) {
  const std::vector<int> sizes = group_sizes(request);
  InterleavedOrder order;
  order.largest_group = *std::max_element(sizes.begin(), sizes.end());
  const auto passes =
      static_cast<std::size_t>(request.microbatches) * static_cast<std::size_t>(chunks);
  order.forward.reserve(passes);
  order.backward.reserve(passes);
  int first = 0;
  for (const int size : sizes) {
    for (int c = 0; c < chunks; ++c) {
      for (int i = first; i < first + size; ++i) {
        order.forward.push_back({.chunk = c, .microbatch = i});
        order.backward.push_back({.chunk = chunks - 1 - c, .microbatch = i});
      }
    }
    first += size;
  }
  return order;
}

}  // namespace phalanx
