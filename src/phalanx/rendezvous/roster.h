#pragma once
// Who of a group (ranks, or launchers) has joined, who is missing, and where all of them are.

#include <optional>
#include <string>
#include <vector>

#include "phalanx/rendezvous/message.h"
#include "phalanx/rendezvous/rank_place.h"

namespace phalanx::rendezvous {

class Roster {
 public:
  // `noun` for people: "rank", "launcher".
  Roster(std::string noun, int size);

  // Empty: it is in. Otherwise why not.
  std::optional<Refusal> admit(int number, const JoinRequest& join);

  int size() const { return static_cast<int>(members_.size()); }
  int joined() const { return joined_; }
  bool complete() const { return joined_ == size(); }
  bool has(int number) const;
  const JoinRequest& member(int number) const;  // one that has joined
  // "rank 3 (host n07, pid 4711)"; "rank 3" where it has not joined.
  std::string name_of(int number) const;
  // "7/8 joined, missing rank 5 (host n02)".
  std::string roll_call() const;
  std::vector<int> missing() const;
  // When all have joined. A host is a node and a machine; local ranks are numbered anew in it.
  std::vector<RankPlace> places() const;

 private:
  // Of the launcher's node on which the member should be, as far as those tell who have joined.
  std::string host_of_missing(int number) const;

  std::string noun_;
  std::vector<std::optional<JoinRequest>> members_;
  int joined_ = 0;
};

}  // namespace phalanx::rendezvous
