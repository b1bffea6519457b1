// The rows of bench_comm for MPI. Not part of the build; with Open MPI (Debian: libopenmpi-dev,
// openmpi-bin):
//
//   mpicxx -std=c++20 -O2 bench/peers/mpi_bandwidth.cc -o mpi_bandwidth
//   mpirun -np 2 ./mpi_bandwidth [MOST_BYTES]                                      # shared memory
//   mpirun -np 2 --mca pml ob1 --mca btl self,tcp ./mpi_bandwidth [MOST_BYTES]     # loopback TCP
//
// More ranks than cores: mpirun --oversubscribe. As root: --allow-run-as-root.

#include <mpi.h>

#include <cstdlib>

#include "peer_rows.h"

int main(int count, char** arguments) {
  MPI_Init(&count, &arguments);
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
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
