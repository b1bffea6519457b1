#include "comm_scaling.h"

#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/machine.h"
#include "scaling_cells.h"
#include "scaling_model.h"
#include "scaling_picture.h"

namespace phalanx::bench {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

// One way of carrying the messages: a command that prints cells.
struct Way {
  std::string name;
  std::string command;  // RANKS and SECONDS stand for numbers
};

struct Results {
  std::string processor;
  int cores = 0;
  std::vector<std::string> ways;
  std::vector<ScalingCell> cells;
  std::vector<std::string> left_out;  // what, and why
};

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::string replaced(std::string text, std::string_view what, const std::string& with) {
  const std::size_t at = text.find(what);
  return at == std::string::npos ? text : text.replace(at, what.size(), with);
}

bool is_installed(const std::string& program) {
  return std::system(("command -v " + program + " >/dev/null 2>&1").c_str()) == 0;
}

// The programs of bench/peers, built into a folder of its own, and the ways that are there.
class Peers {
 public:
  Peers() {
    std::string name = (std::filesystem::temp_directory_path() / "phalanx_peers_XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw SystemError("cannot make {}", name);
    folder_ = name;
  }
  ~Peers() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  std::string error_file() const { return (folder_ / "errors").string(); }

  void add_ways(std::vector<Way>& ways, std::vector<std::string>& left_out) const {
    if (!is_installed("mpicxx") || !is_installed("mpirun")) {
      left_out.emplace_back("Open MPI: not installed (apt-get install libopenmpi-dev openmpi-bin)");
    } else if (!build("mpicxx", "mpi_bandwidth", "")) {
      left_out.push_back("Open MPI: its program cannot be built: " + last_error());
    } else {
      // As root it must be told twice.
      const std::string run =
          "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
          "mpirun --oversubscribe --bind-to none -np RANKS ";
      const std::string program = (folder_ / "mpi_bandwidth").string() + " --cells SECONDS";
      ways.push_back({"Open MPI, shared memory", run + program});
      ways.push_back({"Open MPI, TCP", run +
                                           "--mca pml ob1 --mca btl self,tcp "
                                           "--mca btl_tcp_if_include lo " +
                                           program});
    }
    if (!std::filesystem::exists("/usr/include/gloo/allreduce.h")) {
      left_out.emplace_back("Gloo: not installed (apt-get install libgloo-dev)");
    } else if (!build("g++", "gloo_bandwidth", "-lgloo -lpthread")) {
      left_out.push_back("Gloo: its program cannot be built: " + last_error());
    } else {
      ways.push_back(
          {"Gloo, TCP", (folder_ / "gloo_bandwidth").string() + " RANKS --cells SECONDS"});
    }
  }

  // What a command wrote last as an error.
  std::string last_error() const {
    std::ifstream file(error_file());
    std::string last = "no reason was given";
    for (std::string line; std::getline(file, line);) {
      if (line.find_first_not_of(" -") != std::string::npos) last = line;
    }
    return last;
  }

 private:
  bool build(const std::string& compiler, const std::string& name,
             const std::string& libraries) const {
    const std::filesystem::path source = std::filesystem::path(PHALANX_PEERS) / (name + ".cc");
    const std::string command =
        fmt::format("{} -std=c++20 -O2 '{}' {} -o '{}' >/dev/null 2>'{}'", compiler,
                    source.string(), libraries, (folder_ / name).string(), error_file());
    return std::system(command.c_str()) == 0;
  }

  std::filesystem::path folder_;
};

std::vector<Way> own_ways() {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  const auto command = [&](const std::string& transport) {
    return fmt::format("'{}' --cells SECONDS --ranks RANKS --transport {}", program, transport);
  };
  return {{"threads", command("threads")},
          {"processes, shared memory", command("shared-memory")},
          {"processes, TCP", command("tcp")}};
}

// Runs a world of a way. What is wrong is added to `left_out`.
void measure(const Way& way, int ranks, double seconds, const Peers& peers, Results& results) {
  std::string command = replaced(way.command, "RANKS", std::to_string(ranks));
  command = replaced(command, "SECONDS", fmt::format("{:.1f}", seconds));
  // A world that hangs or hardly begins does not stop the others.
  command =
      fmt::format("timeout {:.0f} env {} 2>'{}'", 1.5 * seconds + 10, command, peers.error_file());
  std::FILE* const pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) throw SystemError("cannot start {}", command);
  std::size_t found = 0;
  std::array<char, 256> line{};
  while (std::fgets(line.data(), line.size(), pipe) != nullptr) {
    std::istringstream words(line.data());
    std::string word;
    ScalingCell cell;
    cell.way = way.name;
    cell.ranks = ranks;
    words >> word >> cell.operation >> cell.bytes >> cell.seconds >> cell.calls;
    if (!words || word != "cell" || cell.seconds <= 0) continue;
    results.cells.push_back(cell);
    ++found;
  }
  const int status = ::pclose(pipe);
  const std::string where = fmt::format("{}, {} ranks", way.name, ranks);
  const std::size_t all = scaling::kOperations.size() * scaling::kSizes.size();
  if (status != 0) {
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    results.left_out.push_back(fmt::format("{}: it ended with status {}{}: {}", where, code,
                                           code == 124 ? " (too slow)" : "", peers.last_error()));
  } else if (found < all) {
    results.left_out.push_back(
        fmt::format("{}: {} of {} cells, for want of time", where, all - found, all));
  }
}

// Larger worlds get more of the time.
double weight_of(int ranks) { return ranks <= 16 ? 1 : ranks / 16.0; }

Results measure_all(double seconds, int most_ranks) {
  Results results;
  results.processor = processor_name();
  results.cores = usable_cores().count;
  const Peers peers;
  std::vector<Way> ways = own_ways();
  peers.add_ways(ways, results.left_out);
  for (const Way& way : ways) results.ways.push_back(way.name);
  double weights = 0;
  for (const int ranks : scaling::kRanks) {
    if (ranks > most_ranks) continue;
    weights += static_cast<double>(ways.size()) * weight_of(ranks);
  }
  const auto begin = Clock::now();
  for (const int ranks : scaling::kRanks) {
    if (ranks > most_ranks) continue;
    for (const Way& way : ways) {
      const double left = std::max(seconds - seconds_since(begin), 0.0);
      const double share = left * weight_of(ranks) / weights;
      weights -= weight_of(ranks);
      const std::int64_t needed = ranks * scaling::kBytesOfRank;
      if (needed > available_memory().bytes / 10 * 9) {
        results.left_out.push_back(fmt::format("{}, {} ranks: {} MiB of memory are not free",
                                               way.name, ranks, needed >> 20));
        continue;
      }
      if (share < 0.5) {
        results.left_out.push_back(fmt::format("{}, {} ranks: the time is over", way.name, ranks));
        continue;
      }
      const auto world_begin = Clock::now();
      measure(way, ranks, share, peers, results);
      fmt::print(stderr, "{}, {} ranks: {:.1f} s, {:.1f} s were wanted for the cells\n", way.name,
                 ranks, seconds_since(world_begin), share);
    }
  }
  return results;
}

std::vector<ScalingCell> cells_of(const Results& results, const std::string& way,
                                  const std::string& operation) {
  std::vector<ScalingCell> cells;
  std::ranges::copy_if(results.cells, std::back_inserter(cells), [&](const ScalingCell& cell) {
    return cell.way == way && cell.operation == operation;
  });
  return cells;
}

Json to_json(const Results& results) {
  Json json = {{"processor", results.processor},
               {"cores", results.cores},
               {"ways", results.ways},
               {"left_out", results.left_out}};
  json["cells"] = Json::array();
  for (const ScalingCell& cell : results.cells) {
    json["cells"].push_back({{"way", cell.way},
                             {"operation", cell.operation},
                             {"ranks", cell.ranks},
                             {"bytes", cell.bytes},
                             {"seconds", cell.seconds},
                             {"calls", cell.calls}});
  }
  json["models"] = Json::array();
  for (const std::string& way : results.ways) {
    for (const char* operation : scaling::kOperations) {
      const std::vector<ScalingCell> cells = cells_of(results, way, operation);
      if (cells.empty()) continue;
      const ScalingModel model = fit_model(cells, results.cores);
      json["models"].push_back({{"way", way},
                                {"operation", operation},
                                {"steps", model.is_logarithmic ? "log2 n" : "n - 1"},
                                {"shares_cores", model.shares_cores},
                                {"a", model.a},
                                {"b", model.b},
                                {"c", model.c},
                                {"median_error", model.median_error},
                                {"worst_error", model.worst_error}});
    }
  }
  return json;
}

Results from_json(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw InputMissingError("--from {}: cannot be read", path);
  try {
    const Json json = Json::parse(file);
    Results results{.processor = json.at("processor"),
                    .cores = json.at("cores"),
                    .ways = json.at("ways"),
                    .cells = {},
                    .left_out = json.at("left_out")};
    for (const Json& cell : json.at("cells")) {
      results.cells.push_back({.way = cell.at("way"),
                               .operation = cell.at("operation"),
                               .ranks = cell.at("ranks"),
                               .bytes = cell.at("bytes"),
                               .seconds = cell.at("seconds"),
                               .calls = cell.at("calls")});
    }
    return results;
  } catch (const Json::exception& error) {
    throw DataError("--from {}: not a file of --json: {}", path, error.what());
  }
}

void write(const char* flag, const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file) throw OutputError("{} {}: cannot be written", flag, path);
}

void print_times(const Results& results, const std::string& operation) {
  fmt::print("\n{}, milliseconds:\n\n| bytes | ranks |", operation);
  for (const std::string& way : results.ways) fmt::print(" {} |", way);
  fmt::print("\n|--:|--:|");
  for (std::size_t i = 0; i < results.ways.size(); ++i) fmt::print("--:|");
  fmt::print("\n");
  for (const long bytes : scaling::kSizes) {
    for (const int ranks : scaling::kRanks) {
      fmt::print("| {} | {} |", bytes, ranks);
      for (const std::string& way : results.ways) {
        const auto cell = std::ranges::find_if(results.cells, [&](const ScalingCell& each) {
          return each.way == way && each.operation == operation && each.bytes == bytes &&
                 each.ranks == ranks;
        });
        if (cell == results.cells.end()) {
          fmt::print(" |");
        } else {
          fmt::print(" {:.3g} |", cell->seconds * 1e3);
        }
      }
      fmt::print("\n");
    }
  }
}

void print_models(const Json& json) {
  fmt::print(
      "\nTime = a + share * (b * steps + c * bytes * (n - 1) / n), of all sizes and numbers of "
      "ranks:\n\n| way | operation | steps | share | a, us | b, us | 1 / c, GB/s | median error | "
      "worst |\n|---|---|---|---|--:|--:|--:|--:|--:|\n");
  for (const Json& model : json.at("models")) {
    const auto number = [&](const char* key) { return model.at(key).get<double>(); };
    fmt::print("| {} | {} | {} | {} | {:.3g} | {:.3g} | {:.3g} | {:.0f} % | {:.0f} % |\n",
               model.at("way").get<std::string>(), model.at("operation").get<std::string>(),
               model.at("steps").get<std::string>(),
               model.at("shares_cores").get<bool>() ? "n / cores" : "1", number("a") * 1e6,
               number("b") * 1e6, number("c") > 0 ? 1e-9 / number("c") : 0.0,
               number("median_error") * 100, number("worst_error") * 100);
  }
}

}  // namespace

void run_scaling(const ScalingOptions& options) {
  const Results results = options.from.empty() ? measure_all(options.seconds, options.most_ranks)
                                               : from_json(options.from);
  const Json json = to_json(results);
  for (const std::string& reason : results.left_out) fmt::print("left out: {}\n", reason);
  fmt::print("{}, {} cores for all ranks together\n", results.processor, results.cores);
  for (const char* operation : scaling::kOperations) print_times(results, operation);
  print_models(json);
  if (!options.json.empty()) write("--json", options.json, json.dump(1) + "\n");
  if (!options.svg.empty()) {
    write("--svg", options.svg, scaling_picture(results.cells, results.ways));
  }
}

}  // namespace phalanx::bench
