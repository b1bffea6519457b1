#pragma once
// Python scripts in place of a command, as in launch lines for torchrun.

#include <optional>
#include <string>
#include <string_view>

namespace phalanx::launch {

// The command that takes a script's flags: "pretrain t5" for pretrain_t5.py, "pretrain gpt" for any
// script that is not known. None if the word is neither a Python script nor Python.
std::optional<std::string> command_of_script(std::string_view word);

}  // namespace phalanx::launch
