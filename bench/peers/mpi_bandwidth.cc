// The rows of bench_comm for MPI. Not part of the build; with Open MPI (Debian: libopenmpi-dev,
// openmpi-bin):
//
//   mpicxx -std=c++20 -O2 bench/peers/mpi_bandwidth.cc -o mpi_bandwidth
//   mpirun -np 2 ./mpi_bandwidth [MOST_BYTES]
//
// More ranks than cores: mpirun --oversubscribe.

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

namespace {

constexpr long kFewestBytes = 8;
constexpr long kRowBytes = 1L << 30;

int repetitions(long bytes) { return static_cast<int>(std::clamp(kRowBytes / bytes, 11L, 2001L)); }

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

}  // namespace

int main(int count, char** arguments) {
  MPI_Init(&count, &arguments);
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const long most = count > 1 ? std::atol(arguments[1]) : 64L << 20;
  std::vector<float> input(static_cast<std::size_t>(most / 4), 0.0F);
  std::vector<float> output(static_cast<std::size_t>(most / 4 * size), 0.0F);

  double memcpy_rate = 0.0;
  if (rank == 0) {
    memcpy_rate = static_cast<double>(most) / time_it(repetitions(most), [&] {
                    std::memcpy(output.data(), input.data(), static_cast<std::size_t>(most));
                  });
    std::printf("MPI, %d ranks, f32; memcpy %.2f GB/s\n", size, memcpy_rate * 1e-9);
    std::printf("%-16s %12s %12s %10s %12s\n", "op", "bytes", "median us", "GB/s", "of memcpy");
  }
  MPI_Barrier(MPI_COMM_WORLD);
  const auto row = [&](const char* op, long bytes, int messages,
                       const std::function<void()>& body) {
    const double seconds = time_it(repetitions(bytes), body) / messages;
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank != 0) return;
    const double rate = static_cast<double>(bytes) / seconds;
    std::printf("%-16s %12ld %12.2f %10.3f %12.2f\n", op, bytes, seconds * 1e6, rate * 1e-9,
                rate / memcpy_rate);
    std::fflush(stdout);
  };
  for (long bytes = kFewestBytes; bytes <= most; bytes = bytes == kFewestBytes ? 1024 : bytes * 4) {
    const int elements = static_cast<int>(bytes / 4);
    const int part = std::max(elements / size / 2 * 2, 2);
    row("all_reduce", bytes, 1, [&] {
      MPI_Allreduce(MPI_IN_PLACE, input.data(), elements, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    });
    row("reduce_scatter", part * 4L * size, 1, [&] {
      MPI_Reduce_scatter_block(input.data(), output.data(), part, MPI_FLOAT, MPI_SUM,
                               MPI_COMM_WORLD);
    });
    row("all_gather", bytes, 1, [&] {
      MPI_Allgather(input.data(), elements, MPI_FLOAT, output.data(), elements, MPI_FLOAT,
                    MPI_COMM_WORLD);
    });
    row("send/receive", bytes, 2, [&] {
      if (rank == 0) {
        MPI_Send(input.data(), elements, MPI_FLOAT, 1, 0, MPI_COMM_WORLD);
        MPI_Recv(output.data(), elements, MPI_FLOAT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      } else if (rank == 1) {
        MPI_Recv(output.data(), elements, MPI_FLOAT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(input.data(), elements, MPI_FLOAT, 0, 0, MPI_COMM_WORLD);
      }
    });
  }
  MPI_Finalize();
  return 0;
}
