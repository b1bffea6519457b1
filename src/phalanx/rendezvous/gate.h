#pragma once
// Limits the connections that have not yet proved that they know the secret: how many may wait for
// their proof at once, which of them are closed to make room, and how many hellos of an address may
// fail. It has no socket and no clock.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>

#include "phalanx/rendezvous/timing.h"

namespace phalanx::rendezvous {

class Gate {
 public:
  using Clock = std::chrono::steady_clock;
  using Id = std::uint64_t;

  struct Limits {
    // Unproven connections at once: of all addresses, and of an address whose hellos failed lately.
    std::size_t pending = kFewestPending;
    std::size_t pending_of_suspect = 8;
    // Failed hellos of an address: so many at once, and so many a second. An address beyond that is
    // refused until its allowance has grown again: ranks may come from it too.
    double failures_at_once = 100;
    double failures_per_second = 1000;
    std::chrono::milliseconds suspicion = kSuspicion;
    // How many addresses are remembered.
    std::size_t addresses = 1024;
    // A younger connection is not closed to make room for others; of a suspect address, for its
    // own.
    std::chrono::milliseconds unproven_age = kUnprovenAge;
    std::chrono::milliseconds suspect_unproven_age = kSuspectUnprovenAge;
    // Likewise of a connection with a whole hello, which owes the proof only: a round trip to it
    // may take longer than unproven_age.
    std::chrono::milliseconds hello_age = kHelloAge;
    // Likewise of an address that has more than a quarter of the places and of which none has
    // proved itself, for another address.
    std::chrono::milliseconds crowd_age = kCrowdAge;
    // From the connection's begin to its whole hello.
    std::chrono::milliseconds hello_timeout = kHelloTimeout;
    // Between two lines of the log about the same address.
    std::chrono::milliseconds log_period = kFailedHelloLogPeriod;
  };

  static constexpr std::size_t kFewestPending = 64;
  static constexpr std::size_t kMostPending = 1024;

  Gate() : Gate(Limits()) {}
  explicit Gate(const Limits& limits) : limits_(limits) {}

  // So many members will come, maybe all at once: more places for more of them.
  void expect(int members);

  enum class Answer : std::uint8_t {
    kEnter,
    kLater,   // all places are taken by connections that are too young to be closed
    kRefuse,  // the address has failed too often; it may try again later
  };
  // A connection has come. With kEnter it counts as unproven from now on, and the caller closes
  // `evicted` if it is set.
  Answer enter(Id id, const std::string& address, Clock::time_point now,
               std::optional<Id>& evicted);
  // Whether another connection would get a place.
  bool has_room(Clock::time_point now) const;
  // Its hello is whole; the proof is still to come.
  void said_hello(Id id);
  // It has proved itself.
  void proved(Id id);
  // It has ended without a failed hello.
  void leave(Id id);
  // The server had no time for so long: nobody is late because of that.
  void account_for_own_gap(Clock::duration gap, Clock::time_point now);
  // Its hello failed. Returns a line for the log if one is due.
  std::optional<std::string> failed(Id id, const std::string& reason, Clock::time_point now);
  // The first one whose hello is overdue.
  std::optional<Id> overdue(Clock::time_point now) const;

  std::size_t pending() const { return pending_.size(); }
  // Whether hellos of the address have failed lately.
  bool is_suspect(const std::string& address, Clock::time_point now) const;

 private:
  // Of an address that has connections here.
  struct Count {
    std::size_t connections = 0;
    bool has_proved = false;  // one of them has proved itself, since the address had none here
  };
  using Counts = std::unordered_map<std::string, Count>;
  struct Pending {
    Id id;
    Counts::value_type* address;
    Clock::time_point since;
    bool has_hello = false;
  };
  using Entry = std::list<Pending>::iterator;
  // An address with failed hellos.
  struct Record {
    double allowance = 0.0;      // how many more may fail, at the time `last`
    Clock::time_point last{};    // failure
    std::uint64_t unlogged = 0;  // failures since the last line of the log
    Clock::time_point logged{};
    bool ever_logged = false;
  };

  double allowance(const Record& record, Clock::time_point now) const;
  Record& record(const std::string& address, Clock::time_point now);
  // When the connection may be closed to make room for others.
  Clock::time_point may_go_at(const Pending& entry) const;
  Entry find(Id id);
  Entry oldest_of(const std::string& address);
  // Of the connections that may be closed, the oldest one of the address that has most.
  Entry first_to_go(Clock::time_point now);
  void remove(Entry entry);

  Limits limits_;
  std::list<Pending> pending_{};  // the oldest first
  std::unordered_map<Id, Entry> by_id_{};
  Counts counts_{};
  // The earliest time at which one may be closed; empty: to be found out.
  mutable std::optional<Clock::time_point> room_at_{};
  std::map<std::string, Record> records_{};
};

}  // namespace phalanx::rendezvous
