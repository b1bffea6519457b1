#pragma once
// Which ranks (or launchers) have joined, which are missing, and on which hosts they run.

#include <cstdint>
#include <map>
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

  // Adds a member. The refusal, if it cannot join.
  std::optional<Refusal> admit(int number, const JoinRequest& join);

  int size() const { return static_cast<int>(members_.size()); }
  int joined() const { return joined_; }
  bool complete() const { return joined_ == size(); }
  bool has(int number) const;
  const JoinRequest& member(int number) const;  // it has joined
  // "rank 3 (host n07, pid 4711)"; "rank 3" where it has not joined.
  std::string name_of(int number) const;
  // "7/8 joined".
  std::string count_text() const;
  // "7/8 joined, missing rank 5 (host n02)". Looks at all members until it has named a few.
  std::string roll_call() const;
  std::vector<int> missing() const;
  // By number; all must have joined. A host is a pair of node and machine, and local ranks are
  // numbered from 0 in each.
  std::vector<RankPlace> places() const;

  // How many members the functions that look at all of them have looked at, for tests.
  std::uint64_t visited() const { return visited_; }

 private:
  // The host of the node on which the missing member should be, if another one of that node has
  // joined; else empty.
  std::string host_of_missing(int number) const;

  // Successive members of one node, as those that have joined tell of it.
  struct Node {
    std::int64_t end;  // behind the last one
    std::string host_name;
  };

  std::string noun_;
  std::vector<std::optional<JoinRequest>> members_;
  std::map<std::int64_t, Node> nodes_{};  // by their first members
  int joined_ = 0;
  mutable std::uint64_t visited_ = 0;
};

}  // namespace phalanx::rendezvous
