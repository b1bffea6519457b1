#include "phalanx/rendezvous/session.h"

#include <utility>

#include "phalanx/base/error.h"

namespace phalanx::rendezvous {

std::uint64_t Session::add_sent(Bytes message) {
  if (unconfirmed_.size() >= kMostUnconfirmed) {
    has_forgotten_ = true;
    unconfirmed_.pop_front();
  }
  unconfirmed_.push_back({++last_sent_, std::move(message)});
  return last_sent_;
}

bool Session::accept(std::uint64_t number) {
  if (number <= last_received_) return false;
  if (number != last_received_ + 1) {
    throw UnavailableError("message {} follows message {}: one between them is lost", number,
                           last_received_);
  }
  last_received_ = number;
  return true;
}

void Session::confirm(std::uint64_t number) {
  if (number > last_sent_) {
    throw UnavailableError("message {} is confirmed, and {} were said", number, last_sent_);
  }
  while (!unconfirmed_.empty() && unconfirmed_.front().number <= number) unconfirmed_.pop_front();
}

}  // namespace phalanx::rendezvous
