// record_digests FILE: writes what a device must give, as the emulated machine gives it
// (expected.txt).

#include <fmt/core.h>

#include "phalanx/base/error.h"
#include "phalanx/ops/cuda/check/expected.h"

int main(int count, char** arguments) {
  if (count != 2) {
    fmt::print(stderr, "usage: record_digests FILE\n");
    return 64;
  }
  try {
    phalanx::cuda::Workbench bench(0, std::int64_t{16} << 20);
    phalanx::cuda::write_expected(arguments[1], bench);
  } catch (const phalanx::Error& error) {
    fmt::print(stderr, "record_digests: {}\n", error.what());
    return error.exit_status();
  }
  return 0;
}
