#pragma once
// The places of all ranks in few words: a cluster with the same number of ranks on each host and
// hosts that are numbered is a line, however large it is. The welcome brings it to every member.

#include <string>
#include <vector>

#include "phalanx/rendezvous/rank_place.h"

namespace phalanx::rendezvous {

// As JSON. The places are those of Roster::places(): hosts by their first ranks, local ranks in the
// order of the ranks. A host has the name that its first rank gives.
std::string places_text(const std::vector<RankPlace>& places);
// UnavailableError if the text is no list of places.
std::vector<RankPlace> read_places(const std::string& text);

}  // namespace phalanx::rendezvous
