#pragma once
// Texts that the launchers of a run exchange: each posts a text for the stage that it is in, and
// sees those of all. A thread exchanges what has been posted in rounds (stage_texts.h).

#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "phalanx/launch/stage_texts.h"
#include "phalanx/launch/wake_event.h"
#include "phalanx/rendezvous/gather_texts.h"

namespace phalanx::launch {

class NodeBoard {
 public:
  NodeBoard(int nodes, GatherTexts gather, std::chrono::milliseconds pace);
  NodeBoard(const NodeBoard&) = delete;
  NodeBoard& operator=(const NodeBoard&) = delete;
  // Says goodbye, and waits for the goodbyes of all, up to a limit.
  ~NodeBoard();

  // Stages may only rise. A later text of the same stage replaces the one before.
  void post(int stage, std::string text);
  // The texts of a stage, by node, once all launchers have reached it; the last text of a launcher
  // that is in a later stage. Error 75 if a launcher is gone.
  std::optional<std::vector<std::string>> texts(int stage) const;
  // The texts of a stage that are there now, by node; empty where there is none yet.
  std::vector<std::string> latest(int stage) const;
  // The launcher that is gone, for people; empty: all are there.
  std::string lost() const;

  // Readable when something has changed. One thread uses and clears it.
  const WakeEvent& changed() const { return changed_; }

 private:
  void run();
  bool on_round(const std::vector<std::string>& texts);

  GatherTexts gather_;
  std::chrono::milliseconds pace_;
  WakeEvent changed_;
  mutable std::mutex mutex_;
  StageTexts texts_;
  std::optional<std::chrono::steady_clock::time_point> leave_by_;
  std::thread thread_;
};

}  // namespace phalanx::launch
