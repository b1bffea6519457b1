#pragma once
// A communicator without peers: every message is checked and recorded, and no data moves. With it
// the program of any rank of any world runs alone on the planning backend.

#include <map>
#include <memory>
#include <string>

#include "phalanx/comm/communicator.h"

namespace phalanx {

// The sizes of groups by their names, of those that a rank is in. Of two groups with one name the
// larger one counts.
using GroupSizes = std::map<std::string, int>;

// The end of `rank` in a world of `size`. `sizes`, where given, gets the group of every split.
std::unique_ptr<Communicator> make_meta_world(int rank, int size,
                                              std::shared_ptr<GroupSizes> sizes = nullptr);

}  // namespace phalanx
