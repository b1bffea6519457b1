#pragma once
// The launcher: starts the ranks of this node as processes, watches over them, starts them again
// after what may pass, and says whose fault it was. All launchers of a run decide alike.

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "phalanx/launch/node_group.h"
#include "phalanx/launch/options.h"

namespace phalanx::launch {

// What launch() runs with: the program that ranks execute, and how launchers and ranks meet.
struct LaunchSetup {
  std::filesystem::path program;
  std::string host;
  // Called once signals are watched, for it starts threads. `run_id`: TORCHELASTIC_RUN_ID; `poll`
  // is to be called a few times a second while it waits, and may throw.
  std::function<std::unique_ptr<NodeGroup>(const std::string& run_id,
                                           const std::function<void()>& poll)>
      make_group;
  // A descriptor of the run's secret, which the ranks inherit; -1: none.
  int secret_descriptor = -1;
  // After the first failure the other ranks have this long to leave by themselves, and as long
  // again after SIGTERM.
  std::chrono::milliseconds grace = std::chrono::seconds(1);
  // A process that SIGKILL has not ended by then is left behind.
  std::chrono::milliseconds kill_patience = std::chrono::seconds(10);
  // After ranks have failed, for the other nodes' launchers to say how theirs have ended.
  std::chrono::milliseconds others_patience = std::chrono::minutes(2);
  int output = 1;
  int error = 2;
};

// The exit status. Errors where the run cannot be started: 64-78 as they are, 75 where another
// launcher is gone.
int launch(const LaunchOptions& options, const LaunchSetup& setup);

}  // namespace phalanx::launch
