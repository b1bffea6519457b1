#pragma once
// Checks that the messages of programs cannot deadlock, under transports that wait in different
// ways, and that messages without names arrive in the expected order. Nothing is timed: what holds,
// holds whatever passes and messages take.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "phalanx/pipeline/action.h"

namespace phalanx {

// When the ends of a message wait. The sender's and the receiver's ends are in program order.
enum class Transport : std::uint8_t {
  kRendezvous,      // both ends wait until they meet
  kBuffered,        // a send waits only if `capacity` messages of its channel are not received;
                    //   0 is a rendezvous
  kRankQueue,       // started without waiting, done one after the other: a queue for each rank,
  kPeerQueue,       //   for each rank and peer,
  kDirectionQueue,  //   for each rank, peer and direction
  kGrouped,         // messages between two passes start together and end together
};

// Why the programs would stop under a transport, and what every stuck rank waits for; or which
// message is not the one that the other end expects. Channels are keyed by (source, destination),
// so the k-th message that is sent must be the k-th that is received, before the pass that reads
// it. Nothing if there is no fault.
std::optional<std::string> message_fault(std::span<const Program> programs, Transport transport,
                                         int capacity = 0);

// By rank: the most messages that have been received and not yet read by their pass, if each
// arrives when its receive begins.
std::vector<int> receive_buffers(std::span<const Program> programs);

}  // namespace phalanx
