#pragma once
// Point-to-point messages between processes: bytes with a tag. What UCX does for us, so that the
// rest of the transport does not know it. Messages of one tag between two ranks keep their order.
//
// Used under a lock: one thread at a time. Nothing moves but in progress(), and in the calls that
// start, cancel or end something; no memory of a message is touched elsewhere.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace phalanx::ucx {

// One message on its way. It lies still until it has ended.
struct Transfer {
  void (*ended)(Transfer& transfer) = nullptr;  // called once, within any call of the wire
  void* request = nullptr;                      // the wire's, while it is under way
  std::size_t bytes = 0;                        // of a receive that has ended: what came
  const char* error = nullptr;                  // lasts; null where it ended well
};

class Wire {
 public:
  using Clock = std::chrono::steady_clock;

  virtual ~Wire() = default;
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  // What peers need to connect to this end.
  virtual const std::string& address() const = 0;
  // Before messages to or from `peer`. std::runtime_error where it cannot be reached.
  virtual void connect(int peer, std::string_view address) = 0;

  virtual void send(int peer, std::uint64_t tag, const void* data, std::size_t bytes,
                    Transfer& transfer) = 0;
  // A message that is longer ends with an error.
  virtual void receive(std::uint64_t tag, void* data, std::size_t bytes, Transfer& transfer) = 0;
  // A receive that has not begun ends now, with an error; others as they would.
  virtual void cancel(Transfer& transfer) = 0;

  // True where something moved.
  virtual bool progress() = 0;
  // Before a thread sleeps until descriptor() can be read; false where there is something to do.
  virtual bool arm() = 0;
  virtual int descriptor() const = 0;

  // What became of the connection to `peer`; null while it is well.
  virtual const char* broken(int peer) const = 0;

  // Ends all connections: what has been sent arrives, as far as that can be had until `deadline`.
  virtual void flush_and_close(Clock::time_point deadline) noexcept = 0;
  // Nothing moves any more, whatever is under way; transfers that have not ended never will.
  virtual void abandon() noexcept = 0;

 protected:
  Wire() = default;
};

// What the shared object exports, as kMakeWire; the caller owns what it gets. `transports` and
// `devices` as UCX_TLS and UCX_NET_DEVICES; empty: UCX's own. std::runtime_error.
using MakeWire = Wire* (*)(const char* transports, const char* devices);
constexpr const char* kMakeWire = "phalanx_make_ucx_wire";

}  // namespace phalanx::ucx
