// The rows of bench_comm for Gloo, which talks TCP within a host too. Not part of the build; with
// Debian's Gloo (libgloo-dev):
//
//   g++ -std=c++20 -O2 bench/peers/gloo_bandwidth.cc -lgloo -lpthread -o gloo_bandwidth
//   ./gloo_bandwidth [RANKS [MOST_BYTES]]
//
// It starts its ranks itself, as processes; they meet through files in a temporary directory.
// `bench_comm --scaling` builds it too, and runs it with RANKS --cells SECONDS.

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <filesystem>
#include <memory>
#include <string_view>

#include "../scaling_cells.h"
#include "peer_rows.h"

namespace {

void add_all(const std::shared_ptr<gloo::Context>& context, float* data, std::size_t elements) {
  gloo::AllreduceOptions options(context);
  options.setOutput(data, elements);
  options.setReduceFunction(
      static_cast<void (*)(void*, const void*, const void*, std::size_t)>(&gloo::sum<float>));
  gloo::allreduce(options);
}

void time_cells(const std::shared_ptr<gloo::rendezvous::Context>& context, double seconds) {
  const long most = scaling::kSizes.back() / 4;
  const int size = context->size;
  std::vector<float> input(static_cast<std::size_t>(most), 0.0F);
  std::vector<float> output(static_cast<std::size_t>(most), 0.0F);
  const scaling::Timing timing{.rank = context->rank,
                               .seconds = seconds,
                               .agree =
                                   [&](double number) {
                                     gloo::BroadcastOptions options(context);
                                     options.setOutput(&number, 1);
                                     options.setRoot(0);
                                     gloo::broadcast(options);
                                     return number;
                                   },
                               .barrier =
                                   [&] {
                                     gloo::BarrierOptions options(context);
                                     gloo::barrier(options);
                                   }};
  // Its reduce-scatter is made for a size.
  std::unique_ptr<gloo::ReduceScatterHalvingDoubling<float>> scatter;
  long scattered = 0;
  scaling::time_cells(timing, [&](const std::string& operation, long bytes) {
    const auto all = static_cast<std::size_t>(bytes / 4);
    const std::size_t part = all / static_cast<std::size_t>(size);
    if (operation == "all_reduce") {
      add_all(context, input.data(), all);
    } else if (operation == "all_gather") {
      gloo::AllgatherOptions options(context);
      options.setInput(input.data(), part);
      options.setOutput(output.data(), all);
      gloo::allgather(options);
    } else {
      if (scattered != bytes) {
        scatter = std::make_unique<gloo::ReduceScatterHalvingDoubling<float>>(
            context, std::vector<float*>{input.data()}, static_cast<int>(all),
            std::vector<int>(static_cast<std::size_t>(size), static_cast<int>(part)));
        scattered = bytes;
      }
      scatter->run();
    }
  });
}

// `seconds`: of all cells; 0: all rows.
void run_rank(int rank, int size, long most, const std::string& directory, double seconds) {
  gloo::rendezvous::FileStore store(directory);
  const auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
  auto device = gloo::transport::tcp::CreateDevice("127.0.0.1");
  context->connectFullMesh(store, device);
  if (seconds > 0) return time_cells(context, seconds);
  std::vector<float> input(static_cast<std::size_t>(most / 4), 0.0F);
  std::vector<float> output(static_cast<std::size_t>(most / 4 * size), 0.0F);

  const peers::Rows rows("Gloo", rank, size, most, [&] {
    gloo::BarrierOptions options(context);
    gloo::barrier(options);
  });
  for (long bytes = peers::kFewestBytes; bytes <= most; bytes = peers::next_size(bytes)) {
    const auto elements = static_cast<std::size_t>(bytes / 4);
    rows.row("all_reduce", bytes, 1, [&] { add_all(context, input.data(), elements); });
    const auto part = std::max<std::size_t>(elements / static_cast<std::size_t>(size) / 2 * 2, 2);
    gloo::ReduceScatterHalvingDoubling<float> scatter(
        context, {input.data()}, static_cast<int>(part) * size,
        std::vector<int>(static_cast<std::size_t>(size), static_cast<int>(part)));
    rows.row("reduce_scatter", static_cast<long>(part) * 4 * size, 1, [&] { scatter.run(); });
    rows.row("all_gather", bytes, 1, [&] {
      gloo::AllgatherOptions options(context);
      options.setInput(input.data(), elements);
      options.setOutput(output.data(), elements * static_cast<std::size_t>(size));
      gloo::allgather(options);
    });
    const auto from = context->createUnboundBuffer(input.data(), elements * 4);
    const auto to = context->createUnboundBuffer(output.data(), elements * 4);
    constexpr int kTag = 1 << 20;
    rows.row("send/receive", bytes, 2, [&] {
      if (rank == 0) {
        from->send(1, kTag);
        to->recv(1, kTag);
        from->waitSend();
        to->waitRecv();
      } else if (rank == 1) {
        to->recv(0, kTag);
        to->waitRecv();
        from->send(0, kTag);
        from->waitSend();
      }
    });
  }
}

}  // namespace

int main(int count, char** arguments) {
  const int ranks = count > 1 ? std::atoi(arguments[1]) : 2;
  const bool has_cells = count > 3 && std::string_view(arguments[2]) == "--cells";
  const double seconds = has_cells ? std::atof(arguments[3]) : 0.0;
  const long most = count > 2 && !has_cells ? std::atol(arguments[2]) : 64L << 20;
  std::string directory = (std::filesystem::temp_directory_path() / "gloo_XXXXXX").string();
  if (ranks < 2 || most < 1024 || ::mkdtemp(directory.data()) == nullptr) return 64;
  for (int rank = 0; rank < ranks; ++rank) {
    if (::fork() != 0) continue;
    try {
      run_rank(rank, ranks, most, directory, seconds);
      std::_Exit(0);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "gloo_bandwidth: rank %d: %s\n", rank, error.what());
      std::_Exit(70);
    }
  }
  int result = 0, status = 0;
  while (::wait(&status) > 0) {
    if (status != 0) result = 70;
  }
  std::filesystem::remove_all(directory);
  return result;
}
