#pragma once
// How a control connection has ended that its own end has not closed.

#include <cstdint>
#include <string>

namespace phalanx::rendezvous {

struct ConnectionEnd {
  enum class Kind : std::uint8_t {
    kFault,   // what came over it cannot be: it does not come back
    kClosed,  // by the other end, whose process may be gone: back within a second, or dead
    kCut,     // by the network: the other end may live, and come back when the network does
  };
  Kind kind = Kind::kFault;
  std::string how{};  // "its connection was reset"
};

}  // namespace phalanx::rendezvous
