#pragma once
// What backends whose tensors lie in host memory share: copies to and from the host, and queues
// whose work has run when it is enqueued.

#include <cstring>

#include "phalanx/ops/backend.h"

namespace phalanx::ops {

template <typename Device>
class HostBackend final : public DispatchTo<Device, OpList> {
 public:
  explicit HostBackend(Device device) : DispatchTo<Device, OpList>(std::move(device)) {}

  MemorySpace space() const override { return MemorySpace::kHost; }
  void upload(Queue /*queue*/, const Tensor& destination,
              std::span<const std::byte> source) override {
    PHALANX_CHECK(destination.bytes() == static_cast<std::int64_t>(source.size()),
                  "upload of {} bytes into {}", source.size(), destination.bytes());
    std::memcpy(destination.data(), source.data(), source.size());
  }
  void read_back(Queue /*queue*/, const Tensor& source, std::span<std::byte> destination) override {
    PHALANX_CHECK(source.bytes() == static_cast<std::int64_t>(destination.size()),
                  "read-back of {} bytes into {}", source.bytes(), destination.size());
    std::memcpy(destination.data(), source.data(), destination.size());
  }
  ReadBack read_later(Queue /*queue*/, const Tensor& source) override {
    return read_back_of({source.data(), source.data() + source.bytes()});
  }
  Event record(Queue /*queue*/) override { return {}; }
  void wait(Queue /*queue*/, Event /*event*/) override {}
  bool passed(Event /*event*/) override { return true; }
  void wait_host(Event /*event*/) override {}
};

}  // namespace phalanx::ops
