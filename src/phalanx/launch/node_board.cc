#include "phalanx/launch/node_board.h"

#include <exception>
#include <utility>

namespace phalanx::launch {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kGoodbye = std::chrono::seconds(15);

}  // namespace

NodeBoard::NodeBoard(int nodes, GatherTexts gather, std::chrono::milliseconds pace)
    : gather_(std::move(gather)), pace_(pace), texts_(nodes), thread_([this] { run(); }) {}

NodeBoard::~NodeBoard() {
  {
    const std::lock_guard lock(mutex_);
    texts_.say_goodbye();
    leave_by_ = Clock::now() + kGoodbye;
  }
  thread_.join();
}

void NodeBoard::post(int stage, std::string text) {
  const std::lock_guard lock(mutex_);
  texts_.post(stage, std::move(text));
}

std::optional<std::vector<std::string>> NodeBoard::texts(int stage) const {
  const std::lock_guard lock(mutex_);
  return texts_.texts(stage);
}

std::vector<std::string> NodeBoard::latest(int stage) const {
  const std::lock_guard lock(mutex_);
  return texts_.latest(stage);
}

std::string NodeBoard::lost() const {
  const std::lock_guard lock(mutex_);
  return texts_.lost();
}

void NodeBoard::run() {
  try {
    for (bool goes_on = true; goes_on;) {
      std::string mine;
      {
        const std::lock_guard lock(mutex_);
        mine = texts_.mine();
      }
      goes_on = on_round(gather_(std::move(mine)));
      if (goes_on) std::this_thread::sleep_for(pace_);
    }
  } catch (const std::exception& error) {
    const std::lock_guard lock(mutex_);
    texts_.break_off(error.what());
  }
  changed_.set();
}

// False when all have said goodbye, or the time for that is over.
bool NodeBoard::on_round(const std::vector<std::string>& texts) {
  const std::lock_guard lock(mutex_);
  const StageTexts::Round round = texts_.on_round(texts);
  if (round.has_changed) changed_.set();
  return !round.all_gone && (!leave_by_ || Clock::now() < *leave_by_);
}

}  // namespace phalanx::launch
