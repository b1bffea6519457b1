#include "phalanx/rendezvous/gate.h"

#include <fmt/core.h>

#include <algorithm>

namespace phalanx::rendezvous {

void Gate::expect(int members) {
  constexpr std::size_t kMembersOfAPlace = 8;
  const auto wanted = static_cast<std::size_t>(std::max(members, 0)) / kMembersOfAPlace;
  limits_.pending = std::clamp(wanted, kFewestPending, kMostPending);
}

Gate::Entry Gate::find(Id id) {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? pending_.end() : found->second;
}

Gate::Entry Gate::oldest_of(const std::string& address) {
  return std::find_if(pending_.begin(), pending_.end(),
                      [&](const Pending& entry) { return entry.address->first == address; });
}

Gate::Clock::time_point Gate::may_go_at(const Pending& entry) const {
  const Count& of_address = entry.address->second;
  if (of_address.connections > limits_.pending / 4 && !of_address.has_proved) {
    return entry.since + limits_.crowd_age;
  }
  return entry.since + (entry.has_hello ? limits_.hello_age : limits_.unproven_age);
}

Gate::Entry Gate::first_to_go(Clock::time_point now) {
  Entry first = pending_.end();
  for (auto entry = pending_.begin(); entry != pending_.end(); ++entry) {
    const bool is_busier = first == pending_.end() ||
                           entry->address->second.connections > first->address->second.connections;
    if (is_busier && may_go_at(*entry) <= now) first = entry;
  }
  return first;
}

void Gate::remove(Entry entry) {
  room_at_.reset();
  if (--entry->address->second.connections == 0) counts_.erase(counts_.find(entry->address->first));
  by_id_.erase(entry->id);
  pending_.erase(entry);
}

Gate::Record& Gate::record(const std::string& address, Clock::time_point now) {
  if (records_.size() >= limits_.addresses && !records_.contains(address)) {
    const auto oldest = std::min_element(
        records_.begin(), records_.end(),
        [](const auto& left, const auto& right) { return left.second.last < right.second.last; });
    records_.erase(oldest);
  }
  const auto [entry, is_new] = records_.try_emplace(address);
  Record& known = entry->second;
  known.allowance = is_new ? limits_.failures_at_once : allowance(known, now);
  known.last = now;
  return known;
}

double Gate::allowance(const Record& record, Clock::time_point now) const {
  const double seconds = std::chrono::duration<double>(now - record.last).count();
  return std::min(limits_.failures_at_once,
                  record.allowance + seconds * limits_.failures_per_second);
}

bool Gate::has_room(Clock::time_point now) const {
  if (pending_.size() < limits_.pending) return true;
  if (!room_at_) {
    room_at_ = Clock::time_point::max();
    for (const Pending& entry : pending_) room_at_ = std::min(*room_at_, may_go_at(entry));
  }
  return *room_at_ <= now;
}

bool Gate::is_suspect(const std::string& address, Clock::time_point now) const {
  const auto known = records_.find(address);
  return known != records_.end() && now - known->second.last < limits_.suspicion;
}

Gate::Answer Gate::enter(Id id, const std::string& address, Clock::time_point now,
                         std::optional<Id>& evicted) {
  evicted.reset();
  // Only addresses with failed hellos have a record, and limits.
  const bool suspect = is_suspect(address, now);
  if (suspect && allowance(records_.at(address), now) < 1) return Answer::kRefuse;
  const auto count = counts_.find(address);
  Entry leaving = pending_.end();
  if (suspect && count != counts_.end() &&
      count->second.connections >= limits_.pending_of_suspect) {
    leaving = oldest_of(address);
    if (now - leaving->since < limits_.suspect_unproven_age) return Answer::kRefuse;
  } else if (pending_.size() >= limits_.pending) {
    if (!has_room(now)) return Answer::kLater;
    leaving = first_to_go(now);
    // An address with many connections makes room for others at once, and for itself by and by.
    const bool is_own = leaving->address->first == address;
    if (is_own && now - leaving->since < limits_.unproven_age) return Answer::kLater;
  }
  if (leaving != pending_.end()) {
    evicted = leaving->id;
    remove(leaving);
  }
  room_at_.reset();
  Counts::value_type& of_address = *counts_.try_emplace(address).first;
  ++of_address.second.connections;
  by_id_[id] = pending_.insert(pending_.end(), {id, &of_address, now});
  return Answer::kEnter;
}

void Gate::said_hello(Id id) {
  const Entry entry = find(id);
  if (entry == pending_.end()) return;
  entry->has_hello = true;
  room_at_.reset();
}

void Gate::proved(Id id) {
  const Entry entry = find(id);
  if (entry == pending_.end()) return;
  entry->address->second.has_proved = true;
  remove(entry);
}

void Gate::leave(Id id) {
  if (const Entry entry = find(id); entry != pending_.end()) remove(entry);
}

void Gate::account_for_own_gap(Clock::duration gap, Clock::time_point now) {
  for (Pending& entry : pending_) entry.since = std::min(now, entry.since + gap);
  room_at_.reset();
}

std::optional<std::string> Gate::failed(Id id, const std::string& reason, Clock::time_point now) {
  const Entry entry = find(id);
  if (entry == pending_.end()) return std::nullopt;
  const std::string address = entry->address->first;
  remove(entry);
  Record& of_address = record(address, now);
  of_address.allowance -= 1;
  if (of_address.ever_logged && now - of_address.logged < limits_.log_period) {
    ++of_address.unlogged;
    return std::nullopt;
  }
  std::string line = fmt::format("the rendezvous refused {}: {}", address, reason);
  if (of_address.unlogged > 0) line += fmt::format(" (and {} times before)", of_address.unlogged);
  of_address.unlogged = 0;
  of_address.logged = now;
  of_address.ever_logged = true;
  return line;
}

std::optional<Gate::Id> Gate::overdue(Clock::time_point now) const {
  if (pending_.empty() || now - pending_.front().since < limits_.hello_timeout) return std::nullopt;
  return pending_.front().id;
}

}  // namespace phalanx::rendezvous
