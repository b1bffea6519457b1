#include "phalanx/comm/local/local_world.h"

#include <numeric>
#include <utility>

#include "phalanx/comm/local/hub.h"
#include "phalanx/comm/split_groups.h"

namespace phalanx {
namespace local {
namespace {

class LocalWork final : public Work::State {
 public:
  LocalWork(std::shared_ptr<Hub> hub, int rank, std::vector<OperationPointer> operations)
      : hub_(std::move(hub)), rank_(rank), operations_(std::move(operations)) {}

  // On the CPU everything that is enqueued runs at once.
  void wait(Queue /*queue*/) override { hub_->wait(rank_, operations_); }
  void wait_host(Work::Clock::time_point deadline) override {
    hub_->wait(rank_, operations_, deadline);
  }
  bool done() override {
    bool all = true;
    for (const auto& operation : operations_) all = hub_->test(*operation) && all;
    return all;
  }

 private:
  std::shared_ptr<Hub> hub_;
  int rank_;  // of the world
  std::vector<OperationPointer> operations_;
};

void expect_memory(const Tensor& tensor) {
  PHALANX_CHECK(is_host(tensor.space), "local: {} {} is not in host memory", name_of(tensor.dtype),
                tensor.shape.to_string());
}

class LocalCommunicator final : public Communicator {
 public:
  LocalCommunicator(std::shared_ptr<Hub> hub, std::shared_ptr<const LocalGroup> group, int rank)
      : Communicator(rank, group), hub_(std::move(hub)), group_(std::move(group)) {}

  std::unique_ptr<Communicator> split(std::span<const std::vector<int>> groups,
                                      std::string name) override {
    const auto found = find_membership(groups, rank(), size());
    const OperationPointer operation = post(split_call(name, groups), {});
    hub_->wait(world_rank(), std::span(&operation, 1));
    if (!found) return nullptr;
    LocalGroup group{part_of(*group_, groups[found->group], std::move(name)),
                     operation->first_group() + static_cast<std::int64_t>(found->group)};
    return std::make_unique<LocalCommunicator>(
        hub_, std::make_shared<const LocalGroup>(std::move(group)), found->rank);
  }

  void abort(std::string_view reason) noexcept override {
    hub_->fail(ErrorCode::kTemporary, {.rank = world_rank()}, reason);
  }

  const Hub& hub() const { return *hub_; }

 protected:
  Work start_all_reduce(Context& /*context*/, const Tensor& tensor, Reduction reduction) override {
    return start({.kind = OperationKind::kAllReduce,
                  .dtype = tensor.dtype,
                  .count = tensor.count(),
                  .reduction = reduction},
                 tensor, tensor);
  }
  Work start_reduce_scatter(Context& /*context*/, const Tensor& output, const Tensor& input,
                            Reduction reduction) override {
    return start({.kind = OperationKind::kReduceScatter,
                  .dtype = input.dtype,
                  .count = output.count(),
                  .reduction = reduction},
                 output, input);
  }
  Work start_all_gather(Context& /*context*/, const Tensor& output, const Tensor& input) override {
    return start({.kind = OperationKind::kAllGather, .dtype = input.dtype, .count = input.count()},
                 output, input);
  }
  Work start_broadcast(Context& /*context*/, const Tensor& tensor, int root) override {
    return start({.kind = OperationKind::kBroadcast,
                  .dtype = tensor.dtype,
                  .count = tensor.count(),
                  .root = root},
                 tensor, tensor);
  }
  Work start_all_to_all(Context& /*context*/, const Tensor& output,
                        std::span<const std::int64_t> from, const Tensor& input,
                        std::span<const std::int64_t> to) override {
    return start({.kind = OperationKind::kAllToAll, .dtype = input.dtype}, output, input,
                 {to.begin(), to.end()}, {from.begin(), from.end()});
  }
  void start_barrier(Context& /*context*/) override {
    const OperationPointer operation = post({.kind = OperationKind::kBarrier}, {});
    hub_->wait(world_rank(), std::span(&operation, 1));
  }
  Work start_exchange(Context& /*context*/, std::span<const PointToPoint> messages) override {
    for (const auto& message : messages) expect_memory(message.tensor);
    return work(hub_->post_messages(*group_, rank(), messages));
  }
  void begin_busy(std::string what) override { hub_->begin_busy(world_rank(), std::move(what)); }
  void end_busy() noexcept override { hub_->end_busy(world_rank()); }

 private:
  int world_rank() const { return group_->ranks[static_cast<std::size_t>(rank())]; }

  OperationPointer post(const Call& call, Contribution contribution) {
    return hub_->post(group_, rank(), next_call_++, call, std::move(contribution));
  }
  Work start(const Call& call, const Tensor& output, const Tensor& input,
             std::vector<std::int64_t> to = {}, std::vector<std::int64_t> from = {}) {
    expect_memory(output);
    expect_memory(input);
    return work({post(call, {.input = input.data(),
                             .output = output.data(),
                             .to = std::move(to),
                             .from = std::move(from)})});
  }
  Work work(std::vector<OperationPointer> operations) const {
    return Work(std::make_shared<LocalWork>(hub_, world_rank(), std::move(operations)));
  }

  std::shared_ptr<Hub> hub_;
  std::shared_ptr<const LocalGroup> group_;
  std::uint64_t next_call_ = 0;
};

}  // namespace

const Hub& hub_of(const Communicator& member) {
  const auto* end = dynamic_cast<const LocalCommunicator*>(&member);
  PHALANX_CHECK(end != nullptr, "{} is not a group of a local world", member.name());
  return end->hub();
}

}  // namespace local

std::vector<std::unique_ptr<Communicator>> make_local_world(int size, const LocalOptions& options) {
  PHALANX_CHECK(size > 0 && options.threads_per_rank > 0 && options.sum_block >= 2,
                "{} ranks of {} threads that add in blocks of {}", size, options.threads_per_rank,
                options.sum_block);
  const auto hub = std::make_shared<local::Hub>(size, options);
  local::LocalGroup group{{"world", std::vector<int>(static_cast<std::size_t>(size))}, 0};
  std::iota(group.ranks.begin(), group.ranks.end(), 0);
  const auto world = std::make_shared<const local::LocalGroup>(std::move(group));
  std::vector<std::unique_ptr<Communicator>> ends;
  for (int rank = 0; rank < size; ++rank) {
    ends.push_back(std::make_unique<local::LocalCommunicator>(hub, world, rank));
  }
  return ends;
}

std::vector<std::int64_t> local_bytes_read(const Communicator& member) {
  return local::hub_of(member).bytes_read();
}

}  // namespace phalanx
