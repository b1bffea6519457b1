#pragma once
// One attempt: starts the ranks of this node, watches them, and returns when all have ended. One
// loop, on the thread that starts them; it sleeps until something happens.

#include <chrono>
#include <filesystem>
#include <string>

#include "phalanx/base/background_writer.h"
#include "phalanx/checkpoint/memory_files.h"
#include "phalanx/launch/console.h"
#include "phalanx/launch/interruptions.h"
#include "phalanx/launch/node_group.h"
#include "phalanx/launch/options.h"
#include "phalanx/launch/rank_end.h"
#include "phalanx/launch/signal_inbox.h"

namespace phalanx::launch {

// The place of this node's ranks among all ranks.
struct WorldPlace {
  int first_rank = 0;
  int world_size = 1;
  std::string host;
};

struct AttemptSetup {
  const LaunchOptions& options;
  std::filesystem::path program;
  WorldPlace place;
  int attempt = 0;
  std::string run_id;               // TORCHELASTIC_RUN_ID
  std::string launch_id;            // PHALANX_LAUNCH: of all attempts of this launch and no other
  std::filesystem::path directory;  // of this attempt's logs; empty: none
  int secret_descriptor = -1;       // that the ranks inherit; -1: none
  const MemoryFiles& memory_files;  // likewise, for snapshots
  int last_saved_descriptor = -1;   // likewise, of LastSavedFile; -1: none
  int stage = 0;                    // of NodeBoard, for this node's reports
  bool error_is_terminal = false;
  std::chrono::milliseconds grace = std::chrono::seconds(1);           // as LaunchSetup's
  std::chrono::milliseconds kill_patience = std::chrono::seconds(10);  // likewise
};

// Objects that live longer than an attempt.
struct AttemptSurroundings {
  NodeGroup& group;
  Console& console;
  BackgroundWriter& log_writer;
  SignalInbox& inbox;
  Interruptions& interruptions;
  bool& has_failed_file;
};

// SystemError or OutputError if a rank cannot be started; then none is left running. Error 75 if
// another launcher is gone.
NodeReport run_attempt(const AttemptSetup& setup, const AttemptSurroundings& around);

}  // namespace phalanx::launch
