#include "phalanx/ops/meta/meta_backend.h"

#include <algorithm>

#include "phalanx/ops/cpu/execute.h"

namespace phalanx {
namespace meta {

struct MetaDevice {
  cpu::CpuDevice target;
};

template <typename Op>
std::int64_t workspace_bytes_of(const MetaDevice& device, const Op& op) {
  return cpu::workspace_bytes_of(device.target, op);
}

template <typename Op>
void execute(MetaDevice& /*device*/, const Op& /*op*/, const Tensor& /*scratch*/) {}

namespace {

class MetaBackend final : public ops::DispatchTo<MetaDevice, ops::OpList> {
 public:
  explicit MetaBackend(MetaDevice device) : DispatchTo(device) {}

  MemorySpace space() const override { return MemorySpace::kNone; }
  void upload(Queue /*queue*/, const Tensor& /*destination*/,
              std::span<const std::byte> /*source*/) override {}
  void read_back(Queue /*queue*/, const Tensor& /*source*/,
                 std::span<std::byte> destination) override {
    std::fill(destination.begin(), destination.end(), std::byte{0});
  }
  Event record(Queue queue) override { return {queue.id}; }
  void wait(Queue /*queue*/, Event /*event*/) override {}
};

}  // namespace
}  // namespace meta

std::unique_ptr<Backend> make_meta_backend(const cpu::CpuDevice& device) {
  return std::make_unique<meta::MetaBackend>(meta::MetaDevice{device});
}

}  // namespace phalanx
