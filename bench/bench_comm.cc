// Messages between ranks that are threads, or processes by shared memory or loopback TCP: latency
// of small ones and bandwidth of large ones, beside what memcpy reaches in the same run.
// bench/peers/ has programs that print the same rows for MPI and Gloo.
//
// GB/s is the payload of one rank (its input; for a message, the message) over the median time, by
// rank 0's clock, of calls that follow each other; a message's time is half of there and back.

#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bench_main.h"
#include "comm_scaling.h"
#include "phalanx/base/error.h"
#include "phalanx/comm/local/local_world.h"
#include "phalanx/comm/ucx/ucx_world.h"
#include "phalanx/ops/ref/ref_backend.h"
#include "phalanx/rendezvous/coordinator.h"
#include "phalanx/rendezvous/member.h"
#include "scaling_cells.h"

namespace phalanx {
namespace {

struct Options {
  std::string transport = "threads";  // shared-memory, tcp: processes
  int ranks = 2;
  int threads = 1;  // of each rank
  std::string dtype = "f32";
  std::int64_t most_bytes = std::int64_t{64} << 20;
  double cells_seconds = 0;  // times the cells of --scaling instead, at most for so long
};

constexpr std::int64_t kFewestBytes = 8;
constexpr std::int64_t kRowBytes = std::int64_t{1} << 30;  // that a row moves, roughly

int repetitions(std::int64_t bytes) {
  return static_cast<int>(std::clamp<std::int64_t>(kRowBytes / bytes, 11, 2001));
}

// Median seconds of a call.
double time_it(int count, const std::function<void()>& body) {
  using Clock = std::chrono::steady_clock;
  constexpr int kWarmUp = 3;
  std::vector<double> times;
  for (int i = -kWarmUp; i < count; ++i) {
    const auto begin = Clock::now();
    body();
    if (i >= 0) times.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  std::nth_element(times.begin(), times.begin() + count / 2, times.end());
  return times[static_cast<std::size_t>(count / 2)];
}

// Bytes copied per second, by one thread.
double memcpy_bandwidth(std::int64_t bytes) {
  Arena arena("memcpy", 2 * bytes);
  const Tensor a = arena.allocate(DType::kU8, {bytes}), b = arena.allocate(DType::kU8, {bytes});
  std::memset(a.data(), 1, static_cast<std::size_t>(bytes));
  const double seconds = time_it(repetitions(bytes), [&] {
    std::memcpy(b.data(), a.data(), static_cast<std::size_t>(bytes));
  });
  return static_cast<double>(bytes) / seconds;
}

// One rank's side of all rows.
class Side {
 public:
  Side(Communicator& world, const Options& options, double memcpy_rate)
      : world_(world),
        options_(options),
        memcpy_rate_(memcpy_rate),
        arena_("tensors", (world.size() + 1) * (options.most_bytes + kArenaAlignment)) {
    input_ = arena_.allocate(DType::kU8, {options.most_bytes});
    output_ = arena_.allocate(DType::kU8, {world.size() * options.most_bytes});
    std::memset(input_.data(), 0, static_cast<std::size_t>(input_.bytes()));
    std::memset(output_.data(), 0, static_cast<std::size_t>(output_.bytes()));
  }

  void run() {
    for (std::int64_t bytes = kFewestBytes; bytes <= options_.most_bytes;
         bytes = bytes == kFewestBytes ? 1024 : bytes * 4) {
      // A multiple of every element size.
      const std::int64_t part = std::max<std::int64_t>(bytes / world_.size() / 8 * 8, 8);
      row("all_reduce", bytes, 1,
          [&] { return world_.all_reduce(context_, typed(input_, bytes), Reduction::kSum); });
      row("reduce_scatter", part * world_.size(), 1, [&] {
        return world_.reduce_scatter(context_, typed(output_, part),
                                     typed(input_, part * world_.size()), Reduction::kSum);
      });
      row("all_gather", bytes, 1, [&] {
        return world_.all_gather(context_, typed(output_, bytes * world_.size()),
                                 typed(input_, bytes));
      });
      row("send/receive", bytes, 2, [&] { return ping_pong(bytes); });
    }
  }

 private:
  static Tensor first(const Tensor& tensor, std::int64_t bytes) {
    return tensor.slice(0, 0, bytes);
  }
  Tensor typed(const Tensor& tensor, std::int64_t bytes) const {
    const DType dtype = *dtype_from_name(options_.dtype);
    return dense_tensor(*tensor.arena, tensor.offset, dtype, {bytes / size_of(dtype)});
  }

  Work ping_pong(std::int64_t bytes) {
    const Tensor tensor = first(input_, bytes), answer = first(output_, bytes);
    if (world_.rank() == 0) {
      world_.send(context_, tensor, 1, 0).wait(context_.queue);
      return world_.receive(context_, answer, 1, 0);
    }
    if (world_.rank() > 1) return {};
    world_.receive(context_, answer, 0, 0).wait(context_.queue);
    return world_.send(context_, tensor, 0, 0);
  }

  void row(const char* op, std::int64_t bytes, int messages, const std::function<Work()>& start) {
    const double seconds =
        time_it(repetitions(bytes), [&] { start().wait(context_.queue); }) / messages;
    world_.barrier(context_);
    if (world_.rank() != 0) return;
    const double rate = static_cast<double>(bytes) / seconds;
    fmt::print("{:<16} {:>12} {:>12.2f} {:>10.3f} {:>12.2f}\n", op, bytes, seconds * 1e6,
               rate * 1e-9, rate / memcpy_rate_);
    std::fflush(stdout);
  }

  Communicator& world_;
  const Options& options_;
  double memcpy_rate_;
  Arena arena_;
  Arena workspace_{"workspace", 1 << 12};
  std::unique_ptr<Backend> backend_ = make_ref_backend();
  Context context_{.backend = *backend_, .workspace = workspace_};
  Tensor input_, output_;
};

// One rank's side of the cells of --scaling.
void time_cells(Communicator& world, double seconds) {
  constexpr std::int64_t kMost = scaling::kSizes.back();
  Arena arena("tensors", 2 * kMost + 4 * kArenaAlignment);
  Arena workspace("workspace", 1 << 12);
  const std::unique_ptr<Backend> backend = make_ref_backend();
  Context context{.backend = *backend, .workspace = workspace};
  const Tensor number = arena.allocate(DType::kF64, {1});
  const Tensor input = arena.allocate(DType::kF32, {kMost / 4});
  const Tensor output = arena.allocate(DType::kF32, {kMost / 4});
  std::memset(input.data(), 0, static_cast<std::size_t>(kMost));
  std::memset(output.data(), 0, static_cast<std::size_t>(kMost));
  const scaling::Timing timing{.rank = world.rank(),
                               .seconds = seconds,
                               .agree =
                                   [&](double of_first) {
                                     number.span<double>()[0] = of_first;
                                     world.broadcast(context, number, 0).wait(context.queue);
                                     return number.span<double>()[0];
                                   },
                               .barrier = [&] { world.barrier(context); }};
  scaling::time_cells(timing, [&](const std::string& operation, std::int64_t bytes) {
    const Tensor all = input.slice(0, 0, bytes / 4), other = output.slice(0, 0, bytes / 4);
    const Tensor part = output.slice(0, 0, bytes / 4 / world.size());
    if (operation == "all_reduce") {
      world.all_reduce(context, all, Reduction::kSum).wait(context.queue);
    } else if (operation == "all_gather") {
      world.all_gather(context, other, input.slice(0, 0, part.count())).wait(context.queue);
    } else {
      world.reduce_scatter(context, part, all, Reduction::kSum).wait(context.queue);
    }
  });
}

double begin_table(const Options& options) {
  const double memcpy_rate = memcpy_bandwidth(options.most_bytes);
  fmt::print("{}, {} ranks of {} threads, {}; memcpy {:.2f} GB/s\n", options.transport,
             options.ranks, options.threads, options.dtype, memcpy_rate * 1e-9);
  fmt::print("{:<16} {:>12} {:>12} {:>10} {:>12}\n", "op", "bytes", "median us", "GB/s",
             "of memcpy");
  std::fflush(stdout);
  return memcpy_rate;
}

void run_threads(const Options& options) {
  const double memcpy_rate = options.cells_seconds > 0 ? 0.0 : begin_table(options);
  const auto world = make_local_world(options.ranks, {.threads_per_rank = options.threads});
  std::vector<std::jthread> threads;
  for (const auto& end : world) {
    threads.emplace_back([&options, &end, memcpy_rate] {
      try {
        if (options.cells_seconds > 0) {
          time_cells(*end, options.cells_seconds);
        } else {
          Side(*end, options, memcpy_rate).run();
        }
      } catch (const Error& error) {
        fmt::print(stderr, "bench_comm: rank {}: {}\n", end->rank(), error.what());
        end->abort(error.what());
      }
    });
  }
}

// Ranks that are processes find each other as those of a training run do.
Endpoint meeting_place() {
  return {.kind = Endpoint::Kind::kUnix,
          .name = fmt::format("phalanx-bench-{}", ::getpid()),
          .host = "",
          .port = 0};
}

// By TCP: every rank says that it is on a host of its own.
LaunchEnvironment place_of(int rank, const Options& options, const Endpoint& endpoint) {
  const bool has_own_host = options.transport == "tcp";
  LaunchEnvironment place;
  place.source = "bench_comm";
  place.rank = rank;
  place.world_size = options.ranks;
  place.node = has_own_host ? rank : 0;
  place.local_rank = has_own_host ? 0 : rank;
  place.local_size = has_own_host ? 1 : options.ranks;
  place.run_id = "bench_comm";
  place.endpoint = endpoint;
  return place;
}

void run_rank(int rank, const Options& options, const Endpoint& endpoint) {
  const std::unique_ptr<Member> member =
      Member::join({.environment = place_of(rank, options, endpoint), .secret = {}});
  UcxOptions transport;
  transport.threads_per_rank = options.threads;
  if (options.transport == "tcp") transport.network_device = "lo";
  const auto world = make_ucx_world(rank, member->places(), transport, *member, *member);
  if (options.cells_seconds > 0) {
    time_cells(*world, options.cells_seconds);
    member->leave();
    return;
  }
  double memcpy_rate = 0.0;
  if (rank == 0) {
    member->begin_busy("measuring memcpy");
    memcpy_rate = begin_table(options);
    member->end_busy();
  }
  Side(*world, options, memcpy_rate).run();
  member->leave();
}

int run_and_report(int rank, const Options& options, const Endpoint& endpoint) {
  try {
    run_rank(rank, options, endpoint);
    return 0;
  } catch (const Error& error) {
    fmt::print(stderr, "bench_comm: rank {}: {}\n", rank, error.what());
    return error.exit_status();
  }
}

// Children first: a process with threads is not forked.
void run_processes(const Options& options) {
  const Endpoint endpoint = meeting_place();
  std::vector<pid_t> children;
  for (int rank = 0; rank < options.ranks; ++rank) {
    const pid_t child = ::fork();
    if (child < 0) throw SystemError("cannot start a process for each rank");
    if (child == 0) std::_Exit(run_and_report(rank, options, endpoint));
    children.push_back(child);
  }
  CoordinatorOptions coordinator;
  coordinator.endpoint = endpoint;
  coordinator.run_id = "bench_comm";
  coordinator.world_size = options.ranks;
  const Coordinator meeting(coordinator);
  bool is_well = true;
  for (const pid_t child : children) {
    int status = 0;
    is_well = ::waitpid(child, &status, 0) == child && status == 0 && is_well;
  }
  if (!is_well) throw Error(ErrorCode::kTemporary, "a rank failed");
}

void run(const Options& options) {
  if (options.transport == "threads") {
    run_threads(options);
  } else {
    run_processes(options);
  }
}

}  // namespace
}  // namespace phalanx

int main(int argc, char** argv) {
  phalanx::Options options;
  phalanx::bench::ScalingOptions scaling;
  std::int64_t ranks = options.ranks;
  std::int64_t most_ranks = scaling.most_ranks;
  std::int64_t threads = options.threads;
  const auto add = [&](phalanx::FlagSet& flags) {
    flags.add({.name = "--transport",
               .help = "Ranks are threads, or processes that talk by shared memory or TCP",
               .choices = "threads shared-memory tcp"},
              &options.transport);
    flags.add({.name = "--ranks", .help = "Ranks", .range = phalanx::from_to(2, 1024)}, &ranks);
    flags.add(
        {.name = "--threads", .help = "Threads of each rank", .range = phalanx::from_to(1, 1024)},
        &threads);
    flags.add({.name = "--dtype", .help = "Type of what is reduced", .choices = "f64 f32 bf16 f16"},
              &options.dtype);
    flags.add({.name = "--most-bytes",
               .help = "Largest payload",
               .range = phalanx::from_to(65536, 4294967296.0)},
              &options.most_bytes);
    flags.add(
        {.name = "--scaling",
         .help = "Instead: all_reduce, all_gather and reduce_scatter of 2 to 64 ranks in all "
                 "ways, and Open MPI and Gloo where they are installed, with a model of each"},
        &scaling.is_wanted);
    flags.add({.name = "--scaling-seconds",
               .help = "How long --scaling may measure",
               .range = phalanx::from_to(30, 36000)},
              &scaling.seconds);
    flags.add({.name = "--most-ranks",
               .help = "Ranks of the largest world of --scaling",
               .range = phalanx::from_to(2, 64)},
              &most_ranks);
    flags.add(
        {.name = "--from", .help = "Reads the cells from a file of --json instead of measuring"},
        &scaling.from);
    flags.add({.name = "--json", .help = "Writes the cells and the models to a file"},
              &scaling.json);
    flags.add({.name = "--svg", .help = "Draws the cells into a file"}, &scaling.svg);
    flags.add({.name = "--cells",
               .help = "Times the cells of --scaling in this one way for so many seconds, a line "
                       "each, for programs",
               .range = phalanx::from_to(0, 36000)},
              &options.cells_seconds);
  };
  return phalanx::bench::bench_main(
      argc, argv, "bench_comm", "Latency and bandwidth of messages between ranks of one machine.",
      add, [&] {
        options.ranks = static_cast<int>(ranks);
        options.threads = static_cast<int>(threads);
        const bool has_files =
            !scaling.from.empty() || !scaling.json.empty() || !scaling.svg.empty();
        if (has_files && !scaling.is_wanted) {
          throw phalanx::UsageError("--from, --json and --svg belong to --scaling");
        }
        scaling.most_ranks = static_cast<int>(most_ranks);
        if (scaling.is_wanted) {
          phalanx::bench::run_scaling(scaling);
        } else {
          phalanx::run(options);
        }
      });
}
