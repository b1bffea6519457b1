#pragma once
// The places of all ranks in few words: a cluster with the same number of ranks on each host and
// hosts that are numbered is a line, however large it is. The welcome brings it to every member.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "phalanx/rendezvous/rank_place.h"

namespace phalanx::rendezvous {

class PlaceList {
 public:
  PlaceList() = default;
  // The places are those of Roster::places(): hosts by their first ranks, local ranks in the order
  // of the ranks. A host has the name that its first rank gives.
  explicit PlaceList(const std::vector<RankPlace>& places);
  // UnavailableError if the text is no list of places.
  static PlaceList read(const std::string& text);
  std::string text() const;

  int ranks() const { return ranks_; }
  int hosts() const { return hosts_; }
  int host_of(int rank) const;
  std::vector<RankPlace> places() const;

 private:
  // Successive ranks: `each` on every one of `hosts` hosts from `first` on.
  struct Ranks {
    int first, hosts, each;
  };
  // Successive hosts, whose names are `prefix` and a number of so many digits, or (0) all `prefix`.
  struct Names {
    std::string prefix;
    std::size_t digits;
    std::int64_t first;
    int count;
  };

  static std::string name_at(const Names& run, int at);
  void add_name(std::string name);

  int ranks_ = 0;
  int hosts_ = 0;
  std::vector<Ranks> runs_{};
  std::vector<Names> names_{};
};

}  // namespace phalanx::rendezvous
