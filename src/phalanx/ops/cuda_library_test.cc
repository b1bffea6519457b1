// The shared object with the emulated machine, as the program opens it.

#include "phalanx/ops/cuda_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "phalanx/base/progress.h"
#include "phalanx/base/test_support.h"
#include "phalanx/ops/device_choice.h"

namespace phalanx {
namespace {

TEST(CudaLibrary, RunsOps) {
  const CudaInterface& cuda = cuda_interface(CudaMachine::kEmulated);
  EXPECT_EQ(&cuda, &cuda_interface(CudaMachine::kEmulated));
  ASSERT_EQ(cuda.device_count(), 1);
  EXPECT_EQ(cuda.facts(0).name, "emulated");
  const auto memory = cuda.device_memory(0);
  const auto backend = cuda.backend(0, note_progress);
  Arena tensors("tensors", 1024, *memory);
  Arena workspace("workspace", 1024, *memory);
  Context context{.backend = *backend, .workspace = workspace};
  const Tensor x = tensors.allocate(DType::kF32, {3});
  Progress progress;
  {
    const ProgressScope scope(&progress);
    ops::fill(context, {.x = x, .value = 2.5});
    ops::scale(context, {.y = x, .x = x, .factor = -2.0});
  }
  // Of this program, not of the shared object.
  EXPECT_EQ(progress.ticks(), 2U);
  std::vector<float> values(3);
  backend->read_back(context.queue, x, std::as_writable_bytes(std::span(values)));
  EXPECT_EQ(values, std::vector<float>(3, -5.0F));
}

TEST(CudaLibrary, ErrorsHaveTheirClasses) {
  const CudaInterface& cuda = cuda_interface(CudaMachine::kEmulated);
  EXPECT_THAT(error_of<UnavailableError>([&] { cuda.backend(7, note_progress); }),
              testing::HasSubstr("there is no CUDA device 7"));
  const auto memory = cuda.device_memory(0);
  const auto backend = cuda.backend(0, note_progress);
  Arena tensors("tensors", 1024, *memory);
  const Tensor strided = tensors.allocate(DType::kU8, {4, 4}).slice(1, 0, 2);
  EXPECT_THAT(error_of<InternalError>([&] { backend->read_later({}, strided); }),
              testing::HasSubstr("a strided tensor"));
}

// Other reasons are seen by programs (tests/device_commands_test.cc).
TEST(CudaLibrary, ARankWithoutADeviceIsTold) {
  expect_device({.machine = CudaMachine::kEmulated, .device = 0});
  EXPECT_EQ(error_of<UnavailableError>(
                [] { expect_device({.machine = CudaMachine::kEmulated, .device = 1}); }),
            "--device cuda: LOCAL_RANK 1 computes on device 1, and the driver shows 1: start as "
            "many ranks on a host as it has devices");
}

TEST(CudaLibrary, PlansWithoutRunning) {
  const CudaInterface& cuda = cuda_interface(CudaMachine::kEmulated);
  const auto sizes = cuda.workspace_sizes(0);
  Arena planning = Arena::planning("tensors");
  const ops::LinearInputGradient op{.dx = planning.allocate(DType::kF32, {4, 8}),
                                    .dy = planning.allocate(DType::kF32, {4, 3}),
                                    .weight = planning.allocate(DType::kF32, {3, 8})};
  EXPECT_EQ(sizes->workspace_bytes(op), cuda.backend(0, note_progress)->workspace_bytes(op));
  EXPECT_GT(sizes->workspace_bytes(op), 0);
}

TEST(CudaLibrary, OfAnotherVersionIsRefused) {
  EXPECT_EQ(error_of<SystemError>([] { open_cuda_interface(CudaMachine::kEmulated, 99); }),
            "The emulated CUDA device: libphalanx_cuda_emulated.so does not have version 99 of the "
            "interface that this program needs; build target phalanx_cuda_emulated again");
}

}  // namespace
}  // namespace phalanx
