#include "phalanx/comm/call.h"

#include <fmt/format.h>

namespace phalanx {
namespace {

std::string data_of(const Call& call) {
  return fmt::format("{} x {}", name_of(call.dtype), call.count);
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

std::string spell_split(std::string_view name, std::span<const std::vector<int>> groups) {
  std::string spelled = fmt::format("{}:", name);
  for (const auto& members : groups) spelled += fmt::format(" [{}]", fmt::join(members, " "));
  return spelled;
}

std::string spell_ranks(std::span<const int> ranks) {
  if (ranks.empty()) return {};
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
}

}  // namespace phalanx
