#pragma once
// Which actions of programs belong to the same message.

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "phalanx/pipeline/action.h"

namespace phalanx {

constexpr int kNoLink = -1;

// By rank and place in its list. For a send or a receive: the place of the other end in the peer's
// list. For an await: the place of the send in the own list. For a pass: the place of the receive
// that it reads in the own list. kNoLink if there is none.
using MessageLinks = std::vector<std::vector<int>>;

// The first error, if any: a message that is sent before it is made or received after it is read,
// or two ends that do not match. The k-th message that a rank sends to another must be the k-th
// that the other receives from it.
std::optional<std::string> link_messages(std::span<const Program> programs, MessageLinks& links);

}  // namespace phalanx
