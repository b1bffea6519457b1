#include "phalanx/rendezvous/session.h"

#include <utility>

#include "phalanx/base/error.h"

namespace phalanx::rendezvous {

std::uint64_t Session::say(Bytes message) {
  if (unconfirmed_.size() >= kMostUnconfirmed) {
    has_forgotten_ = true;
    unconfirmed_.pop_front();
  }
  unconfirmed_.push_back({++said_, std::move(message)});
  return said_;
}

bool Session::hear(std::uint64_t number) {
  if (number <= heard_) return false;
  if (number != heard_ + 1) {
    throw UnavailableError("message {} follows message {}: one between them is lost", number,
                           heard_);
  }
  heard_ = number;
  return true;
}

void Session::confirm(std::uint64_t number) {
  if (number > said_) {
    throw UnavailableError("message {} is confirmed, and {} were said", number, said_);
  }
  while (!unconfirmed_.empty() && unconfirmed_.front().number <= number) unconfirmed_.pop_front();
}

}  // namespace phalanx::rendezvous
