#pragma once
// The queues of a device: work in one runs in its order, beside that of the others. Only waits for
// events order queues. On the host everything runs when it is enqueued, whatever the queue.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace phalanx {

// What the queues of a device are for.
enum class StreamKind : std::uint8_t {
  kCompute,
  kTensor,    // messages within a tensor-parallel group,
  kData,      //   within a data-parallel group,
  kPipeline,  //   and between stages
  kCopyIn,    // from the host
  kCopyOut,   // to the host
};
inline constexpr int kStreamKinds = 6;

struct Queue {
  int id = 0;  // the number of its StreamKind
};

// A point in a queue. Places of events are used again: one that is asked for when its place has
// another is an InternalError.
struct Event {
  int slot = 0;
  std::uint64_t generation = 0;
};

// An event of a host, which has passed when it is recorded, with its time as the generation.
inline Event event_now() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return {0, static_cast<std::uint64_t>(std::chrono::nanoseconds(now).count())};
}
inline double seconds_of_events(Event from, Event to) {
  return static_cast<double>(to.generation - from.generation) * 1e-9;
}

// Bytes on their way to the host.
class ReadBack {
 public:
  class Body {
   public:
    virtual ~Body() = default;
    virtual std::span<const std::byte> wait() = 0;
    virtual bool here() const = 0;
  };

  explicit ReadBack(std::unique_ptr<Body> body) : body_(std::move(body)) {}

  // The bytes, which live as long as this.
  std::span<const std::byte> wait() { return body_->wait(); }
  // Whether wait() would return at once.
  bool here() const { return body_->here(); }

 private:
  std::unique_ptr<Body> body_;
};

// Bytes that are here already.
inline ReadBack read_back_of(std::vector<std::byte> bytes) {
  class Here final : public ReadBack::Body {
   public:
    explicit Here(std::vector<std::byte> contents) : bytes_(std::move(contents)) {}
    std::span<const std::byte> wait() override { return bytes_; }
    bool here() const override { return true; }

   private:
    std::vector<std::byte> bytes_;
  };
  return ReadBack(std::make_unique<Here>(std::move(bytes)));
}

// Faults in data that may be on their way to the host.
class LaterFaults {
 public:
  // None.
  LaterFaults() = default;
  // `throw_any` waits, and throws where there is a fault.
  explicit LaterFaults(std::function<void()> throw_any) : throw_any_(std::move(throw_any)) {}

  void throw_any() const {
    if (throw_any_) throw_any_();
  }

 private:
  std::function<void()> throw_any_;
};

}  // namespace phalanx
