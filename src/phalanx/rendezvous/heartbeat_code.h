#pragma once
// Heartbeats as bytes, shorter and faster to read than JSON: the coordinator of a large run reads
// tens of thousands a second. Numbers are little-endian; a text is its length (2 bytes) and itself.

#include <string>
#include <string_view>

#include "phalanx/rendezvous/heartbeat.h"

namespace phalanx::rendezvous {

// Texts are cut to some thousand bytes; what is not UTF-8 in them is replaced.
void append_heartbeat(std::string& bytes, const Heartbeat& heartbeat);
// UnavailableError if the bytes are no heartbeat.
Heartbeat read_heartbeat(std::string_view bytes);

}  // namespace phalanx::rendezvous
