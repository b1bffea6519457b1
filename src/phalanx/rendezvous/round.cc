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

Round::Round(int members) : parts_(static_cast<std::size_t>(members)) { begin(); }

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
  RoundResult result{number_, {}};
  for (std::optional<std::string>& part : parts_) {
    if (part && (kind_ == RoundKind::kGather || result.texts.empty())) {
      result.texts.push_back(std::move(*part));
    }
    part.reset();
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
