#pragma once

#include <functional>
#include <string>
#include <vector>

namespace phalanx {

// Gathers the texts of all ranks (or launchers), by number; every one of them calls it with its
// own. Throws if one is gone. Member::gather() is one; tests have others.
using GatherTexts = std::function<std::vector<std::string>(std::string mine)>;

}  // namespace phalanx
