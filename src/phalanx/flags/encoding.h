#pragma once
// Flags are UTF-8: their values are written into JSON, which can hold nothing else, and a path that
// came back from there with other bytes would name another file.

#include <string>
#include <string_view>
#include <vector>

namespace phalanx {

// UsageError where the text is not UTF-8; `what` names it: "--save", "the environment's HOME".
void expect_utf8(std::string_view what, std::string_view text);
// The same for the words of a call, with the flag that a word belongs to.
void expect_utf8(const std::vector<std::string>& words);

}  // namespace phalanx
