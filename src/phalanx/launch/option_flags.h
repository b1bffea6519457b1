#pragma once
// The flags of `phalanx launch`, torchrun's, with their help texts.

#include <cstdint>
#include <string>

#include "phalanx/flags/flag_set.h"

namespace phalanx::launch {

// The values that were given, as text where more than one form is allowed.
struct FlagValues {
  std::string ranks = "1";
  std::string nodes = "1";
  std::int64_t node = 0;
  std::string master_address;
  std::int64_t master_port = 29500;
  std::string endpoint;
  std::string run_id;
  std::string rendezvous_settings;
  bool standalone = false;
  std::int64_t max_restarts = 0;
  std::string log_directory;
  std::string redirects = "0";
  std::string tee = "0";
  std::string console_ranks;
  std::string role = "default";
  std::string signals = "SIGTERM,SIGINT,SIGHUP,SIGUSR1,SIGUSR2";
  std::string secret_file;
  bool insecure = false;
  bool bind_any = false;
  bool virtual_local_rank = false;
};

// Adds the flags, bound to `values`, and the examples.
void add_launch_flags(FlagSet& flags, FlagValues& values);

}  // namespace phalanx::launch
