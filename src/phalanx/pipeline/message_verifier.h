#pragma once
// Whether the messages of programs get through: under transports that wait in different ways, and
// over channels that know no names.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "phalanx/pipeline/action.h"

namespace phalanx {

// How messages get from rank to rank; the sender's and the receiver's end are each in program
// order.
enum class Transport : std::uint8_t {
  kRendezvous,      // both ends stop until they meet
  kBuffered,        // a send goes on while fewer than `capacity` of its channel are not received;
                    //   0 is a rendezvous
  kRankQueue,       // started without waiting, done one after the other: one queue of a rank,
  kPeerQueue,       //   of a rank and peer,
  kDirectionQueue,  //   of a rank, peer and direction
  kGrouped,         // messages between two passes start together and end together
};

// Why the programs would stop under a transport, with what every stuck rank waits for; or which
// message is not what the other end expects: channels are keyed by (source, destination), so the
// k-th message that is sent must be the k-th that is received, before the pass that reads it.
// Nothing where all is well.
std::optional<std::string> message_fault(std::span<const Program> programs, Transport transport,
                                         int capacity = 0);

// The most messages that were received by a rank and not yet read by their pass, when each is taken
// as early as its receive begins.
std::vector<int> receive_buffers(std::span<const Program> programs);

}  // namespace phalanx
