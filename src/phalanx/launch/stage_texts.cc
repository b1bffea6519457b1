#include "phalanx/launch/stage_texts.h"

#include <fmt/core.h>

#include <charconv>
#include <limits>
#include <utility>

#include "phalanx/base/error.h"

namespace phalanx::launch {
namespace {

constexpr int kGone = std::numeric_limits<int>::max();
constexpr int kKeptStages = 4;

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

StageTexts::StageTexts(int nodes) : nodes_(nodes), stages_(static_cast<std::size_t>(nodes), -1) {}

void StageTexts::post(int stage, std::string text) {
  PHALANX_CHECK(stage >= stage_, "stage {} after {}", stage, stage_);
  stage_ = stage;
  text_ = std::move(text);
}

std::optional<std::vector<std::string>> StageTexts::texts(int stage) const {
  const auto seen = seen_.find(stage);
  if (seen != seen_.end() && std::ssize(seen->second) == nodes_) {
    std::vector<std::string> texts;
    for (const auto& [node, text] : seen->second) texts.push_back(text);
    return texts;
  }
  if (!lost_.empty()) throw Error(ErrorCode::kTemporary, lost_);
  return std::nullopt;
}

std::vector<std::string> StageTexts::latest(int stage) const {
  std::vector<std::string> texts(static_cast<std::size_t>(nodes_));
  const auto seen = seen_.find(stage);
  if (seen == seen_.end()) return texts;
  for (const auto& [node, text] : seen->second) texts[static_cast<std::size_t>(node)] = text;
  return texts;
}

void StageTexts::say_goodbye() {
  stage_ = kGone;
  text_.clear();
}

void StageTexts::break_off(const std::string& why) {
  lost_ = fmt::format("another launcher of the run is gone: {}", why);
}

std::string StageTexts::mine() const { return fmt::format("{} {}", stage_, text_); }

StageTexts::Round StageTexts::on_round(const std::vector<std::string>& texts) {
  Round round{false, true};
  for (int node = 0; node < nodes_ && node < std::ssize(texts); ++node) {
    auto [stage, text] = read_post(texts[static_cast<std::size_t>(node)]);
    round.all_gone = round.all_gone && stage == kGone;
    int& last = stages_[static_cast<std::size_t>(node)];
    if (stage == kGone && last != kGone && stage_ != kGone && lost_.empty()) {
      lost_ = fmt::format("the launcher of node {} has left the run", node);
      round.has_changed = true;
    }
    last = stage;
    if (stage < 0 || stage == kGone) continue;
    auto& texts_of_stage = seen_[stage];
    const auto known = texts_of_stage.find(node);
    if (known != texts_of_stage.end() && known->second == text) continue;
    texts_of_stage[node] = std::move(text);
    round.has_changed = true;
  }
  while (std::ssize(seen_) > kKeptStages) seen_.erase(seen_.begin());
  return round;
}

}  // namespace phalanx::launch
