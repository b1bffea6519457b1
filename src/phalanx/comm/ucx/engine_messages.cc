// The engine's part that knows wires: connections, messages and their memory.

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <utility>

#include "phalanx/comm/ucx/engine.h"

namespace phalanx::ucx {
namespace {

std::uint64_t tag_of(int source, std::uint16_t group, std::uint64_t number, Lane lane) {
  return (static_cast<std::uint64_t>(source) << 48) | (std::uint64_t{group} << 32) |
         ((number & 0xffffff) << 8) | static_cast<std::uint8_t>(lane);
}
constexpr std::uint16_t kGoodbyeGroup = 0xffff;
// After this time the wait for goodbyes sleeps, and the watch knows of it.
constexpr std::chrono::milliseconds kGoodbyeSpin{20};

}  // namespace

// Exchanges goodbyes with all connected peers: a rank that left at once could take messages with it
// that are still on their way.
void Engine::say_goodbye(std::unique_lock<std::mutex>& lock, Clock::time_point deadline) {
  int& pending = goodbyes_pending_;
  const auto begin = [&](int peer) -> Goodbye& {
    Goodbye& bye = goodbyes_.emplace_back();
    bye.engine = this;
    bye.wire = wires_.peers[static_cast<std::size_t>(peer)];
    bye.peer = peer;
    bye.ended = [](Transfer& transfer) {
      auto& ended = static_cast<Goodbye&>(transfer);
      ended.over = true;
      --ended.engine->goodbyes_pending_;
    };
    ++pending;
    return bye;
  };
  for (int peer = 0; peer < std::ssize(connected_); ++peer) {
    if (!connected_[static_cast<std::size_t>(peer)]) continue;
    Goodbye& mine = begin(peer);
    mine.wire->send(peer, tag_of(rank_, kGoodbyeGroup, 0, Lane::kHeader), nullptr, 0, mine);
    Goodbye& theirs = begin(peer);
    theirs.wire->receive(tag_of(peer, kGoodbyeGroup, 0, Lane::kHeader), nullptr, 0, theirs);
  }
  const auto is_over = [&] {
    return pending == 0 || failure_known_.load(std::memory_order_acquire) ||
           Clock::now() >= deadline;
  };
  const auto spin_end = Clock::now() + kGoodbyeSpin;
  while (!is_over() && Clock::now() < spin_end) progress();
  if (!is_over()) {
    std::vector<int> missing;
    for (const Goodbye& bye : goodbyes_) {
      if (!bye.over && (missing.empty() || missing.back() != bye.peer)) missing.push_back(bye.peer);
    }
    watch_.begin_wait({.rank = rank_, .group = "world", .operation = "goodbye"}, missing);
    std::vector<pollfd> descriptors;
    for (const auto& wire : wires_.wires) descriptors.push_back({wire->descriptor(), POLLIN, 0});
    while (!is_over()) {
      if (progress() || !arm()) continue;
      lock.unlock();
      poll(descriptors.data(), descriptors.size(), static_cast<int>(kGoodbyeSpin.count()));
      lock.lock();
    }
    watch_.end_wait();
  }
  if (pending == 0) return;
  for (Goodbye& bye : goodbyes_) {
    if (!bye.over) bye.wire->cancel(bye);
  }
}

// Returns when all ranks of the world have said their goodbyes: a wire moves nothing more once a
// peer has closed its connection, and the first rank may have work left that others have not. Up
// and down a binary tree, by mail.
void Engine::leave_together() {
  if (wires_.mailbox == nullptr) return;
  Mailbox& mailbox = *wires_.mailbox;
  const auto wait_for = [&](const std::string& name, int rank) {
    watch_.begin_wait({.rank = rank_, .group = "world", .operation = "goodbye"}, {rank});
    try {
      mailbox.read(name);
    } catch (...) {
      watch_.end_wait();
      throw;
    }
    watch_.end_wait();
  };
  for (int child = 2 * rank_ + 1; child <= 2 * rank_ + 2 && child < std::ssize(wires_.peers);
       ++child) {
    wait_for(fmt::format("goodbye/{}", child), child);
  }
  if (rank_ == 0) {
    mailbox.post("goodbye/all", "");
    return;
  }
  mailbox.post(fmt::format("goodbye/{}", rank_), "");
  wait_for("goodbye/all", 0);
}

// The peer has left its address, unless it began later than this rank.
std::string Engine::find_address(int peer, const CallPlace& place) {
  const bool reports = !wait_is_reported_;
  if (reports) report_wait(place, {peer});
  const auto end = [&] {
    if (reports) end_reported_wait();
  };
  try {
    std::string address = wires_.find_address(peer);
    end();
    return address;
  } catch (const Error& error) {
    end();
    throw CommError(error.code(), comm_place(place), error.what());
  }
}

void Engine::connect(int peer, const CallPlace& place) {
  const auto index = static_cast<std::size_t>(peer);
  if (connected_[index]) return;
  const std::string address = find_address(peer, place);
  try {
    wires_.peers[index]->connect(peer, address);
  } catch (const std::runtime_error& error) {
    throw CommError(ErrorCode::kTemporary, {.rank = rank_},
                    fmt::format("rank {} cannot be reached: {}", peer, error.what()));
  }
  connected_[index] = true;
}

void Engine::send(const CallPlace& place, int member, Lane lane, const void* data,
                  std::size_t bytes, MessageTransfer& message) {
  const int peer = place.group->world_rank(member);
  connect(peer, place);
  if (host(peer) != host(rank_)) {
    ++network_traffic_.messages;
    network_traffic_.bytes += static_cast<std::int64_t>(bytes);
  }
  wires_.peers[static_cast<std::size_t>(peer)]->send(
      peer, tag_of(rank_, place.group->id, place.number, lane), data, bytes, message);
}

void Engine::receive(const CallPlace& place, int member, Lane lane, void* data, std::size_t bytes,
                     MessageTransfer& message) {
  const int peer = place.group->world_rank(member);
  connect(peer, place);
  wires_.peers[static_cast<std::size_t>(peer)]->receive(
      tag_of(peer, place.group->id, place.number, lane), data, bytes, message);
}

void Engine::lend_message(std::list<MessageTransfer>& to) {
  if (free_messages_.empty()) free_messages_.emplace_back();
  to.splice(to.end(), free_messages_, free_messages_.begin());
}

void Engine::lend_buffer(std::list<StagingBuffer>& to) {
  if (free_buffers_.empty()) free_buffers_.emplace_back();
  to.splice(to.end(), free_buffers_, free_buffers_.begin());
}

void Engine::give_back(std::list<MessageTransfer>& messages, std::list<StagingBuffer>& buffers) {
  free_messages_.splice(free_messages_.begin(), messages);
  free_buffers_.splice(free_buffers_.begin(), buffers);
}

void Engine::keep_until_end(std::list<MessageTransfer>& messages,
                            std::list<StagingBuffer>& buffers) {
  kept_messages_.splice(kept_messages_.end(), messages);
  kept_buffers_.splice(kept_buffers_.end(), buffers);
}

}  // namespace phalanx::ucx
