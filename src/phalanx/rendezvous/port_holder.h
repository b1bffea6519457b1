#pragma once
// Who listens where this process wanted to: for messages.

#include <filesystem>
#include <string>

#include "phalanx/rendezvous/launch_environment.h"

namespace phalanx::rendezvous {

// "pid 812 (python3 train.py)"; empty where it cannot be known: another user's process, or none.
// `proc` is the kernel's directory.
std::string port_holder(const Endpoint& endpoint, const std::filesystem::path& proc = "/proc");

}  // namespace phalanx::rendezvous
