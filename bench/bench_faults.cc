// How soon all know of a failure: a rank that is killed, one that is stopped, a network that is
// cut. A small model trains on ranks that are processes; the time is from the fault to the end of
// the last rank that is still there to hear of it. Across hosts with the rights to make networks
// alone: the hosts are network namespaces.

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "../tests/processes/child_process.h"
#include "../tests/processes/machine.h"
#include "bench_main.h"
#include "phalanx/base/error.h"

namespace phalanx {
namespace {

using namespace std::chrono_literals;
using processes::ChildProcess;
using processes::Hosts;
namespace fs = std::filesystem;

struct Options {
  int ranks = 3;
  int repetitions = 5;
};

constexpr auto kPatience = 120s;

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

// A directory with a tokenizer and data, removed at the end.
class Workshop {
 public:
  Workshop() : directory_(fs::temp_directory_path() / fmt::format("bench_faults_{}", ::getpid())) {
    fs::create_directories(directory_);
    std::ofstream text(directory_ / "text");
    for (int i = 0; i < 400; ++i) text << "And the " << i % 7 << " said unto " << i % 5 << ".\n\n";
    text.close();
    const std::string tokenizer = "--vocab-file tok/vocab.json --merge-file tok/merges.txt ";
    finish("train-tokenizer --input text --vocab-size 280 --output tok");
    finish(
        "preprocess-data --input text --split-on-blank-lines --append-eod --output-prefix data " +
        tokenizer);
    training_ =
        "pretrain gpt --num-layers 2 --hidden-size 32 --num-attention-heads 2 "
        "--seq-length 32 --max-position-embeddings 32 --micro-batch-size 1 --lr 1e-3 "
        "--train-iters 1000000 --lr-decay-iters 1000 --eval-iters 0 --split 100,0,0 "
        "--threads-per-rank 1 --no-cpu-affinity --rdzv-insecure --overwrite --save run "
        "--save-interval 1000000 --hang-timeout-s 5 --silence-timeout-s 5 "
        "--data-path data_text_document " +
        tokenizer;
  }
  ~Workshop() { fs::remove_all(directory_); }
  Workshop(const Workshop&) = delete;
  Workshop& operator=(const Workshop&) = delete;

  // A world of ranks that has begun to train; on hosts of their own, where there are any.
  std::vector<ChildProcess> train(int ranks, const Hosts* hosts) const {
    std::error_code ignored;
    fs::remove_all(directory_ / "run", ignored);
    std::vector<ChildProcess> world;
    for (int rank = 0; rank < ranks; ++rank) world.push_back(start(rank, ranks, hosts));
    const auto has_ended = [](ChildProcess& rank) { return rank.wait(0ms).has_value(); };
    const auto is_known = [&] { return has_begun() || std::ranges::any_of(world, has_ended); };
    if (!processes::eventually(kPatience, is_known) || !has_begun()) {
      throw Error(ErrorCode::kInternal, "the ranks do not train:\n" + world[0].err());
    }
    return world;
  }

 private:
  bool has_begun() const {
    std::ifstream file(directory_ / "run/metrics.jsonl");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    return std::count(text.begin(), text.end(), '\n') >= 10;
  }
  ChildProcess start(int rank, int ranks, const Hosts* hosts) const {
    const bool own = hosts != nullptr;
    return ChildProcess({.words = words_of(fmt::format("{} {} --global-batch-size {}",
                                                       PHALANX_PROGRAM, training_, ranks)),
                         .directory = directory_,
                         .name = fmt::format("rank_{}", rank),
                         .environment = {{"RANK", std::to_string(rank)},
                                         {"WORLD_SIZE", std::to_string(ranks)},
                                         {"LOCAL_RANK", std::to_string(own ? 0 : rank)},
                                         {"LOCAL_WORLD_SIZE", std::to_string(own ? 1 : ranks)},
                                         {"GROUP_RANK", std::to_string(own ? rank : 0)},
                                         {"MASTER_ADDR", own ? Hosts::address(0) : "127.0.0.1"},
                                         {"MASTER_PORT", "29555"}},
                         .host_of = own ? hosts->process(rank) : 0});
  }
  void finish(const std::string& command) const {
    ChildProcess child({.words = words_of(std::string(PHALANX_PROGRAM) + " " + command),
                        .directory = directory_,
                        .name = "preparation"});
    if (child.wait(kPatience) != 0) throw Error(ErrorCode::kInternal, child.err());
  }

  fs::path directory_;
  std::string training_;
};

// Seconds until all of them have ended.
double seconds_to_end(const std::vector<ChildProcess*>& world) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  for (ChildProcess* rank : world) {
    if (!rank->wait(kPatience)) {
      throw Error(ErrorCode::kHang, rank->name() + " has not heard of it:\n" + rank->err());
    }
  }
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void row(const Options& options, const std::string& name, const std::string& where,
         const std::function<double()>& measure) {
  std::vector<double> times;
  for (int i = 0; i < options.repetitions; ++i) times.push_back(measure());
  std::sort(times.begin(), times.end());
  fmt::print("{:<32} {:<12} {:>9.3f} s {:>9.3f} s\n", name, where, times[times.size() / 2],
             times.back());
  std::fflush(stdout);
}

// The last rank is the victim; all others are to hear of it.
double time_signal(const Workshop& workshop, const Options& options, const Hosts* hosts,
                   int signal) {
  std::vector<ChildProcess> world = workshop.train(options.ranks, hosts);
  std::vector<ChildProcess*> others;
  for (ChildProcess& rank : world) others.push_back(&rank);
  others.pop_back();
  world.back().signal(signal);
  return seconds_to_end(others);
}

// Both sides of the cut are to hear of it.
double time_cut(const Workshop& workshop, const Options& options,
                const std::function<void(const Hosts&)>& cut) {
  const Hosts hosts(options.ranks);
  std::vector<ChildProcess> world = workshop.train(options.ranks, &hosts);
  std::vector<ChildProcess*> all;
  for (ChildProcess& rank : world) all.push_back(&rank);
  cut(hosts);
  return seconds_to_end(all);
}

void run(const Options& options) {
  processes::make_own_machine();
  const Workshop workshop;
  fmt::print("{} ranks; until the last rank that hears of it has ended\n", options.ranks);
  fmt::print("{:<32} {:<12} {:>11} {:>11}\n", "fault", "ranks on", "median", "longest");
  row(options, "a rank is killed", "one host",
      [&] { return time_signal(workshop, options, nullptr, SIGKILL); });
  row(options, "a rank is stopped", "one host",
      [&] { return time_signal(workshop, options, nullptr, SIGSTOP); });
  if (!processes::has_own_machine()) {
    fmt::print("across hosts: skipped, needs CAP_NET_ADMIN and CAP_SYS_ADMIN\n");
    return;
  }
  const auto across = [&](int signal) {
    const Hosts hosts(options.ranks);
    return time_signal(workshop, options, &hosts, signal);
  };
  row(options, "a rank is killed", "their hosts", [&] { return across(SIGKILL); });
  row(options, "a rank is stopped", "their hosts", [&] { return across(SIGSTOP); });
  row(options, "a link goes down", "their hosts", [&] {
    return time_cut(workshop, options,
                    [&](const Hosts& hosts) { hosts.link_down(options.ranks - 1); });
  });
  row(options, "a link swallows everything", "their hosts", [&] {
    return time_cut(workshop, options,
                    [&](const Hosts& hosts) { hosts.swallow(options.ranks - 1); });
  });
}

}  // namespace
}  // namespace phalanx

int main(int argc, char** argv) {
  phalanx::Options options;
  std::int64_t ranks = options.ranks;
  std::int64_t repetitions = options.repetitions;
  const auto add = [&](phalanx::FlagSet& flags) {
    flags.add({.name = "--ranks", .help = "Processes", .range = phalanx::from_to(2, 64)}, &ranks);
    flags.add({.name = "--repetitions",
               .help = "Times that each fault happens",
               .range = phalanx::from_to(1, 1000)},
              &repetitions);
  };
  return phalanx::bench::bench_main(argc, argv, "bench_faults",
                                    "How soon all ranks know of a failure.", add, [&] {
                                      options.ranks = static_cast<int>(ranks);
                                      options.repetitions = static_cast<int>(repetitions);
                                      phalanx::run(options);
                                    });
}
