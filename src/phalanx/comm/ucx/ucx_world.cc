#include "phalanx/comm/ucx/ucx_world.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "phalanx/comm/split_groups.h"
#include "phalanx/comm/ucx/collectives.h"
#include "phalanx/comm/ucx/connect.h"
#include "phalanx/comm/ucx/engine.h"
#include "phalanx/comm/ucx/sums.h"

namespace phalanx {
namespace ucx {
namespace {

constexpr int kMostRanks = 1 << 16;  // that tags can distinguish
constexpr std::uint32_t kMostGroups = 0xffff;

// In shared memory: 512 buffers of 8 KiB, and what belongs to them. The ranks that send to a rank
// map its queue.
constexpr std::int64_t kQueueBytes = (4 << 20) + (1 << 19);

class UcxWork final : public Work::State {
 public:
  UcxWork(std::shared_ptr<Engine> engine, std::vector<OperationPointer> operations)
      : engine_(std::move(engine)), operations_(std::move(operations)) {}

  // On the CPU everything that is enqueued runs at once.
  void wait(Queue /*queue*/) override { engine_->wait(operations_); }
  void wait_host(Work::Clock::time_point deadline) override {
    engine_->wait(operations_, deadline);
  }
  bool done() override {
    bool all = true;
    for (const auto& operation : operations_) all = engine_->test(*operation) && all;
    return all;
  }

 private:
  std::shared_ptr<Engine> engine_;
  std::vector<OperationPointer> operations_;
};

void expect_memory(const Tensor& tensor) {
  PHALANX_CHECK(is_host(tensor.space), "ucx: {} {} is not in host memory", name_of(tensor.dtype),
                tensor.shape.to_string());
}

// What all communicators of a rank share.
struct RankResources {
  std::shared_ptr<Engine> engine;
  std::uint32_t next_group = 1;  // the world is 0
};

SumSteps steps_of(const UcxGroup& group, const Engine& engine) {
  std::vector<int> hosts;
  for (const int rank : group.ranks) hosts.push_back(engine.host(rank));
  return {SumTree(group.size(), engine.sum_block()), std::move(hosts)};
}

class UcxCommunicator final : public Communicator {
 public:
  UcxCommunicator(std::shared_ptr<RankResources> resources, std::shared_ptr<const UcxGroup> group)
      : Communicator(group->rank, group),
        resources_(std::move(resources)),
        group_(std::move(group)),
        sums_(std::make_shared<Sums>(steps_of(*group_, *resources_->engine))) {}

  std::unique_ptr<Communicator> split(std::span<const std::vector<int>> groups,
                                      std::string name) override {
    const auto found = find_membership(groups, rank(), size());
    const OperationPointer operation = make(split_call(name, groups));
    operation->set_task(ucx::split(*operation, resources_->next_group));
    finish(operation);
    const std::uint32_t id = operation->next_group;
    PHALANX_CHECK(id < kMostGroups, "{}: {} groups were split off", group_->name, id);
    resources_->next_group = id + 1;
    if (!found) return nullptr;
    UcxGroup members{part_of(*group_, groups[found->group], std::move(name)),
                     static_cast<std::uint16_t>(id), found->rank};
    return std::make_unique<UcxCommunicator>(resources_,
                                             std::make_shared<const UcxGroup>(std::move(members)));
  }

  void abort(std::string_view reason) noexcept override { engine().abort(reason); }

  Engine& engine() const { return *resources_->engine; }

 protected:
  Work start_all_reduce(Context& /*context*/, const Tensor& tensor, Reduction reduction) override {
    const auto operation = make({.kind = OperationKind::kAllReduce,
                                 .dtype = tensor.dtype,
                                 .count = tensor.count(),
                                 .reduction = reduction});
    expect_memory(tensor);
    operation->set_task(ucx::all_reduce(*operation, sums_, tensor.data()));
    return start({operation});
  }
  Work start_reduce_scatter(Context& /*context*/, const Tensor& output, const Tensor& input,
                            Reduction reduction) override {
    const auto operation = make({.kind = OperationKind::kReduceScatter,
                                 .dtype = input.dtype,
                                 .count = output.count(),
                                 .reduction = reduction});
    expect_memory(output);
    expect_memory(input);
    operation->set_task(ucx::reduce_scatter(*operation, sums_, output.data(), input.data()));
    return start({operation});
  }
  Work start_all_gather(Context& /*context*/, const Tensor& output, const Tensor& input) override {
    const auto operation =
        make({.kind = OperationKind::kAllGather, .dtype = input.dtype, .count = input.count()});
    expect_memory(output);
    expect_memory(input);
    operation->set_task(ucx::all_gather(*operation, output.data(), input.data()));
    return start({operation});
  }
  Work start_broadcast(Context& /*context*/, const Tensor& tensor, int root) override {
    const auto operation = make({.kind = OperationKind::kBroadcast,
                                 .dtype = tensor.dtype,
                                 .count = tensor.count(),
                                 .root = root});
    expect_memory(tensor);
    operation->set_task(ucx::broadcast(*operation, tensor.data()));
    return start({operation});
  }
  Work start_all_to_all(Context& /*context*/, const Tensor& output,
                        std::span<const std::int64_t> from, const Tensor& input,
                        std::span<const std::int64_t> to) override {
    const auto operation = make({.kind = OperationKind::kAllToAll, .dtype = input.dtype});
    expect_memory(output);
    expect_memory(input);
    std::vector<std::int64_t> taken(from.begin(), from.end()), given(to.begin(), to.end());
    operation->set_task(ucx::all_to_all(*operation, output.data(), std::move(taken), input.data(),
                                        std::move(given)));
    return start({operation});
  }
  void start_barrier(Context& /*context*/) override {
    const auto operation = make({.kind = OperationKind::kBarrier});
    operation->set_task(ucx::barrier(*operation));
    finish(operation);
  }
  Work start_exchange(Context& /*context*/, std::span<const PointToPoint> messages) override {
    for (const auto& message : messages) expect_memory(message.tensor);
    std::vector<OperationPointer> operations;
    for (const auto& message : messages) {
      if (message.peer != rank()) operations.push_back(make_message(message));
    }
    exchange_with_oneself(messages);
    return start(std::move(operations));
  }
  void begin_busy(std::string what) override { engine().begin_busy(std::move(what)); }
  void end_busy() noexcept override { engine().end_busy(); }

 private:
  using Direction = PointToPoint::Direction;

  OperationPointer make(Call call) {
    return std::make_shared<Operation>(
        engine(), CallPlace{.group = group_, .call = std::move(call), .number = next_call_++});
  }
  OperationPointer make_message(const PointToPoint& message) {
    const bool sends = message.direction == Direction::kSend;
    auto operation = std::make_shared<Operation>(
        engine(), CallPlace{.group = group_,
                            .call = {.kind = OperationKind::kMessage,
                                     .dtype = message.tensor.dtype,
                                     .count = message.tensor.count(),
                                     .key = message.key},
                            .number = (sends ? sends_ : receives_)[message.peer]++,
                            .sender = sends ? rank() : message.peer,
                            .receiver = sends ? message.peer : rank()});
    operation->set_task(sends ? ucx::send(*operation, message.tensor.data())
                              : ucx::receive(*operation, message.tensor.data()));
    return operation;
  }
  void exchange_with_oneself(std::span<const PointToPoint> messages) const {
    auto receive = messages.begin();
    for (const auto& send : messages) {
      if (send.peer != rank() || send.direction != Direction::kSend) continue;
      while (receive->peer != rank() || receive->direction != Direction::kReceive) ++receive;
      copy_to_oneself(*receive++, send);
    }
  }
  void copy_to_oneself(const PointToPoint& receive, const PointToPoint& send) const {
    const CallPlace place{.group = group_,
                          .call = {.kind = OperationKind::kMessage,
                                   .dtype = receive.tensor.dtype,
                                   .count = receive.tensor.count(),
                                   .key = receive.key},
                          .sender = rank(),
                          .receiver = rank()};
    expect_same_call(place, rank(),
                     header_of({.kind = OperationKind::kMessage,
                                .dtype = send.tensor.dtype,
                                .count = send.tensor.count(),
                                .key = send.key}),
                     {});
    if (receive.tensor.data() == send.tensor.data()) return;
    std::memmove(receive.tensor.data(), send.tensor.data(),
                 static_cast<std::size_t>(send.tensor.bytes()));
  }

  Work start(std::vector<OperationPointer> operations) const {
    engine().start(operations);
    return Work(std::make_shared<UcxWork>(resources_->engine, std::move(operations)));
  }
  void finish(const OperationPointer& operation) const {
    engine().start(std::span(&operation, 1));
    engine().wait(std::span(&operation, 1));
  }

  std::shared_ptr<RankResources> resources_;
  std::shared_ptr<const UcxGroup> group_;
  std::shared_ptr<Sums> sums_;
  std::uint64_t next_call_ = 0;
  std::map<int, std::uint64_t> sends_, receives_;  // by peer
};

Engine& engine_of(const Communicator& member) {
  const auto* const end = dynamic_cast<const UcxCommunicator*>(&member);
  PHALANX_CHECK(end != nullptr, "{} is not a group of ranks that are processes", member.name());
  return end->engine();
}

}  // namespace
}  // namespace ucx

std::unique_ptr<Communicator> make_ucx_world(int rank, const std::vector<RankPlace>& places,
                                             const UcxOptions& options, RankWatch& watch,
                                             Mailbox& mailbox) {
  const int size = static_cast<int>(places.size());
  PHALANX_CHECK(rank >= 0 && rank < size && options.threads_per_rank > 0 && options.sum_block >= 2,
                "rank {} of {} with {} threads that adds in blocks of {}", rank, size,
                options.threads_per_rank, options.sum_block);
  if (size > ucx::kMostRanks) {
    throw ConfigError("{} ranks: this transport carries up to {}", size, ucx::kMostRanks);
  }
  const auto resources = std::make_shared<ucx::RankResources>();
  resources->engine = std::make_shared<ucx::Engine>(
      rank, ucx::open_wires(rank, places, options, mailbox), places, options, watch);
  ucx::UcxGroup world{{"world", std::vector<int>(places.size())}, 0, rank};
  std::iota(world.ranks.begin(), world.ranks.end(), 0);
  return std::make_unique<ucx::UcxCommunicator>(
      resources, std::make_shared<const ucx::UcxGroup>(std::move(world)));
}

int ucx_connections(const Communicator& member) { return ucx::engine_of(member).connections(); }

UcxTraffic ucx_network_traffic(const Communicator& member) {
  return ucx::engine_of(member).network_traffic();
}

UcxMemory ucx_memory(int rank, const std::vector<RankPlace>& places, int sum_block,
                     std::span<const int> summing) {
  constexpr std::int64_t kMiB = 1 << 20;
  const std::int64_t local = places[static_cast<std::size_t>(rank)].local_size - 1;
  const std::int64_t remote = std::ssize(places) - 1 - local;
  if (local + remote == 0) return {};
  UcxMemory memory;
  // UCX's code and heap, and the buffers of messages with headers.
  memory.bytes = 8 * kMiB;
  // Memory for sums, wherever the ranks of a group are.
  for (const int members : summing) {
    memory.bytes += ucx::bytes_of_sums(members, sum_block, remote > 0);
  }
  const std::int64_t peers = ucx::most_peers(summing);
  if (local > 0) {
    memory.shared = std::min(local, peers) * ucx::kQueueBytes;
    memory.bytes += ucx::kQueueBytes + memory.shared;
  }
  // Buffers of connections.
  if (remote > 0) memory.bytes += 2 * kMiB + std::min(remote, peers) * kMiB;
  return memory;
}

}  // namespace phalanx
