#include "phalanx/comm/ucx/header.h"

#include <fmt/format.h>

#include "phalanx/comm/comm_error.h"

namespace phalanx::ucx {
namespace {

constexpr auto kLastKind = static_cast<std::uint8_t>(OperationKind::kMessage);
constexpr auto kLastDType = static_cast<std::uint8_t>(DType::kU8);
constexpr auto kLastReduction = static_cast<std::uint8_t>(Reduction::kMin);

std::string describe_theirs(const Header& theirs, std::string_view text, int member) {
  if (theirs.kind > kLastKind || theirs.dtype > kLastDType || theirs.reduction > kLastReduction) {
    return "what is no operation";
  }
  return describe({.kind = static_cast<OperationKind>(theirs.kind),
                   .dtype = static_cast<DType>(theirs.dtype),
                   .count = theirs.count,
                   .reduction = static_cast<Reduction>(theirs.reduction),
                   .root = theirs.root,
                   .key = theirs.key,
                   .split = std::string(text)},
                  static_cast<std::size_t>(member));
}

[[noreturn]] void mismatch(const CallPlace& mine, int member, const std::string& theirs,
                           const std::string& calls) {
  const UcxGroup& group = *mine.group;
  throw CommError(
      ErrorCode::kInternal, comm_place(mine),
      describe_mismatch(group.name, mine.call.kind, mine.number, group.world_rank(member), theirs,
                        group.world_rank(group.rank), calls));
}

std::size_t side_of(const CallPlace& place) {
  return place.receiver == place.group->rank && place.sender >= 0 ? 1 : 0;
}

}  // namespace

Header header_of(const Call& call) {
  return {.kind = static_cast<std::uint8_t>(call.kind),
          .dtype = static_cast<std::uint8_t>(call.dtype),
          .reduction = static_cast<std::uint8_t>(call.reduction),
          .root = call.root,
          .count = call.count,
          .key = call.key,
          .split = call.split_digest};
}

std::string label_of(const CallPlace& place) {
  const UcxGroup& group = *place.group;
  if (place.call.kind != OperationKind::kMessage) {
    return describe_place(group.name, place.call, place.number);
  }
  return describe_message(group.name, place.call, place.number, group.world_rank(place.sender),
                          group.world_rank(place.receiver));
}

CommPlace comm_place(const CallPlace& place) {
  return {.rank = place.group->world_rank(place.group->rank),
          .group = place.group->name,
          .operation = describe(place.call, side_of(place)),
          .number = static_cast<std::int64_t>(place.number)};
}

void expect_same_call(const CallPlace& mine, int member, const Header& theirs,
                      std::string_view text) {
  const Header expected = header_of(mine.call);
  const bool all_to_all = mine.call.kind == OperationKind::kAllToAll;
  if (theirs.kind == expected.kind && theirs.dtype == expected.dtype &&
      theirs.reduction == expected.reduction && theirs.root == expected.root &&
      theirs.count == expected.count && theirs.split == expected.split &&
      (all_to_all || theirs.key == expected.key)) {
    return;
  }
  mismatch(mine, member, describe_theirs(theirs, text, mine.sender == member ? 0 : 1),
           describe(mine.call, side_of(mine)));
}

void expect_given(const CallPlace& mine, int member, const Header& theirs, std::int64_t taken) {
  if (static_cast<std::int64_t>(theirs.key) == taken) return;
  const UcxGroup& group = *mine.group;
  mismatch(mine, member,
           describe_given(static_cast<std::int64_t>(theirs.key), group.world_rank(group.rank)),
           describe_taken(taken, group.world_rank(member)));
}

}  // namespace phalanx::ucx
