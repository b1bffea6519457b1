#pragma once
// The options of `phalanx launch`: torchrun's flags, then the command that the ranks run.

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "phalanx/launch/stream_choice.h"

namespace phalanx::launch {

struct LaunchOptions {
  int ranks = 1;  // of this node
  int nodes = 1;
  int node = 0;
  std::string master_address;  // several nodes: of node 0
  int master_port = 29500;
  std::string run_id;  // --rdzv-id; empty: not given
  int max_restarts = 0;
  std::filesystem::path log_directory;         // empty: no files
  StreamChoice redirects;                      // into the log files alone
  StreamChoice tee;                            // into the log files and to the console, every line
  std::optional<std::set<int>> console_ranks;  // --local-ranks-filter
  std::string role = "default";
  std::vector<int> stop_signals;      // that ask the run to save and leave
  std::filesystem::path secret_file;  // empty: not given
  std::string secret_flag;            // how it was given: the flag, or the variable's name
  bool insecure = false;
  bool bind_any = false;
  std::chrono::milliseconds join_timeout = std::chrono::minutes(10);
  // Before a restart: how long what the job saved is waited for where it is not there.
  std::chrono::milliseconds save_timeout = std::chrono::minutes(1);
  bool virtual_local_rank = false;  // every rank is told LOCAL_RANK 0
  std::vector<std::string> command;
  bool ranks_join = true;          // each other: the command trains
  std::vector<std::string> notes;  // to be said at the start
};

using IsCommand = std::function<bool(const std::string& word)>;
using GetVariable = std::function<const char*(const char* name)>;

// Reads the words after `phalanx launch`: flags, then the command of the ranks. The command begins
// with the first word that is a command of the program and not a flag's value, or after --. Flags
// that are not given are taken from torchrun's PET_ variables (PET_NNODES). UsageError,
// ConfigError; HelpRequested for --help.
LaunchOptions parse_launch_options(const std::vector<std::string>& arguments,
                                   const IsCommand& is_command, const GetVariable& variable);
LaunchOptions parse_launch_options(const std::vector<std::string>& arguments,
                                   const IsCommand& is_command);

}  // namespace phalanx::launch
