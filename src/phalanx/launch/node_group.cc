#include "phalanx/launch/node_group.h"

#include <utility>

namespace phalanx::launch {

void VerdictBox::put(RankVerdict verdict, std::vector<std::string> report) {
  const std::lock_guard lock(mutex_);
  if (entry_) return;  // the first one counts
  entry_ = Entry{.verdict = std::move(verdict),
                 .report = std::move(report),
                 .time = std::chrono::steady_clock::now()};
  changed_.set();
}

std::optional<VerdictBox::Entry> VerdictBox::take() {
  const std::lock_guard lock(mutex_);
  changed_.clear();
  return std::exchange(entry_, std::nullopt);
}

NodeGroup::NodeGroup(NodeGroupParts parts) : parts_(std::move(parts)) {
  if (!parts_.verdicts) parts_.verdicts = std::make_shared<VerdictBox>();
  if (parts_.nodes > 1) board_.emplace(parts_.nodes, parts_.gather, parts_.pace);
}

void NodeGroup::post(int stage, std::string text) {
  if (board_) return board_->post(stage, std::move(text));
  stage_ = stage;
  text_ = std::move(text);
}

std::optional<std::vector<std::string>> NodeGroup::texts(int stage) const {
  if (board_) return board_->texts(stage);
  return stage == stage_ ? std::optional(std::vector{text_}) : std::nullopt;
}

std::vector<std::string> NodeGroup::latest(int stage) const {
  if (board_) return board_->latest(stage);
  return {stage == stage_ ? text_ : ""};
}

std::string NodeGroup::lost() const { return board_ ? board_->lost() : ""; }

void NodeGroup::give_up(const std::string& reason) const {
  if (parts_.give_up) parts_.give_up(reason);
}

void NodeGroup::begin_attempt(int attempt, int world_size) {
  if (parts_.server) parts_.server->begin_attempt(attempt, world_size);
  parts_.verdicts->take();  // of the attempt before
}

void NodeGroup::rank_ended(int rank, const std::string& how) const {
  if (parts_.server) parts_.server->rank_ended(rank, how);
}

std::optional<VerdictBox::Entry> NodeGroup::take_verdict() { return parts_.verdicts->take(); }

int NodeGroup::board_descriptor() const { return board_ ? board_->changed().descriptor() : -1; }

void NodeGroup::clear_events() const {
  if (board_) board_->changed().clear();
}

}  // namespace phalanx::launch
