#pragma once
// The launcher: starts the ranks of this node as processes, watches them, restarts them after
// failures that may pass, and names the rank that failed. All launchers of a run decide alike.

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "phalanx/launch/node_group.h"
#include "phalanx/launch/options.h"

namespace phalanx::launch {

// What launch() needs besides the options: the ranks' program, and how launchers and ranks meet.
struct LaunchSetup {
  std::filesystem::path program;
  std::string host;
  // Connects the launchers (meet_nodes). It starts threads, so it is called after signals are
  // blocked. `run_id`: TORCHELASTIC_RUN_ID. It must call `poll`, which may throw, a few times a
  // second while it waits.
  std::function<std::unique_ptr<NodeGroup>(const std::string& run_id,
                                           const std::function<void()>& poll)>
      make_group;
  // A descriptor of the run's secret, which the ranks inherit; -1: none.
  int secret_descriptor = -1;
  // After the first failure the other ranks have this long to end by themselves, and as long again
  // after SIGTERM.
  std::chrono::milliseconds grace = std::chrono::seconds(1);
  // How long a process may outlive SIGKILL before it is left behind.
  std::chrono::milliseconds kill_patience = std::chrono::seconds(10);
  // How long to wait for the other launchers' reports after ranks have failed.
  std::chrono::milliseconds others_patience = std::chrono::minutes(2);
  int output = 1;
  int error = 2;
};

// Runs all attempts; the exit status. Errors if the run cannot be started: 64-78 as they are; 75 if
// another launcher is gone.
int launch(const LaunchOptions& options, const LaunchSetup& setup);

}  // namespace phalanx::launch
