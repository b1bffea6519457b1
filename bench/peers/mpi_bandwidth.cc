// The rows of bench_comm for MPI. Not part of the build; with Open MPI (Debian: libopenmpi-dev,
// openmpi-bin):
//
//   mpicxx -std=c++20 -O2 bench/peers/mpi_bandwidth.cc -o mpi_bandwidth
//   mpirun -np 2 ./mpi_bandwidth [MOST_BYTES]                                      # shared memory
//   mpirun -np 2 --mca pml ob1 --mca btl self,tcp ./mpi_bandwidth [MOST_BYTES]     # loopback TCP
//
// More ranks than cores: mpirun --oversubscribe. As root: --allow-run-as-root.
//
// `bench_comm --scaling` builds it too, and runs it with --cells SECONDS.

#include <mpi.h>

#include <cstdlib>
#include <string_view>

#include "../scaling_cells.h"
#include "peer_rows.h"

namespace {

void time_cells(int rank, int size, double seconds) {
  const long most = scaling::kSizes.back() / 4;
  std::vector<float> input(static_cast<std::size_t>(most), 0.0F);
  std::vector<float> output(static_cast<std::size_t>(most), 0.0F);
  const scaling::Timing timing{.rank = rank,
                               .seconds = seconds,
                               .agree =
                                   [](double number) {
                                     MPI_Bcast(&number, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
                                     return number;
                                   },
                               .barrier = [] { MPI_Barrier(MPI_COMM_WORLD); }};
  scaling::time_cells(timing, [&](const std::string& operation, long bytes) {
    const int all = static_cast<int>(bytes / 4), part = all / size;
    if (operation == "all_reduce") {
      MPI_Allreduce(MPI_IN_PLACE, input.data(), all, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    } else if (operation == "all_gather") {
      MPI_Allgather(input.data(), part, MPI_FLOAT, output.data(), part, MPI_FLOAT, MPI_COMM_WORLD);
    } else {
      MPI_Reduce_scatter_block(input.data(), output.data(), part, MPI_FLOAT, MPI_SUM,
                               MPI_COMM_WORLD);
    }
  });
}

}  // namespace

int main(int count, char** arguments) {
  MPI_Init(&count, &arguments);
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (count > 2 && std::string_view(arguments[1]) == "--cells") {
    time_cells(rank, size, std::atof(arguments[2]));
    MPI_Finalize();
    return 0;
  }
  const long most = count > 1 ? std::atol(arguments[1]) : 64L << 20;
  std::vector<float> input(static_cast<std::size_t>(most / 4), 0.0F);
  std::vector<float> output(static_cast<std::size_t>(most / 4 * size), 0.0F);
  const peers::Rows rows("MPI", rank, size, most, [] { MPI_Barrier(MPI_COMM_WORLD); });
  for (long bytes = peers::kFewestBytes; bytes <= most; bytes = peers::next_size(bytes)) {
    const int elements = static_cast<int>(bytes / 4);
    const int part = std::max(elements / size / 2 * 2, 2);
    rows.row("all_reduce", bytes, 1, [&] {
      MPI_Allreduce(MPI_IN_PLACE, input.data(), elements, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    });
    rows.row("reduce_scatter", part * 4L * size, 1, [&] {
      MPI_Reduce_scatter_block(input.data(), output.data(), part, MPI_FLOAT, MPI_SUM,
                               MPI_COMM_WORLD);
    });
    rows.row("all_gather", bytes, 1, [&] {
      MPI_Allgather(input.data(), elements, MPI_FLOAT, output.data(), elements, MPI_FLOAT,
                    MPI_COMM_WORLD);
    });
    rows.row("send/receive", bytes, 2, [&] {
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
