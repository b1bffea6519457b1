#include "phalanx/launch/node_board.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <exception>
#include <limits>
#include <utility>

#include "phalanx/base/error.h"

namespace phalanx::launch {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kGone = std::numeric_limits<int>::max();
constexpr int kKeptStages = 4;
constexpr auto kGoodbye = std::chrono::seconds(15);

// "STAGE TEXT".
std::pair<int, std::string> read_post(const std::string& post) {
  int stage = -1;
  const auto [end, fault] = std::from_chars(post.data(), post.data() + post.size(), stage);
  if (fault != std::errc{} || end == post.data() + post.size()) {
    throw DataError("what another launcher posts cannot be read");
  }
  return {stage, std::string(end + 1)};
}

}  // namespace

NodeBoard::NodeBoard(int nodes, GatherTexts gather, std::chrono::milliseconds pace)
    : nodes_(nodes),
      gather_(std::move(gather)),
      pace_(pace),
      stages_(static_cast<std::size_t>(nodes), -1),
      thread_([this] { run(); }) {}

NodeBoard::~NodeBoard() {
  {
    const std::lock_guard lock(mutex_);
    stage_ = kGone;
    text_.clear();
    leave_by_ = Clock::now() + kGoodbye;
  }
  thread_.join();
}

void NodeBoard::post(int stage, std::string text) {
  const std::lock_guard lock(mutex_);
  PHALANX_CHECK(stage >= stage_, "stage {} after {}", stage, stage_);
  stage_ = stage;
  text_ = std::move(text);
}

std::optional<std::vector<std::string>> NodeBoard::texts(int stage) const {
  const std::lock_guard lock(mutex_);
  const auto seen = seen_.find(stage);
  if (seen != seen_.end() && std::ssize(seen->second) == nodes_) {
    std::vector<std::string> texts;
    for (const auto& [node, text] : seen->second) texts.push_back(text);
    return texts;
  }
  if (!lost_.empty()) throw Error(ErrorCode::kTemporary, lost_);
  return std::nullopt;
}

std::vector<std::string> NodeBoard::latest(int stage) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> texts(static_cast<std::size_t>(nodes_));
  const auto seen = seen_.find(stage);
  if (seen == seen_.end()) return texts;
  for (const auto& [node, text] : seen->second) texts[static_cast<std::size_t>(node)] = text;
  return texts;
}

std::string NodeBoard::lost() const {
  const std::lock_guard lock(mutex_);
  return lost_;
}

void NodeBoard::run() {
  try {
    for (bool goes_on = true; goes_on;) {
      std::string mine;
      {
        const std::lock_guard lock(mutex_);
        mine = fmt::format("{} {}", stage_, text_);
      }
      goes_on = on_round(gather_(std::move(mine)));
      if (goes_on) std::this_thread::sleep_for(pace_);
    }
  } catch (const std::exception& error) {
    const std::lock_guard lock(mutex_);
    lost_ = fmt::format("another launcher of the run is gone: {}", error.what());
  }
  changed_.set();
}

// False when all have said goodbye, or the time for that is over.
bool NodeBoard::on_round(const std::vector<std::string>& texts) {
  const std::lock_guard lock(mutex_);
  bool all_gone = true;
  bool has_changed = false;
  for (int node = 0; node < nodes_ && node < std::ssize(texts); ++node) {
    auto [stage, text] = read_post(texts[static_cast<std::size_t>(node)]);
    all_gone = all_gone && stage == kGone;
    int& last = stages_[static_cast<std::size_t>(node)];
    if (stage == kGone && last != kGone && stage_ != kGone && lost_.empty()) {
      lost_ = fmt::format("the launcher of node {} has left the run", node);
      has_changed = true;
    }
    last = stage;
    if (stage < 0 || stage == kGone) continue;
    auto& texts_of_stage = seen_[stage];
    const auto known = texts_of_stage.find(node);
    if (known != texts_of_stage.end() && known->second == text) continue;
    texts_of_stage[node] = std::move(text);
    has_changed = true;
  }
  while (std::ssize(seen_) > kKeptStages) seen_.erase(seen_.begin());
  if (has_changed) changed_.set();
  return !all_gone && (!leave_by_ || Clock::now() < *leave_by_);
}

}  // namespace phalanx::launch
