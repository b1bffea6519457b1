#pragma once
// What one end of a control connection has said and the other has not confirmed, and how much it
// has heard of the other. It outlives the connection: over the next one what was lost is said
// again, and what came twice is dropped. Beats and pings have no number: nobody misses them. No
// socket.

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

namespace phalanx::rendezvous {

class Session {
 public:
  using Bytes = std::shared_ptr<const std::string>;
  struct Said {
    std::uint64_t number;
    Bytes bytes;
  };
  // Ends that talk confirm with every message; one that has said so much into nothing cannot go on.
  static constexpr std::size_t kMostUnconfirmed = 1024;

  // Keeps it, and returns its number: 1, 2, ...
  std::uint64_t say(Bytes message);
  // Whether the other end's message is new. UnavailableError where one before it never came.
  bool hear(std::uint64_t number);
  // Up to which number the other end's messages have come.
  std::uint64_t heard() const { return heard_; }
  // The other end has heard up to there. UnavailableError where nothing of that number was said.
  void confirm(std::uint64_t number);
  // To be said again, in order.
  const std::deque<Said>& unconfirmed() const { return unconfirmed_; }
  // Nothing that was not confirmed has been forgotten.
  bool is_whole() const { return !has_forgotten_; }

 private:
  std::uint64_t said_ = 0;
  std::uint64_t heard_ = 0;
  std::deque<Said> unconfirmed_{};
  bool has_forgotten_ = false;
};

}  // namespace phalanx::rendezvous
