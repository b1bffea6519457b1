#include "phalanx/ops/named_devices.h"

#include <gtest/gtest.h>

#include <string>

#include "phalanx/cuda/lt_workspace.h"
#include "phalanx/ops/cuda_library.h"

namespace phalanx {
namespace {

TEST(NamedDevices, AreTheValuesOfDevice) {
  std::string names = "cpu cuda cuda-emulated";
  for (const NamedDevice& device : named_devices()) names += " " + std::string(device.name);
  EXPECT_EQ(kDeviceNames, names);
  ASSERT_NE(named_device("cuda:h100-80g"), nullptr);
  EXPECT_EQ(named_device("cuda:h100-80g")->memory_bytes, 80'000'000'000);
  for (const char* other : {"cpu", "cuda", "cuda-emulated", "cuda:", "cuda:h100"}) {
    EXPECT_EQ(named_device(other), nullptr) << other;
  }
}

// Kernels take what those of the shared object take; the library of products takes its own.
TEST(NamedDevices, HaveTheScratchOfTheBackend) {
  const auto emulated = cuda_interface(CudaMachine::kEmulated).workspace_sizes(0);
  Arena planning = Arena::planning("tensors");
  const auto tensor = [&](DType dtype, const Shape& shape) {
    return planning.allocate(dtype, shape);
  };
  const Tensor dy = tensor(DType::kBF16, {300, 24});
  const Tensor x = tensor(DType::kBF16, {300, 40});
  const ops::LinearWeightGradient product{
      .dweight = tensor(DType::kF32, {24, 40}), .dy = dy, .x = x};
  const std::int64_t of_emulated = emulated->workspace_bytes(product);
  const ops::BiasGradient bias{.dbias = tensor(DType::kF32, {24}), .dy = dy};
  const ops::EmbeddingGradient embedding{.dtable = tensor(DType::kF32, {50, 24}),
                                         .ids = tensor(DType::kI32, {3, 7}),
                                         .dy = tensor(DType::kBF16, {3, 7, 24})};
  for (const NamedDevice& device : named_devices()) {
    const auto sizes = workspace_sizes_of(device);
    const std::int64_t workspace = cuda::lt_workspace_bytes(device.major);
    EXPECT_EQ(workspace, std::int64_t{device.major < 9 ? 4 : 32} << 20);
    EXPECT_EQ(sizes->workspace_bytes(product), workspace) << device.name;
    EXPECT_LT(of_emulated, workspace);
    EXPECT_GT(sizes->workspace_bytes(bias), 0);
    EXPECT_EQ(sizes->workspace_bytes(bias), emulated->workspace_bytes(bias));
    EXPECT_GT(sizes->workspace_bytes(embedding), 0);
    EXPECT_EQ(sizes->workspace_bytes(embedding), emulated->workspace_bytes(embedding));
  }
}

}  // namespace
}  // namespace phalanx
