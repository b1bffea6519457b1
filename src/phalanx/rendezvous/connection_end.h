#pragma once
// How a control connection has ended that this end has not closed.

#include <cstdint>
#include <string>

namespace phalanx::rendezvous {

struct ConnectionEnd {
  enum class Kind : std::uint8_t {
    kFault,   // this end ended it because of a message or error; the other end cannot reconnect
    kClosed,  // by the other end: its process is gone, or reconnects within a second
    kCut,     // by the network: the other end may live, and reconnect when the network works again
  };
  Kind kind = Kind::kFault;
  std::string how{};  // "its connection was reset"
};

}  // namespace phalanx::rendezvous
