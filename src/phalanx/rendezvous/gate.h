#pragma once
// Who may try to join, before he has proved anything: how many connections wait for their proof at
// once, who of them makes room, and what an address may still do whose hellos have failed. No
// socket, no clock of its own.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <string>

namespace phalanx::rendezvous {

class Gate {
 public:
  using Clock = std::chrono::steady_clock;
  using Id = std::uint64_t;

  // Connections at once: of all, and of an address whose hellos failed lately. Failed hellos of an
  // address: so many at once and a second; beyond, one connection in so many is listened to, for
  // ranks may come from the same address.
  struct Limits {
    std::size_t pending = 64;
    std::size_t pending_of_suspect = 8;
    double failures_at_once = 100;
    double failures_per_second = 1000;
    std::chrono::milliseconds suspicion = std::chrono::seconds(10);
    // Addresses that are remembered.
    std::size_t addresses = 1024;
    // One that is younger than this does not make room for others; nor, of a suspect, for its own.
    std::chrono::milliseconds patience = std::chrono::milliseconds(100);
    std::chrono::milliseconds patience_with_suspect = std::chrono::milliseconds(10);
    // A hello's, from the connection's begin.
    std::chrono::milliseconds deadline = std::chrono::seconds(2);
    // Between two lines about the same address.
    std::chrono::milliseconds quiet = std::chrono::seconds(10);
  };

  Gate() : Gate(Limits()) {}
  explicit Gate(const Limits& limits) : limits_(limits) {}

  enum class Answer : std::uint8_t {
    kEnter,
    kLater,   // all places are taken, by connections that are too young to give theirs up
    kRefuse,  // the address has failed too often: it may try again
  };
  // A connection has come. With kEnter it waits for its proof from now on, and `evicted` is to be
  // closed if there is one.
  Answer enter(Id id, const std::string& address, Clock::time_point now,
               std::optional<Id>& evicted);
  // Whether there would be a place.
  bool has_room(Clock::time_point now) const;
  // It has proved itself, or is gone for another reason than a failed hello.
  void leave(Id id);
  // Its hello failed. A line for the log, if it is time for one.
  std::optional<std::string> failed(Id id, const std::string& reason, Clock::time_point now);
  // The first one that is past its deadline.
  std::optional<Id> overdue(Clock::time_point now) const;

  std::size_t pending() const { return pending_.size(); }

 private:
  struct Pending {
    Id id;
    std::string address;
    Clock::time_point since;
  };
  // Of an address with failed hellos.
  struct Record {
    double allowance = 0.0;  // failures that are left, at the time of `last`
    Clock::time_point last{};
    std::uint64_t unsaid = 0;  // failures since the last line
    Clock::time_point said{};
    bool ever_said = false;
  };

  double allowance(const Record& record, Clock::time_point now) const;
  std::list<Pending>::iterator find(Id id);
  std::list<Pending>::iterator oldest_of(const std::string& address);
  std::string busiest_address() const;
  Record& record(const std::string& address, Clock::time_point now);

  Limits limits_;
  std::list<Pending> pending_{};  // the oldest first
  std::map<std::string, Record> records_{};
};

}  // namespace phalanx::rendezvous
