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

void Round::add(int member, RoundPart part) {
  std::optional<std::string>& place = parts_.at(static_cast<std::size_t>(member));
  if (part.round != number_ || place) {
    throw UnavailableError("its exchange of texts is number {}, that of the others number {}",
                           part.round, number_);
  }
  if (arrived_ == 0) {
    kind_ = part.kind;
    first_ = member;
  } else if (part.kind != kind_) {
    throw UnavailableError("it {} texts where number {} {} them (exchange {})", verb_of(part.kind),
                           first_, verb_of(kind_), number_);
  }
  place = std::move(part.text);
  ++arrived_;
}

std::optional<RoundResult> Round::finish() {
  if (parts_.empty() || arrived_ != static_cast<int>(parts_.size())) return std::nullopt;
  RoundResult result{number_, {}};
  for (std::optional<std::string>& part : parts_) {
    if (part && (kind_ == RoundKind::kGather || result.texts.empty())) {
      result.texts.push_back(std::move(*part));
    }
    part.reset();
  }
  ++number_;
  arrived_ = 0;
  return result;
}

std::vector<int> Round::missing() const {
  std::vector<int> members;
  if (arrived_ == 0) return members;
  for (std::size_t member = 0; member < parts_.size(); ++member) {
    if (!parts_[member]) members.push_back(static_cast<int>(member));
  }
  return members;
}

}  // namespace phalanx::rendezvous
