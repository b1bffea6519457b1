// A rank on the emulated device enqueues a step before it knows the numbers of the one before.

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <ranges>
#include <vector>

#include "phalanx/base/progress.h"
#include "phalanx/base/text_batches.h"
#include "phalanx/comm/local/local_ranks.h"
#include "phalanx/cuda/emulated/driver_control.h"
#include "phalanx/data/host_batch.h"
#include "phalanx/families/family.h"
#include "phalanx/flag_table/test_support.h"
#include "phalanx/ops/cuda/cuda_backend.h"
#include "phalanx/ops/cuda/device_memory.h"
#include "phalanx/rehearsal/memory_plan.h"
#include "phalanx/rules/resolve.h"
#include "phalanx/settings/config_views.h"

namespace phalanx {
namespace {

constexpr std::int64_t kVocabulary = 50;
constexpr int kSteps = 5;

TrainConfig tiny_config() {
  TrainConfig c = with_flags(
      {},
      "--num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 8 "
      "--max-position-embeddings 8 --micro-batch-size 1 --global-batch-size 2 --threads-per-rank 1 "
      "--train-iters 5 --log-params-norm --log-num-zeros-in-grad --device cuda-emulated");
  resolve(c, false);
  return c;
}

HostBatch batch_of(const TrainConfig& c) {
  HostBatch batch(gpt_batch_schema(c.data.seq_length), c.layout.micro_batch_size);
  const auto tokens = batch.column<std::int32_t>("tokens");
  const std::ranges::iota_view places(0, static_cast<std::int32_t>(tokens.size()));
  for (const char* name : {"tokens", "position_ids", "position"}) {
    std::ranges::copy(places, batch.column<std::int32_t>(name).begin());
  }
  std::ranges::transform(tokens, batch.column<std::int32_t>("labels").begin(),
                         [](std::int32_t token) { return token + 1; });
  std::ranges::fill(batch.column<float>("loss_mask"), 1.0F);
  return batch;
}

class RunningAhead : public testing::Test {
 protected:
  RunningAhead() { cuda::reset_driver(); }
  ~RunningAhead() override { cuda::reset_driver(); }

  // A rank with drawn weights, on the device.
  template <typename Body>
  void with_rank(const Body& body) {
    run_local_ranks(1, {}, [&](Communicator& world) {
      const RankCommunicators ranks(parallel_grids(config_.layout), world);
      const StepPrograms programs = step_programs(config_);
      const auto model = make_model(config_, kVocabulary);
      const DeviceChoice planned{.cuda = CudaPlace{CudaMachine::kEmulated, 0}};
      const auto memory = cuda::device_memory(0);
      RankArenas arenas(plan_memory(config_, *model, programs, world.rank(), planned).bytes,
                        *memory);
      const auto backend = make_cuda_backend(0, note_progress);
      Rank rank(config_, *model, programs, ranks, *backend, arenas);
      rank.initialise();
      body(rank);
    });
  }

  StepSchedule schedule(int step) const { return {.lr = 1e-2, .adam_step = step}; }
  BatchSource source() const {
    return [this](int /*microbatch*/) -> const HostBatch& { return batch_; };
  }

  const TrainConfig config_ = tiny_config();
  const HostBatch batch_ = batch_of(config_);
};

void expect_same(const StepResult& a, const StepResult& b) {
  EXPECT_EQ(a.loss(), b.loss());
  EXPECT_EQ(a.tokens(), b.tokens());
  EXPECT_EQ(a.grad_norm, b.grad_norm);
  EXPECT_EQ(a.zeros_in_grad, b.zeros_in_grad);
  EXPECT_EQ(a.parameters_norm, b.parameters_norm);
  EXPECT_EQ(a.skipped, b.skipped);
}

// All passes of a step are enqueued before anybody waits, and the only wait of a step is the one
// for the numbers of the step before. They are those of steps that wait for their own.
TEST_F(RunningAhead, WaitsOnceAStep) {
  std::vector<StepResult> expected;
  with_rank([&](Rank& rank) {
    for (int step = 1; step <= kSteps; ++step) {
      expected.push_back(rank.train_step(schedule(step), source()));
    }
  });
  EXPECT_LT(expected.back().loss(), expected.front().loss());
  cuda::reset_driver();
  with_rank([&](Rank& rank) {
    std::vector<StepResult> results;
    std::optional<StepsUnderWay> before;
    for (int step = 1; step <= kSteps; ++step) {
      // The rate before the update is asked for does not matter.
      const StepSchedule provisional{.lr = 1e3, .adam_step = 100};
      const StepSchedule settled = schedule(step);
      const std::int64_t waits = cuda::host_waits();
      const UpdateSource updates = [&]() -> std::optional<std::span<const StepSchedule>> {
        if (step > 1) {
          EXPECT_EQ(cuda::host_waits(), waits);
          results.push_back(before->wait().front());
          EXPECT_EQ(cuda::host_waits(), waits + 1);
        }
        return std::span(&settled, 1);
      };
      StepsUnderWay now =
          rank.begin_training({&provisional, 1}, source(), nullptr, nullptr, updates);
      if (step > 1) {
        EXPECT_EQ(cuda::host_waits(), waits + 1);
      }
      before = std::move(now);
    }
    results.push_back(before->wait().front());
    ASSERT_EQ(results.size(), expected.size());
    for (std::size_t i = 0; i < results.size(); ++i) expect_same(results[i], expected[i]);
  });
}

}  // namespace
}  // namespace phalanx
