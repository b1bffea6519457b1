#pragma once
// Point-to-point messages between processes: bytes with a tag. It hides UCX from the rest of the
// transport. Messages of one tag between two ranks keep their order.
//
// Used by one thread at a time, under a lock. Messages move only in progress(), and in the calls
// that start, cancel or end them; their memory is not accessed otherwise.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace phalanx::ucx {

// One message on its way. It must stay at its address until it has ended.
struct Transfer {
  void (*ended)(Transfer& transfer) = nullptr;  // called once, within any call of the wire
  void* request = nullptr;                      // the wire's, until it has ended
  std::size_t bytes = 0;                        // received, when a receive has ended
  const char* error = nullptr;                  // a static text; null: no error
};

class Wire {
 public:
  using Clock = std::chrono::steady_clock;

  virtual ~Wire() = default;
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  // What peers need to connect to this end.
  virtual const std::string& address() const = 0;
  // To be called before messages to or from `peer`. std::runtime_error if it cannot be reached.
  virtual void connect(int peer, std::string_view address) = 0;

  virtual void send(int peer, std::uint64_t tag, const void* data, std::size_t bytes,
                    Transfer& transfer) = 0;
  // A message that is longer ends with an error.
  virtual void receive(std::uint64_t tag, void* data, std::size_t bytes, Transfer& transfer) = 0;
  // Ends a receive that has not begun with an error; other transfers end as they would.
  virtual void cancel(Transfer& transfer) = 0;

  // True if something moved.
  virtual bool progress() = 0;
  // To be called before a thread sleeps until descriptor() is readable; false if there is something
  // to do.
  virtual bool arm() = 0;
  virtual int descriptor() const = 0;

  // Why the connection to `peer` broke; null if it has not.
  virtual const char* broken(int peer) const = 0;

  // Sends what is under way, until `deadline` at most.
  virtual void flush(Clock::time_point deadline) noexcept = 0;
  // Ends all connections after sending what is under way, until `deadline` at most.
  virtual void flush_and_close(Clock::time_point deadline) noexcept = 0;
  // Stops everything at once; transfers that have not ended never will.
  virtual void abandon() noexcept = 0;

 protected:
  Wire() = default;
};

// The function that the shared object exports under the name kMakeWire; the caller owns the result.
// `transports` and `devices` as in UCX_TLS and UCX_NET_DEVICES; empty: UCX's defaults.
// std::runtime_error.
using MakeWire = Wire* (*)(const char* transports, const char* devices);
constexpr const char* kMakeWire = "phalanx_make_ucx_wire";

}  // namespace phalanx::ucx
