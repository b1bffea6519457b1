#pragma once
// The process that listens at an endpoint, for error messages.

#include <filesystem>
#include <string>

#include "phalanx/rendezvous/launch_environment.h"

namespace phalanx::rendezvous {

// "pid 812 (python3 train.py)"; empty if it cannot be known: another user's process, or none.
std::string port_holder(const Endpoint& endpoint, const std::filesystem::path& proc = "/proc");

}  // namespace phalanx::rendezvous
