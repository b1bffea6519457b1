#pragma once
// One text of every member, round after round: the coordinator collects them, and each member reads
// the results.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "phalanx/rendezvous/message.h"

namespace phalanx::rendezvous {

// The texts of the last gathering, so that the next one names only those that have changed. Both
// ends keep them; not those that are long, which would take much memory.
class LastTexts {
 public:
  explicit LastTexts(int members = 0) : members_(static_cast<std::size_t>(members)) {}

  const std::vector<std::string>& texts();
  void keep(int member, const std::string& text);

 private:
  std::size_t members_;
  std::vector<std::string> texts_{};  // empty until it is asked for
};

// What a member makes of the results.
class RoundReader {
 public:
  explicit RoundReader(int members) : last_(members) {}

  // The texts of all members; of a broadcast, one. UnavailableError if there cannot be such ones.
  std::vector<std::string> texts_of(RoundResult&& result);

 private:
  LastTexts last_;
};

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
  LastTexts last_;

  bool has_begun() const { return missing_.size() < parts_.size(); }
  void begin();
};

}  // namespace phalanx::rendezvous
