#pragma once
// What the launchers of a run tell each other: every one posts a text for the stage that it is in,
// and sees those of all. Carried by rounds in which all of them exchange what they have posted.

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "phalanx/launch/wake_event.h"

namespace phalanx::launch {

// The texts of all launchers, by node; every launcher calls it at the same time. Throws where one
// of them is gone.
using GatherTexts = std::function<std::vector<std::string>(std::string mine)>;

class NodeBoard {
 public:
  NodeBoard(int nodes, GatherTexts gather, std::chrono::milliseconds pace);
  NodeBoard(const NodeBoard&) = delete;
  NodeBoard& operator=(const NodeBoard&) = delete;
  // Says goodbye, and waits a while until all have.
  ~NodeBoard();

  // Stages only rise. A later text of the same stage takes the place of the one before.
  void post(int stage, std::string text);
  // The texts of a stage, by node, once all have reached it; of those who have gone on, their last.
  // Error 75 where a launcher is gone.
  std::optional<std::vector<std::string>> texts(int stage) const;
  // Those that are there now of a stage; empty texts of the others.
  std::vector<std::string> latest(int stage) const;
  // A launcher is gone: who, for people. Empty: all are there.
  std::string lost() const;

  // Readable when something has changed. For one thread, which clears it.
  const WakeEvent& changed() const { return changed_; }

 private:
  void run();
  bool take(const std::vector<std::string>& texts);

  int nodes_;
  GatherTexts gather_;
  std::chrono::milliseconds pace_;
  WakeEvent changed_;
  mutable std::mutex mutex_;
  int stage_ = -1;
  std::string text_;
  std::map<int, std::map<int, std::string>> seen_;  // stage, node
  std::vector<int> stages_;                         // by node, the last seen
  std::string lost_;
  std::optional<std::chrono::steady_clock::time_point> leaves_;
  std::thread thread_;
};

}  // namespace phalanx::launch
