#include "phalanx/comm/call.h"

#include <fmt/format.h>

#include "phalanx/base/hash.h"

namespace phalanx {
namespace {

constexpr std::size_t kLongestSplitText = 320;

std::string data_of(const Call& call) {
  return fmt::format("{} x {}", name_of(call.dtype), call.count);
}

// Of the sizes and members of all groups, and the name.
std::uint64_t digest_of_split(std::string_view name, std::span<const std::vector<int>> groups) {
  std::vector<int> numbers;
  for (const auto& members : groups) {
    numbers.push_back(static_cast<int>(members.size()));
    numbers.insert(numbers.end(), members.begin(), members.end());
  }
  const std::uint64_t digest = xxh3(std::as_bytes(std::span(numbers)));
  return digest ^ (xxh3(name) * 0x9e3779b97f4a7c15);
}

std::string spell_split(std::string_view name, std::span<const std::vector<int>> groups) {
  std::string spelled = fmt::format("{}:", name.substr(0, kLongestSplitText));
  for (const auto& members : groups) {
    const char* between = " [";
    for (const int member : members) {
      if (spelled.size() > kLongestSplitText) {
        return fmt::format("{} ..., {} groups with the digest {}", spelled, groups.size(),
                           digest_to_text(digest_of_split(name, groups)));
      }
      spelled += fmt::format("{}{}", between, member);
      between = " ";
    }
    spelled += ']';
  }
  return spelled;
}

}  // namespace

std::string describe(const Call& call, std::size_t member) {
  const std::string data = data_of(call);
  switch (call.kind) {
    case OperationKind::kAllReduce:
      return fmt::format("all_reduce({}, {})", name_of(call.reduction), data);
    case OperationKind::kReduceScatter:
      return fmt::format("reduce_scatter({}, {})", name_of(call.reduction), data);
    case OperationKind::kAllGather:
      return fmt::format("all_gather({})", data);
    case OperationKind::kBroadcast:
      return fmt::format("broadcast({}, root {})", data, call.root);
    case OperationKind::kAllToAll:
      return fmt::format("all_to_all({})", name_of(call.dtype));
    case OperationKind::kBarrier:
      return "barrier";
    case OperationKind::kSplit:
      return fmt::format("split({})", call.split);
    case OperationKind::kMessage:
      return fmt::format("{}({}, key {:#x})", member == 0 ? "send" : "receive", data, call.key);
  }
  return {};
}

std::string describe_mismatch(std::string_view group, OperationKind kind, std::uint64_t number,
                              int rank, std::string_view calls, int other,
                              std::string_view other_calls) {
  return fmt::format("{}: {} {}: rank {} calls {} where rank {} calls {}", group,
                     kind == OperationKind::kMessage ? "message" : "call", number, rank, calls,
                     other, other_calls);
}

std::string describe_place(std::string_view group, const Call& call, std::uint64_t number) {
  return fmt::format("{}: {}, call {}", group, describe(call, 0), number);
}

std::string describe_message(std::string_view group, const Call& call, std::uint64_t number,
                             int source, int destination) {
  return fmt::format("{}: message {} ({}, key {:#x}) from rank {} to rank {}", group, number,
                     data_of(call), call.key, source, destination);
}

std::string describe_given(std::int64_t count, int rank) {
  return fmt::format("all_to_all(gives {} elements to rank {})", count, rank);
}

std::string describe_taken(std::int64_t count, int rank) {
  return fmt::format("all_to_all(takes {} elements from rank {})", count, rank);
}

Call split_call(std::string_view name, std::span<const std::vector<int>> groups) {
  return {.kind = OperationKind::kSplit,
          .count = std::ssize(groups),
          .split_digest = digest_of_split(name, groups),
          .split = spell_split(name, groups)};
}

std::string spell_ranks(std::span<const int> ranks) {
  if (ranks.empty()) return {};
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
}

}  // namespace phalanx
