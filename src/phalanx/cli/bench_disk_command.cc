#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/base/machine.h"
#include "phalanx/base/memory_need.h"
#include "phalanx/base/numeric.h"
#include "phalanx/base/unique_name.h"
#include "phalanx/cli/commands.h"
#include "phalanx/flags/flag_set.h"
#include "phalanx/offload/bandwidth.h"

namespace phalanx {
namespace {

constexpr const char* kStopping =
    "SIGINT: stopping, the file is removed; press Ctrl-C again to end at once\n";
constexpr int kEndedBySignal = 128;  // plus the signal's number, as in shells

constexpr std::int64_t kKibibyte = 1024;
constexpr std::int64_t kMebibyte = 1024 * kKibibyte;
constexpr std::int64_t kDefaultSize = 1024 * kMebibyte;
constexpr std::int64_t kLeastSize = 16 * kMebibyte;
constexpr double kGigabyte = 1e9;

struct BenchFlags {
  std::vector<std::string> directories;
  std::int64_t size_mib = 0;
  std::int64_t block_kib = kDefaultStorageBlock / kKibibyte;
  std::int64_t queue_depth = StorageOptions{}.queue_depth;
  std::int64_t threads = StorageOptions{}.threads;
  double seconds = BandwidthOptions{}.seconds;
  std::string engine = "all";
  bool buffered = false;
  bool json = false;

  void add_to(FlagSet& flags) {
    flags.add_positional({.name = "DIR",
                          .help = "A directory on the disk; what is made there is removed",
                          .values = &directories,
                          .least = 1,
                          .most = 1});
    flags.add({.name = "--size",
               .help = "MiB of the file (0: 1024, or less where space or memory is short)",
               .range = from_to(0, 1 << 24)},
              &size_mib);
    flags.add({.name = "--block-size",
               .help = "KiB that move at once, a multiple of 4",
               .range = from_to(4, 1 << 16)},
              &block_kib);
    flags.add(
        {.name = "--queue-depth", .help = "Blocks under way at once", .range = from_to(1, 256)},
        &queue_depth);
    flags.add({.name = "--threads",
               .help = "Threads of the engine without io_uring",
               .range = from_to(1, 64)},
              &threads);
    flags.add({.name = "--engine",
               .help = "Who moves blocks (all: one after the other)",
               .choices = "all io_uring threads"},
              &engine);
    flags.add({.name = "--buffered", .help = "Through the page cache, as some file systems must"},
              &buffered);
    flags.add({.name = "--seconds",
               .help = "The most time of each pass: there are four of each engine",
               .range = from_to(0.01, 600)},
              &seconds);
    flags.add({.name = "--json", .help = "One JSON document on standard output"}, &json);
  }

  StorageOptions storage() const {
    if (block_kib % (kStorageAlignment / kKibibyte) != 0) {
      throw ConfigError("--block-size {}: must be a multiple of 4", block_kib);
    }
    return {.block_bytes = block_kib * kKibibyte,
            .queue_depth = static_cast<int>(queue_depth),
            .threads = static_cast<int>(threads),
            .direct = !buffered};
  }
  std::vector<StorageEngine> engines() const {
    constexpr std::array kEngines = {StorageEngine::kIoUring, StorageEngine::kThreads};
    std::vector<StorageEngine> chosen;
    for (const StorageEngine one : kEngines) {
      if (engine == "all" || engine == name_of(one)) chosen.push_back(one);
    }
    return chosen;
  }
  std::int64_t bytes(const StorageFolder& folder) const {
    if (size_mib > 0) return size_mib * kMebibyte;
    // A file system may be in memory.
    const std::int64_t most = std::min(folder.free_bytes() / 2, available_memory().bytes / 4);
    return std::clamp(most / kMebibyte * kMebibyte, kLeastSize, kDefaultSize);
  }
};

struct Row {
  std::string_view engine;
  DiskBandwidth measured;
};

// The rates for a plan: those of the engine that a run would use.
std::string plan_flag(const Row& row) {
  return fmt::format("--disk-bandwidth {:.3g},{:.3g}", row.measured.read_per_s / kGigabyte,
                     row.measured.write_per_s / kGigabyte);
}

std::string text_of(const std::string& directory, std::int64_t bytes,
                    const std::vector<Row>& rows) {
  std::string text =
      fmt::format("{}: a file of {}\n\n{:<10} {:>12} {:>12} {:>12} {:>12}\n", directory,
                  format_bytes(bytes), "engine", "moved", "read GB/s", "write GB/s", "by turns");
  for (const auto& [engine, measured] : rows) {
    text += fmt::format("{:<10} {:>12} {:>12.2f} {:>12.2f} {:>12.2f}   {}\n", engine,
                        format_bytes(measured.bytes), measured.read_per_s / kGigabyte,
                        measured.write_per_s / kGigabyte, measured.both_per_s / kGigabyte,
                        measured.description);
  }
  return text +
         fmt::format("\nphalanx plan ... {}   (GB/s: read, write)\n", plan_flag(rows.front()));
}

std::string json_of(const std::string& directory, std::int64_t bytes, const StorageOptions& storage,
                    const std::vector<Row>& rows) {
  nlohmann::ordered_json json = {{"directory", directory},
                                 {"file_bytes", bytes},
                                 {"block_bytes", storage.block_bytes},
                                 {"queue_depth", storage.queue_depth},
                                 {"engines", nlohmann::ordered_json::array()},
                                 {"plan", plan_flag(rows.front())}};
  for (const auto& [engine, measured] : rows) {
    json["engines"].push_back({{"engine", engine},
                               {"description", measured.description},
                               {"moved_bytes", measured.bytes},
                               {"read_bytes_per_s", measured.read_per_s},
                               {"write_bytes_per_s", measured.write_per_s},
                               {"by_turns_bytes_per_s", measured.both_per_s}});
  }
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

// Measures the engines that the system has. An engine that was named and is missing is an error.
std::vector<Row> measure(const BenchFlags& values, StorageFolder& folder,
                         BandwidthOptions options) {
  std::vector<Row> rows;
  for (const StorageEngine engine : values.engines()) {
    options.storage.engine = engine;
    try {
      rows.push_back({name_of(engine), measure_bandwidth(folder, options)});
    } catch (const SystemError& error) {
      if (values.engine != "all" || engine != StorageEngine::kIoUring) throw;
      log_warning("phalanx bench: {}", error.what());
    }
    if (options.is_stopped()) break;
  }
  return rows;
}

}  // namespace

int run_bench_disk(CommandIo& io, const Arguments& arguments) {
  BenchFlags values;
  FlagSet flags("phalanx bench disk",
                "How fast a disk takes and gives the states of a run, as a step moves them.");
  values.add_to(flags);
  flags.parse(arguments);
  const std::string& directory = values.directories.front();

  const auto signals = io.listen(kStopping);
  BandwidthOptions options{.storage = values.storage(), .seconds = values.seconds};
  options.is_stopped = [&] { return signals->received() != 0; };
  expect_memory(fmt::format("{} blocks of {}", options.storage.queue_depth,
                            format_bytes(options.storage.block_bytes)),
                static_cast<double>(storage_bytes(options.storage)),
                "give a smaller --queue-depth or --block-size");
  StorageFolder folder(directory, "bench-" + random_digits(kUniqueDigits), 0, "bench disk");
  options.file_bytes = values.bytes(folder);
  folder.expect_space(options.file_bytes);
  const std::vector<Row> rows = measure(values, folder, options);
  if (signals->received() != 0) {
    log_line(LogLevel::kError, "phalanx bench: stopped; nothing was left behind");
    return kEndedBySignal + signals->received();
  }
  io.put(values.json ? json_of(directory, options.file_bytes, options.storage, rows)
                     : text_of(directory, options.file_bytes, rows));
  return 0;
}

}  // namespace phalanx
