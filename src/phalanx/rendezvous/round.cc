#include "phalanx/rendezvous/round.h"

#include <string_view>
#include <utility>

#include "phalanx/base/error.h"

namespace phalanx::rendezvous {
namespace {

std::string_view verb_of(RoundKind kind) {
  return kind == RoundKind::kGather ? "gathers" : "broadcasts";
}

}  // namespace

const std::vector<std::string>& LastTexts::texts() {
  texts_.resize(members_);
  return texts_;
}

void LastTexts::keep(int member, const std::string& text) {
  constexpr std::size_t kLongest = 256;
  std::string& kept = texts_[static_cast<std::size_t>(member)];
  if (text.size() <= kLongest) {
    kept = text;
  } else {
    kept.clear();
  }
}

std::vector<std::string> RoundReader::texts_of(RoundResult&& result) {
  if (result.kind == RoundKind::kBroadcast) {
    if (result.runs.size() != 1)
      throw UnavailableError("a broadcast of {} texts", result.runs.size());
    return {std::move(result.runs.front().text)};
  }
  std::vector<std::string> texts = last_.texts();
  for (const RoundResult::Run& run : result.runs) {
    if (run.first < 0 || run.count > std::ssize(texts) - run.first) {
      throw UnavailableError("gathered texts of {} ranks instead of {}", run.first + run.count,
                             texts.size());
    }
    for (int member = run.first; member < run.first + run.count; ++member) {
      texts[static_cast<std::size_t>(member)] = run.text;
      last_.keep(member, run.text);
    }
  }
  return texts;
}

Round::Round(int members) : parts_(static_cast<std::size_t>(members)), last_(members) { begin(); }

void Round::begin() {
  for (int member = 0; member < std::ssize(parts_); ++member) {
    missing_.insert(missing_.end(), member);
  }
}

void Round::add(int member, RoundPart part) {
  std::optional<std::string>& place = parts_.at(static_cast<std::size_t>(member));
  if (part.round != number_ || place) {
    throw UnavailableError("its exchange of texts is number {}, that of the others number {}",
                           part.round, number_);
  }
  if (!has_begun()) {
    kind_ = part.kind;
    first_ = member;
  } else if (part.kind != kind_) {
    throw UnavailableError("it {} texts where number {} {} them (exchange {})", verb_of(part.kind),
                           first_, verb_of(kind_), number_);
  }
  place = std::move(part.text);
  missing_.erase(member);
}

std::optional<RoundResult> Round::finish() {
  if (parts_.empty() || !missing_.empty()) return std::nullopt;
  RoundResult result{number_, kind_, {}};
  for (int member = 0; member < std::ssize(parts_); ++member) {
    std::optional<std::string>& part = parts_[static_cast<std::size_t>(member)];
    std::string text;
    if (part) text.swap(*part);
    part.reset();
    if (kind_ == RoundKind::kBroadcast) {
      if (member == 0) result.runs.push_back({0, 1, text});
      continue;
    }
    if (text == last_.texts()[static_cast<std::size_t>(member)]) continue;
    last_.keep(member, text);
    const bool goes_on = !result.runs.empty() && result.runs.back().text == text &&
                         result.runs.back().first + result.runs.back().count == member;
    if (goes_on) {
      ++result.runs.back().count;
    } else {
      result.runs.push_back({member, 1, text});
    }
  }
  ++number_;
  begin();
  return result;
}

std::vector<int> Round::missing(std::size_t most) const {
  std::vector<int> members;
  if (!has_begun()) return members;
  for (const int member : missing_) {
    if (members.size() == most) break;
    members.push_back(member);
  }
  return members;
}

int Round::missing_count() const { return has_begun() ? static_cast<int>(missing_.size()) : 0; }

}  // namespace phalanx::rendezvous
