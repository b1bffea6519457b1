#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"
#include "phalanx/base/log.h"
#include "phalanx/base/machine.h"
#include "phalanx/base/working_directory.h"
#include "phalanx/cli/commands.h"
#include "phalanx/cli/output_files.h"
#include "phalanx/cli/training_run.h"
#include "phalanx/clock/cluster_fit.h"
#include "phalanx/clock/cluster_measurement.h"
#include "phalanx/clock/machine.h"
#include "phalanx/flag_table/train_flags.h"
#include "phalanx/start/agreement.h"
#include "phalanx/train/pretrain.h"

namespace phalanx {
namespace {

constexpr const char* kStopping =
    "SIGINT: stopping behind the message that is timed, nothing is written; press Ctrl-C again to "
    "end at once\n";
constexpr int kEndedBySignal = 128;  // plus the signal's number, as in shells

// Those of pretrain that say how ranks start.
constexpr std::array<std::string_view, 5> kStartFlags = {
    "--threads-per-rank", "--distributed-timeout-minutes", "--rdzv-secret-file", "--rdzv-insecure",
    "--rdzv-bind-any"};

struct BenchClusterFlags {
  std::string output;
  std::string device;
  bool quick = false;
  bool overwrite = false;
  bool json = false;

  void add_to(FlagSet& flags, TrainConfig& config) {
    flags.add({.name = "--output",
               .help = "The description that is written, YAML, also -o FILE",
               .value_name = "FILE"},
              &output);
    flags.add({.name = "--device",
               .help = "What a rank computes on: a shipped device, or the file that bench device "
                       "has written of it",
               .value_name = "NAME|FILE"},
              &device);
    flags.add({.name = "--quick",
               .help = "Seconds instead of minutes: smaller messages, each timed shortly"},
              &quick);
    flags.add({.name = "--overwrite", .help = "Replace a file that is there"}, &overwrite);
    flags.add({.name = "--json", .help = "One JSON document on standard output"}, &json);
    flags.section("Start");
    flags.add(
        {.name = "--nproc", .help = "Ranks: threads of this process", .range = from_to(1, 1048576)},
        &config.layout.world_size);
    for (const std::string_view name : kStartFlags) {
      const TrainFlag& flag = *find_train_flag(name);
      flags.add(flag.spec, flag.target(config));
    }
    flags.add_example("phalanx bench cluster --nproc 4 --device device.yaml -o cluster.yaml",
                      "four ranks of this machine");
    flags.add_example(
        "phalanx launch --nproc-per-node 8 --nnodes 2 FLAGS bench cluster --device device.yaml -o "
        "cluster.yaml",
        "processes of two hosts, the same on both");
  }
};

// The device as the file at `output` names it.
std::string device_beside(const std::string& output, const std::string& device) {
  const std::vector<std::string> shipped = shipped_device_names();
  if (std::ranges::find(shipped, device) != shipped.end()) return device;
  const std::filesystem::path folder = absolute_path(output).parent_path();
  return absolute_path(device).lexically_normal().lexically_proximate(folder.lexically_normal());
}

// Before minutes are spent. Of the process that writes.
void check_files(const BenchClusterFlags& values) {
  check_output("--output", values.output, values.overwrite);
  check_writable("--output", values.output);
  device_of(values.device);
}

bool is_default(const NamedQuantity& number) { return number.quantity.origin == Origin::kDefault; }

std::string text_of(const FittedCluster& fit, const std::string& output) {
  const ClusterDescription& cluster = fit.cluster;
  std::string text = fmt::format("{}\n\n", cluster.title);
  for (const auto& [ranks, row] : cluster.measured_ranks) {
    text +=
        fmt::format("{:<24} {:>8.1f} us {:>9.3f} GB/s   all-reduce of so many ranks of a node\n",
                    fmt::format("ranks_{}", ranks), 1e6 * row.alpha->value, 1e-9 * row.rate->value);
  }
  for (const NamedQuantity& number : quantities_of(cluster)) {
    text += fmt::format("{:<24} {:<12.4g} {}\n", number.key, number.quantity.value,
                        is_default(number) ? fmt::format("default: {}", number.quantity.source)
                                           : std::string(name_of(number.quantity.origin)));
  }
  text += "\npredicted within (root mean squares):";
  for (const auto& [kind, error] : fit.collective_errors) {
    text += fmt::format(" {} {:.1f} %,", name_of(kind), 100 * error);
  }
  return text + fmt::format(" messages {:.1f} %\n{}\n", 100 * fit.message_error, output);
}

std::string json_of(const ClusterMeasurements& measurements, const FittedCluster& fit,
                    const std::string& output) {
  nlohmann::ordered_json json = {{"file", output},
                                 {"title", fit.cluster.title},
                                 {"numbers", nlohmann::ordered_json::object()},
                                 {"defaults", nlohmann::ordered_json::array()},
                                 {"ranks", nlohmann::ordered_json::array()},
                                 {"collectives", nlohmann::ordered_json::array()},
                                 {"messages", nlohmann::ordered_json::array()}};
  for (const NamedQuantity& number : quantities_of(fit.cluster)) {
    json["numbers"][number.key] = number.quantity.value;
    if (is_default(number)) json["defaults"].push_back(number.key);
  }
  for (const auto& [ranks, row] : fit.cluster.measured_ranks) {
    json["ranks"].push_back(
        {{"ranks", ranks}, {"alpha", row.alpha->value}, {"rate", row.rate->value}});
  }
  for (const CollectivePoint& point : measurements.collectives) {
    json["collectives"].push_back(
        {{"op", name_of(point.kind)},
         {"ranks", point.place.ranks},
         {"ranks_in_node", point.place.ranks_in_node},
         {"bytes", point.bytes},
         {"seconds", point.seconds},
         {"predicted", collective_seconds(fit.cluster, point.kind, point.bytes, point.place)}});
  }
  for (const MessagePoint& point : measurements.messages) {
    json["messages"].push_back(
        {{"within_node", point.is_within_node},
         {"bytes", point.bytes},
         {"seconds", point.seconds},
         {"predicted", message_seconds(fit.cluster, point.bytes, point.is_within_node)}});
  }
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

// Threads of a rank, as a run has them.
int threads_of(const RankRunner& runner, const LayoutConfig& layout) {
  if (layout.threads_per_rank > 0) return static_cast<int>(layout.threads_per_rank);
  const RankPlace& here = runner.places()[static_cast<std::size_t>(runner.own_ranks().front())];
  return default_threads(here.local_size).count;
}

std::string words(int count, std::string_view one) {
  const std::string_view ending = count == 1 ? "" : one.ends_with("s") ? "es" : "s";
  return fmt::format("{} {}{}", count, one, ending);
}

MeasuredCluster measure(RankRunner& runner, const NodeRanks& nodes, const TrainConfig& config,
                        const ClusterMeasurementOptions& options) {
  RankOptions ranks{.threads_per_rank = options.threads, .timeout = timeout_of(config.run)};
  for (const MeasuredGroups& groups : measured_groups(nodes)) {
    ranks.summing.push_back(groups.place.ranks);
  }
  MeasuredCluster found;
  const int first = runner.own_ranks().front();
  runner.run(ranks, [&](Communicator& world, RankWatch&) {
    MeasuredCluster mine = measure_cluster(world, nodes, options);
    if (world.rank() == first) found = std::move(mine);
  });
  return found;
}

}  // namespace

int run_bench_cluster(CommandIo& io, const Arguments& arguments) {
  TrainConfig config;
  const auto environment = begin_process(io, config);
  BenchClusterFlags values;
  FlagSet flags("phalanx bench cluster",
                "Measures collectives and messages on the ranks of a job, and writes what "
                "predictions of a step's time need of them.");
  values.add_to(flags, config);
  flags.parse(with_long_names(arguments));
  if (values.output.empty()) throw UsageError("say which file is written: -o cluster.yaml");
  if (values.device.empty()) {
    throw UsageError(
        "say what a rank computes on: --device device.yaml (phalanx bench device -o device.yaml "
        "measures it), or one of {}",
        fmt::join(shipped_device_names(), ", "));
  }

  const auto signals = io.listen(kStopping);
  const auto stopped = [&] {
    log_line(LogLevel::kError, "phalanx bench: stopped; nothing was written");
    return kEndedBySignal + signals->received();
  };
  std::unique_ptr<RankRunner> runner;
  NodeRanks nodes;
  try {
    runner = start_ranks(environment, flags, config, *signals);
    runner->prepare([&] {
      nodes = nodes_of(runner->places());
      if (runner->leads()) check_files(values);
    });
  } catch (const StoppedEarly&) {
    return stopped();
  }
  const ClusterMeasurementOptions options{
      .threads = threads_of(*runner, config.layout),
      .is_quick = values.quick,
      .note = [](const std::string& what) { log_info("{}", what); },
      .is_stopped = [&] { return signals->received() != 0; }};
  MeasuredCluster found = measure(*runner, nodes, config, options);
  if (found.is_stopped) return stopped();
  if (!runner->leads()) return 0;
  ClusterMeasurements& measurements = found.measurements;
  const std::string processor = processor_name();
  measurements.title =
      fmt::format("{} of {}, {}", words(nodes.nodes, "host"), words(nodes.ranks_per_node, "rank"),
                  processor.empty() ? "a processor" : processor);
  measurements.device = device_beside(values.output, values.device);
  measurements.devices_per_node = nodes.ranks_per_node;
  measurements.nodes = nodes.nodes;
  measurements.source = fmt::format(
      "phalanx bench cluster on {}, {} of {}, {} each{}", host_name(), words(nodes.nodes, "host"),
      words(nodes.ranks_per_node, std::ssize(runner->own_ranks()) > 1 ? "thread rank" : "process"),
      words(options.threads, "thread"), values.quick ? ", quick" : "");
  const FittedCluster fit = fitted_cluster(measurements);
  write_file_durably(values.output, yaml_of(fit.cluster));
  io.put(values.json ? json_of(measurements, fit, values.output) : text_of(fit, values.output));
  return 0;
}

}  // namespace phalanx
