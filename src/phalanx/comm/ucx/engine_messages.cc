// The engine's part that knows wires: connections, messages and their memory.

#include <algorithm>
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

}  // namespace

// Exchanges goodbyes with all peers: a rank that left at once could take messages with it that are
// still on their way.
void Engine::say_goodbye(Clock::time_point deadline) {
  int& pending = goodbyes_pending_;
  const auto begin = [&](Wire& wire) -> Goodbye& {
    Goodbye& bye = goodbyes_.emplace_back();
    bye.engine = this;
    bye.wire = &wire;
    bye.ended = [](Transfer& transfer) {
      --static_cast<Goodbye&>(transfer).engine->goodbyes_pending_;
    };
    ++pending;
    return bye;
  };
  for (std::size_t peer = 0; peer < connected_.size(); ++peer) {
    if (!connected_[peer]) continue;
    Wire& wire = *wires_.peers[peer];
    const int other = static_cast<int>(peer);
    wire.send(other, tag_of(rank_, kGoodbyeGroup, 0, Lane::kHeader), nullptr, 0, begin(wire));
    wire.receive(tag_of(other, kGoodbyeGroup, 0, Lane::kHeader), nullptr, 0, begin(wire));
  }
  while (pending > 0 && !failure_known_ && Clock::now() < deadline) progress();
  if (pending == 0) return;
  for (Goodbye& bye : goodbyes_) bye.wire->cancel(bye);
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
