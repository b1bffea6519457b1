#include "phalanx/comm/meta/meta_communicator.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "phalanx/comm/split_groups.h"

namespace phalanx {
namespace {

// The base class checks and records operands, so nothing is left to do.
class MetaCommunicator final : public Communicator {
 public:
  MetaCommunicator(int rank, MessageGroup group, std::shared_ptr<GroupSizes> sizes)
      : Communicator(rank, std::make_shared<const MessageGroup>(std::move(group))),
        sizes_(std::move(sizes)) {
    if (!sizes_) return;
    int& most = (*sizes_)[name()];
    most = std::max(most, size());
  }

  std::unique_ptr<Communicator> split(std::span<const std::vector<int>> groups,
                                      std::string name) override {
    const auto found = find_membership(groups, rank(), size());
    if (!found) return nullptr;
    return std::make_unique<MetaCommunicator>(
        found->rank, part_of(*group(), groups[found->group], std::move(name)), sizes_);
  }

  void abort(std::string_view /*reason*/) noexcept override {}

 protected:
  Work start_all_reduce(Context&, const Tensor&, Reduction) override { return {}; }
  Work start_reduce_scatter(Context&, const Tensor&, const Tensor&, Reduction) override {
    return {};
  }
  Work start_all_gather(Context&, const Tensor&, const Tensor&) override { return {}; }
  Work start_broadcast(Context&, const Tensor&, int) override { return {}; }
  Work start_all_to_all(Context&, const Tensor&, std::span<const std::int64_t>, const Tensor&,
                        std::span<const std::int64_t>) override {
    return {};
  }
  void start_barrier(Context&) override {}
  Work start_exchange(Context&, std::span<const PointToPoint>) override { return {}; }
  void begin_busy(std::string /*what*/) override {}
  void end_busy() noexcept override {}

 private:
  std::shared_ptr<GroupSizes> sizes_;
};

}  // namespace

std::unique_ptr<Communicator> make_meta_world(int rank, int size,
                                              std::shared_ptr<GroupSizes> sizes) {
  PHALANX_CHECK(rank >= 0 && rank < size, "rank {} in a world of {}", rank, size);
  MessageGroup world{.name = "world", .ranks = std::vector<int>(static_cast<std::size_t>(size))};
  std::iota(world.ranks.begin(), world.ranks.end(), 0);
  return std::make_unique<MetaCommunicator>(rank, std::move(world), std::move(sizes));
}

}  // namespace phalanx
