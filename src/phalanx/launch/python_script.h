#pragma once
// Scripts of Python, which people give where a command belongs: their launch lines have one.

#include <optional>
#include <string>
#include <string_view>

namespace phalanx::launch {

// The command that takes the flags of a script: "pretrain t5" of pretrain_t5.py, "pretrain gpt" of
// any that has no other name here. None where the word is neither a Python script nor Python.
std::optional<std::string> command_of_script(std::string_view word);

}  // namespace phalanx::launch
