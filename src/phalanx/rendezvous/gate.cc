#include "phalanx/rendezvous/gate.h"

#include <fmt/core.h>

#include <algorithm>

namespace phalanx::rendezvous {

std::list<Gate::Pending>::iterator Gate::find(Id id) {
  return std::find_if(pending_.begin(), pending_.end(),
                      [&](const Pending& entry) { return entry.id == id; });
}

std::list<Gate::Pending>::iterator Gate::oldest_of(const std::string& address) {
  return std::find_if(pending_.begin(), pending_.end(),
                      [&](const Pending& entry) { return entry.address == address; });
}

std::string Gate::busiest_address() const {
  std::map<std::string, std::size_t> counts;
  for (const Pending& entry : pending_) ++counts[entry.address];
  const auto most = std::max_element(
      counts.begin(), counts.end(),
      [](const auto& left, const auto& right) { return left.second < right.second; });
  return most == counts.end() ? std::string() : most->first;
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
  return pending_.size() < limits_.pending || now - pending_.front().since >= limits_.unproven_age;
}

Gate::Answer Gate::enter(Id id, const std::string& address, Clock::time_point now,
                         std::optional<Id>& evicted) {
  evicted.reset();
  // Only addresses with failed hellos have a record, and limits.
  const auto known = records_.find(address);
  const bool suspect = known != records_.end() && now - known->second.last < limits_.suspicion;
  if (suspect && allowance(known->second, now) < 1) return Answer::kRefuse;
  const auto is_of_address = [&](const Pending& entry) { return entry.address == address; };
  std::list<Pending>::iterator evicted_entry = pending_.end();
  if (suspect &&
      static_cast<std::size_t>(std::count_if(pending_.begin(), pending_.end(), is_of_address)) >=
          limits_.pending_of_suspect) {
    evicted_entry = oldest_of(address);
    if (now - evicted_entry->since < limits_.suspect_unproven_age) return Answer::kRefuse;
  } else if (pending_.size() >= limits_.pending) {
    if (!has_room(now)) return Answer::kLater;
    evicted_entry = oldest_of(busiest_address());
  }
  if (evicted_entry != pending_.end()) {
    evicted = evicted_entry->id;
    pending_.erase(evicted_entry);
  }
  pending_.push_back({id, address, now});
  return Answer::kEnter;
}

void Gate::leave(Id id) {
  if (const auto entry = find(id); entry != pending_.end()) pending_.erase(entry);
}

std::optional<std::string> Gate::failed(Id id, const std::string& reason, Clock::time_point now) {
  const auto entry = find(id);
  if (entry == pending_.end()) return std::nullopt;
  const std::string address = entry->address;
  pending_.erase(entry);
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
