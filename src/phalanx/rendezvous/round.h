#pragma once
// Collects one text of every member, round after round: the coordinator's side of gather() and
// broadcast().

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "phalanx/rendezvous/message.h"

namespace phalanx::rendezvous {

class Round {
 public:
  explicit Round(int members = 0);

  // UnavailableError if the part does not belong to this round.
  void add(int member, RoundPart part);
  // The result when all parts are there; it begins the next round.
  std::optional<RoundResult> finish();
  // The members whose parts are missing, the first `most` of them, and how many they are; none if
  // no part has come yet.
  std::vector<int> missing(std::size_t most) const;
  int missing_count() const;

 private:
  std::int64_t number_ = 0;
  std::set<int> missing_{};
  RoundKind kind_ = RoundKind::kGather;
  int first_ = -1;  // the member whose part came first
  std::vector<std::optional<std::string>> parts_;

  bool has_begun() const { return missing_.size() < parts_.size(); }
  void begin();
};

}  // namespace phalanx::rendezvous
