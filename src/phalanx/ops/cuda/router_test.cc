// What router kernels do with logits that are no numbers.

#include "phalanx/ops/router.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "phalanx/base/progress.h"
#include "phalanx/base/test_support.h"
#include "phalanx/cuda/emulated/driver_control.h"
#include "phalanx/ops/balance.h"
#include "phalanx/ops/cuda/cuda_backend.h"
#include "phalanx/ops/cuda/device_memory.h"

namespace phalanx::cuda {
namespace {

template <typename T>
std::vector<T> read(Backend& backend, const Tensor& tensor) {
  std::vector<T> numbers(static_cast<std::size_t>(tensor.count()));
  backend.read_back(backend.queue(StreamKind::kCompute), tensor,
                    std::as_writable_bytes(std::span(numbers)));
  return numbers;
}

// They say so, count them as 0, and go on.
TEST(CudaRouter, LogitsThatAreNotFiniteAreAFault) {
  reset_driver();
  {
    const auto memory = device_memory(0);
    const auto backend = make_cuda_backend(0, note_progress);
    const phalanx::Queue queue = backend->queue(StreamKind::kCompute);
    Arena arena("numbers", 64 << 10, *memory);
    Arena workspace("workspace", 64 << 10, *memory);
    Context context{.backend = *backend, .workspace = workspace, .queue = queue};
    std::vector<float> z(6 * 4, 1.0F);
    z[3 * 4 + 3] = z[3 * 4 + 2] = z[3 * 4] = std::nanf("");
    z[5 * 4 + 1] = INFINITY;
    const Tensor logits = arena.allocate(DType::kF32, {6, 4});
    const Tensor experts = arena.allocate(DType::kI32, {6, 2});
    const Tensor probabilities = arena.allocate(DType::kF32, {6, 2});
    const Tensor counts = arena.allocate(DType::kI32, {1, 4});
    const Tensor sums = arena.allocate(DType::kF64, {1, 4});
    backend->upload(queue, logits, std::as_bytes(std::span(z)));
    const auto error = [&] {
      return error_of<InternalError>([&] { backend->throw_faults(queue); });
    };
    ops::router_forward(context,
                        {.experts = experts, .probabilities = probabilities, .logits = logits});
    EXPECT_THAT(error(), testing::HasSubstr(
                             "router_forward: the logit of expert 0 of 4 is not finite (row 3)"));
    EXPECT_EQ(error(), "no error");
    EXPECT_THAT(read<std::int32_t>(*backend, experts),
                testing::ElementsAre(0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 2));
    ops::balance_statistics(context,
                            {.counts = counts, .score_sums = sums, .logits = logits, .chosen = 2});
    EXPECT_THAT(read<std::int32_t>(*backend, counts), testing::ElementsAre(6, 5, 1, 0));
    ops::sinkhorn_choice(context, {.experts = experts, .logits = logits});
    EXPECT_THAT(error(), testing::HasSubstr(
                             "sinkhorn_choice: the logit of expert 0 of 4 is not finite (row 3)"));
  }
  reset_driver();
}

}  // namespace
}  // namespace phalanx::cuda
