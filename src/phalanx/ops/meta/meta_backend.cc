#include "phalanx/ops/meta/meta_backend.h"

#include <algorithm>
#include <utility>

namespace phalanx {
namespace {

class MetaBackend final : public Backend {
 public:
  explicit MetaBackend(std::unique_ptr<const WorkspaceSizes> target) : target_(std::move(target)) {}

  std::int64_t workspace_bytes_of_op(std::size_t number, const void* op) const override {
    return target_->workspace_bytes_of_op(number, op);
  }
  MemorySpace space() const override { return MemorySpace::kNone; }
  void upload(Queue /*queue*/, const Tensor& /*destination*/,
              std::span<const std::byte> /*source*/) override {}
  void read_back(Queue /*queue*/, const Tensor& /*source*/,
                 std::span<std::byte> destination) override {
    std::fill(destination.begin(), destination.end(), std::byte{0});
  }
  ReadBack read_later(Queue /*queue*/, const Tensor& source) override {
    return read_back_of(std::vector<std::byte>(static_cast<std::size_t>(source.bytes())));
  }
  Event record(Queue /*queue*/) override { return {}; }
  void wait(Queue /*queue*/, Event /*event*/) override {}
  bool passed(Event /*event*/) override { return true; }
  void wait_host(Event /*event*/) override {}

 private:
  void run_op(Queue /*queue*/, std::size_t /*number*/, const void* /*op*/,
              const Tensor& /*scratch*/) override {}

  std::unique_ptr<const WorkspaceSizes> target_;
};

}  // namespace

std::unique_ptr<Backend> make_meta_backend(std::unique_ptr<const WorkspaceSizes> target) {
  return std::make_unique<MetaBackend>(std::move(target));
}

}  // namespace phalanx
