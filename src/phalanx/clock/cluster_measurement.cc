#include "phalanx/clock/cluster_measurement.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <memory>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/ops/cpu/cpu_backend.h"
#include "phalanx/ops/cpu/precision.h"
#include "phalanx/ops/elementwise.h"
#include "phalanx/ops/linear.h"

namespace phalanx {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kKibibyte = 1024;
constexpr std::int64_t kMebibyte = 1024 * kKibibyte;
constexpr std::int64_t kFewestBytes = 64 * kKibibyte;
constexpr std::array kKinds = {CollectiveKind::kAllReduce, CollectiveKind::kAllGather,
                               CollectiveKind::kReduceScatter, CollectiveKind::kAllToAll};
constexpr std::int64_t kRows = 256, kColumns = 1024;  // of the product

struct Timing {
  std::int64_t most_bytes = 64 * kMebibyte;
  double seconds = 0.03;  // of a batch of calls
  int batches = 7;
  double limit = 200.0;  // of everything: larger messages are left out then
};
constexpr Timing kFull = {};
constexpr Timing kQuick = {.most_bytes = kMebibyte, .seconds = 0.003, .batches = 3, .limit = 20.0};

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Neighbours on a machine make times longer, never shorter.
double lower_quartile(std::vector<double> times) {
  const auto quartile = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 4);
  std::ranges::nth_element(times, quartile);
  return *quartile;
}

// One rank's side.
class Side {
 public:
  Side(Communicator& world, const NodeRanks& nodes, const ClusterMeasurementOptions& options)
      : world_(world),
        nodes_(nodes),
        options_(options),
        timing_(options.is_quick ? kQuick : kFull),
        backend_(make_cpu_backend(options.threads, cpu::choose_products("fp32", false).products)),
        arena_("messages", 2 * timing_.most_bytes + kProductBytes + 8 * kArenaAlignment),
        input_(arena_.allocate(DType::kF32, {timing_.most_bytes / 4})),
        output_(arena_.allocate(DType::kF32, {timing_.most_bytes / 4})),
        numbers_(arena_.allocate(DType::kF32, {kMostNumbers})) {
    for (const Tensor& tensor : {input_, output_}) {
      ops::fill(context_, {.x = tensor, .value = 1.0 / 3.0});
    }
  }

  MeasuredCluster measure() {
    // What takes long comes last: it may be cut short.
    for (const bool is_within_node : {true, false}) time_messages(is_within_node);
    time_overlap();
    for (const MeasuredGroups& groups : measured_groups(nodes_)) time_groups(groups);
    return std::move(found_);
  }

 private:
  static constexpr std::int64_t kMostNumbers = 64;
  static constexpr std::int64_t kProductBytes =
      4 * (2 * kRows * kColumns + kColumns * kColumns) + 64 * kKibibyte;

  // The largest of all ranks' numbers, one by one.
  std::vector<double> largest_of_all(std::vector<double> mine) {
    const Tensor numbers = numbers_.slice(0, 0, std::ssize(mine));
    std::ranges::transform(mine, numbers.span<float>().begin(),
                           [](double number) { return static_cast<float>(number); });
    world_.all_reduce(context_, numbers, Reduction::kMax).wait(context_.queue);
    std::ranges::copy(numbers.span<float>(), mine.begin());
    return mine;
  }

  // Whether to leave out what comes, on all ranks.
  bool is_over() {
    const std::vector<double> numbers =
        largest_of_all({options_.is_stopped() ? 1.0 : 0.0, seconds_since(begin_)});
    found_.is_stopped = found_.is_stopped || numbers[0] > 0.0;
    return found_.is_stopped || numbers[1] > timing_.limit;
  }

  void note(const std::string& text) const {
    if (world_.rank() == 0) options_.note(text);
  }

  // Seconds of a call, on the slowest rank: batches of calls that follow each other.
  template <typename Call>
  double seconds_of(const Call& call) {
    call();
    world_.barrier(context_);
    Clock::time_point begin = Clock::now();
    call();
    const double once = largest_of_all({seconds_since(begin)}).front();
    const int calls = std::clamp(static_cast<int>(timing_.seconds / once), 1, 1000);
    std::vector<double> times;
    for (int batch = 0; batch < timing_.batches; ++batch) {
      world_.barrier(context_);
      begin = Clock::now();
      for (int i = 0; i < calls; ++i) call();
      times.push_back(seconds_since(begin) / calls);
    }
    return lower_quartile(largest_of_all(std::move(times)));
  }

  Work start(Communicator& group, CollectiveKind kind, std::int64_t part) {
    const Tensor whole = input_.slice(0, 0, part * group.size());
    const Tensor other = output_.slice(0, 0, part * group.size());
    const Tensor one = output_.slice(0, 0, part);
    switch (kind) {
      case CollectiveKind::kAllReduce:
        return group.all_reduce(context_, other, Reduction::kSum);
      case CollectiveKind::kAllGather:
        return group.all_gather(context_, other, input_.slice(0, 0, part));
      case CollectiveKind::kReduceScatter:
        return group.reduce_scatter(context_, one, whole, Reduction::kSum);
      case CollectiveKind::kAllToAll:
        return group.all_to_all(context_, other, whole);
      case CollectiveKind::kBroadcast:
        return group.broadcast(context_, other, 0);
    }
    return {};
  }

  void time_groups(const MeasuredGroups& groups) {
    const auto group = world_.split(groups.groups, "bench");
    note(fmt::format("collectives of {} ranks, {} in a node, groups at once: {}",
                     groups.place.ranks, groups.place.ranks_in_node, groups.groups.size()));
    for (const CollectiveKind kind : kKinds) {
      for (std::int64_t bytes = kFewestBytes; bytes <= timing_.most_bytes; bytes *= 4) {
        if (is_over()) break;
        const std::int64_t part = bytes / 4 / groups.place.ranks;
        const double seconds = seconds_of([&] {
          if (group) start(*group, kind, part).wait(context_.queue);
        });
        found_.measurements.collectives.push_back(
            {.kind = kind,
             .place = groups.place,
             .bytes = static_cast<double>(4 * part * groups.place.ranks),
             .seconds = seconds});
      }
    }
  }

  // The rank that this one exchanges messages with; -1: none.
  int partner(bool is_within_node) const {
    const int node = world_.rank() / nodes_.ranks_per_node;
    const int number = world_.rank() % nodes_.ranks_per_node;
    const int pair = is_within_node ? number : node;
    const int pairs = is_within_node ? nodes_.ranks_per_node : nodes_.nodes;
    const int other = pair % 2 == 0 ? pair + 1 : pair - 1;
    if (other >= pairs) return -1;
    return is_within_node ? node * nodes_.ranks_per_node + other
                          : other * nodes_.ranks_per_node + number;
  }

  // There and back between the two of a pair, all pairs at once.
  void time_messages(bool is_within_node) {
    if ((is_within_node ? nodes_.ranks_per_node : nodes_.nodes) < 2) return;
    note(fmt::format("messages between two ranks of {}", is_within_node ? "a node" : "two nodes"));
    const int other = partner(is_within_node);
    for (std::int64_t bytes = kFewestBytes; bytes <= timing_.most_bytes; bytes *= 4) {
      if (is_over()) return;
      const Tensor sent = input_.slice(0, 0, bytes / 4);
      const Tensor received = output_.slice(0, 0, bytes / 4);
      const double both = seconds_of([&] {
        if (other < 0) return;
        if (world_.rank() < other) {
          world_.send(context_, sent, other, 0).wait(context_.queue);
          world_.receive(context_, received, other, 0).wait(context_.queue);
        } else {
          world_.receive(context_, received, other, 0).wait(context_.queue);
          world_.send(context_, sent, other, 0).wait(context_.queue);
        }
      });
      found_.measurements.messages.push_back({.is_within_node = is_within_node,
                                              .bytes = static_cast<double>(bytes),
                                              .seconds = both / 2});
    }
  }

  // How much of a collective a product beside it becomes longer by: a gather of a node's ranks, as
  // tensor parallelism has it, and a sum of all ranks, as data parallelism.
  void time_overlap() {
    if (is_over()) return;
    note("a product beside a collective");
    const Tensor x = arena_.allocate(DType::kF32, {kRows, kColumns});
    const Tensor y = arena_.allocate(DType::kF32, {kRows, kColumns});
    const Tensor weight = arena_.allocate(DType::kF32, {kColumns, kColumns});
    for (const Tensor& tensor : {x, weight}) {
      ops::fill(context_, {.x = tensor.reshape({tensor.count()}), .value = 1.0 / 3.0});
    }
    const auto product = [&] {
      ops::linear_forward(context_, {.y = y, .x = x, .weight = weight, .bias = {}});
    };
    const double alone = seconds_of(product);
    const auto share = [&](Communicator& group, CollectiveKind kind) {
      const std::int64_t part =
          std::min<std::int64_t>(timing_.most_bytes, 4 * kMebibyte) / 4 / group.size();
      const double message = seconds_of([&] { start(group, kind, part).wait(context_.queue); });
      const int products = std::max(1, static_cast<int>(std::ceil(2 * message / alone)));
      const auto compute = [&] {
        for (int i = 0; i < products; ++i) product();
      };
      const double computed = seconds_of(compute);
      const double both = seconds_of([&] {
        const Work work = start(group, kind, part);
        compute();
        work.wait(context_.queue);
      });
      return std::clamp((both - computed) / message, 0.0, 1.0);
    };
    if (nodes_.ranks_per_node > 1) {
      std::vector<std::vector<int>> of_nodes(static_cast<std::size_t>(nodes_.nodes));
      for (int rank = 0; rank < world_.size(); ++rank) {
        of_nodes[static_cast<std::size_t>(rank / nodes_.ranks_per_node)].push_back(rank);
      }
      const auto node = world_.split(of_nodes, "bench");
      found_.measurements.x_tp = share(*node, CollectiveKind::kAllGather);
    }
    found_.measurements.x_dp = share(world_, CollectiveKind::kAllReduce);
  }

  Communicator& world_;
  const NodeRanks nodes_;
  const ClusterMeasurementOptions& options_;
  const Timing timing_;
  const Clock::time_point begin_ = Clock::now();
  std::unique_ptr<Backend> backend_;
  Arena arena_;
  Arena workspace_{"workspace", 64 * kMebibyte};
  Context context_{.backend = *backend_, .workspace = workspace_};
  Tensor input_, output_, numbers_;
  MeasuredCluster found_;
};

}  // namespace

NodeRanks nodes_of(std::span<const RankPlace> places) {
  if (places.size() < 2) {
    throw ConfigError(
        "a cluster is measured between two ranks or more: give --nproc N, or start the processes "
        "with phalanx launch, torchrun or srun");
  }
  const NodeRanks nodes{.nodes = places.back().host + 1,
                        .ranks_per_node = places.front().local_size};
  for (const RankPlace& place : places) {
    if (place.local_size != nodes.ranks_per_node ||
        place.rank != place.host * nodes.ranks_per_node + place.local_rank) {
      throw ConfigError(
          "rank {} is number {} of {} on host {}, and host 0 has {} ranks: a description has as "
          "many devices in each node, one after the other; start equally many on every host",
          place.rank, place.local_rank, place.local_size, place.host, nodes.ranks_per_node);
    }
  }
  return nodes;
}

std::vector<MeasuredGroups> measured_groups(const NodeRanks& nodes) {
  // 2, 4, ... and all.
  const auto sizes = [](int all) {
    std::vector<int> found;
    for (int size = 2; size < all; size *= 2) found.push_back(size);
    if (all > 1) found.push_back(all);
    return found;
  };
  std::vector<MeasuredGroups> all;
  for (const int size : sizes(nodes.ranks_per_node)) {
    MeasuredGroups& made = all.emplace_back();
    made.place = {.ranks = size, .ranks_in_node = size, .stride = 1};
    for (int node = 0; node < nodes.nodes; ++node) {
      for (int first = 0; first + size <= nodes.ranks_per_node; first += size) {
        std::vector<int>& group = made.groups.emplace_back();
        for (int i = 0; i < size; ++i) group.push_back(node * nodes.ranks_per_node + first + i);
      }
    }
  }
  for (const int size : sizes(nodes.nodes)) {
    MeasuredGroups& made = all.emplace_back();
    made.place = {.ranks = size, .ranks_in_node = 1, .stride = nodes.ranks_per_node};
    for (int first = 0; first + size <= nodes.nodes; first += size) {
      for (int number = 0; number < nodes.ranks_per_node; ++number) {
        std::vector<int>& group = made.groups.emplace_back();
        for (int i = 0; i < size; ++i) {
          group.push_back((first + i) * nodes.ranks_per_node + number);
        }
      }
    }
  }
  if (nodes.nodes > 1 && nodes.ranks_per_node > 1) {
    const int ranks = nodes.nodes * nodes.ranks_per_node;
    MeasuredGroups& made = all.emplace_back();
    made.place = {.ranks = ranks, .ranks_in_node = nodes.ranks_per_node, .stride = 1};
    for (int rank = 0; rank < ranks; ++rank) {
      if (rank == 0) made.groups.emplace_back();
      made.groups.front().push_back(rank);
    }
  }
  return all;
}

MeasuredCluster measure_cluster(Communicator& world, const NodeRanks& nodes,
                                const ClusterMeasurementOptions& options) {
  return Side(world, nodes, options).measure();
}

}  // namespace phalanx
