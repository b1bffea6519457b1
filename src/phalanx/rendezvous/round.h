#pragma once
// Collects one text of every member, round after round: the coordinator's side of gather() and
// broadcast().

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "phalanx/rendezvous/message.h"

namespace phalanx::rendezvous {

class Round {
 public:
  explicit Round(int members = 0) : parts_(static_cast<std::size_t>(members)) {}

  // UnavailableError if the part does not belong to this round.
  void add(int member, RoundPart part);
  // The result when all parts are there; it begins the next round.
  std::optional<RoundResult> finish();
  // The members whose parts are missing; empty if no part has come yet.
  std::vector<int> missing() const;

 private:
  std::int64_t number_ = 0;
  int arrived_ = 0;
  RoundKind kind_ = RoundKind::kGather;
  int first_ = -1;  // the member whose part came first
  std::vector<std::optional<std::string>> parts_;
};

}  // namespace phalanx::rendezvous
