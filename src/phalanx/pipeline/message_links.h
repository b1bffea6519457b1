#pragma once
// Which actions of programs belong together because of a message.

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "phalanx/pipeline/action.h"

namespace phalanx {

constexpr int kNoLink = -1;

// By rank and place in its list: for a send or a receive the place of the other end in the peer's
// list; in the own list, for an await the place of the send, for a pass that of the receive which
// it reads. kNoLink where there is none.
using MessageLinks = std::vector<std::vector<int>>;

// What is wrong, if anything: a message that is sent before it is made, received after it is read,
// or whose ends do not match: the k-th that a rank sends to another must be the k-th that the other
// receives from it.
std::optional<std::string> link_messages(std::span<const Program> programs, MessageLinks& links);

}  // namespace phalanx
