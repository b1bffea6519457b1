#pragma once
// Texts of all members of a group, collected: one round after the other, every member in each.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "phalanx/rendezvous/message.h"

namespace phalanx::rendezvous {

class Round {
 public:
  explicit Round(int members = 0) : parts_(static_cast<std::size_t>(members)) {}

  // UnavailableError where the member's part does not belong to this round.
  void add(int member, RoundPart part);
  // When all parts are there; then the next round begins.
  std::optional<RoundResult> finish();
  // Who is waited for; nobody where nobody has begun.
  std::vector<int> missing() const;

 private:
  std::int64_t number_ = 0;
  int arrived_ = 0;
  RoundKind kind_ = RoundKind::kGather;
  int first_ = -1;  // whose part came first
  std::vector<std::optional<std::string>> parts_;
};

}  // namespace phalanx::rendezvous
