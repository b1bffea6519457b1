// Whole ranks of every model family on the emulated device, dropout on: the same bits in all orders
// of queues and threads, and the processor's losses.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "machines.h"
#include "phalanx/base/progress.h"
#include "phalanx/cuda/emulated/machine.h"
#include "phalanx/ops/cpu/precision.h"
#include "phalanx/ops/cuda/cuda_backend.h"
#include "phalanx/ops/cuda/device_memory.h"
#include "phalanx/start/run_setup.h"
#include "phalanx/train/test_support.h"

namespace phalanx {
namespace {

struct FamilyRun {
  const char* name;
  const char* flags;
};
void PrintTo(const FamilyRun& run, std::ostream* out) { *out << run.name; }

constexpr FamilyRun kFamilyRuns[] = {
    {"Gpt", "--family gpt"},
    {"Llama",
     "--family gpt --normalization RMSNorm --swiglu --position-embedding-type rope "
     "--untie-embeddings-and-output-weights --disable-bias-linear "
     "--group-query-attention --num-query-groups 1 --ffn-hidden-size 40"},
    {"Bert", "--family bert"},
    {"T5", "--family t5 --decoder-seq-length 8 --position-embedding-type relative"},
};

// As the emulated device is.
constexpr NamedDevice kEmulated{.name = "cuda:emulated",
                                .title = "emulated",
                                .major = 8,
                                .minor = 0,
                                .memory_bytes = std::int64_t{1} << 30};
constexpr int kSteps = 10;

class CudaFamilies : public RunTest,
                     public testing::WithParamInterface<std::tuple<FamilyRun, DType>> {
 protected:
  struct Result {
    std::vector<double> losses;
    std::vector<std::byte> weights;

    bool operator==(const Result&) const = default;
  };

  static DType storage() { return std::get<DType>(GetParam()); }
  TrainConfig family_config() const {
    write_sentences();
    TrainConfig c = with_flags(config(""), std::get<FamilyRun>(GetParam()).flags);
    set_flags(c,
              "--num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 "
              "--max-position-embeddings 16 --micro-batch-size 1 --global-batch-size 2 "
              "--train-iters 10 --split 100,0,0 --eval-iters 0 --init-method-std 0.1");
    c.model.decoder_num_layers = c.model.family == "t5" ? 1 : 0;
    c.model.bf16 = storage() == DType::kBF16;
    c.model.fp16 = storage() == DType::kF16;
    if (c.model.family != "gpt") {
      c.data.data_path = {path("sentences")};
      set_flags(c, "--tokenizer-type BertWordPieceLowerCase --vocab-size 0");
      c.tokenizer.vocab_file = path("vocab.txt");
      c.tokenizer.vocab_extra_ids = c.model.family == "t5" ? 4 : 0;
    }
    return c;
  }
  void write_sentences() const {
    std::ofstream vocabulary(path("vocab.txt"));
    vocabulary << "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
    for (int i = 0; i < 20; ++i) vocabulary << "w" << i << "\n";
    IndexedDatasetWriter writer(path("sentences"), TokenType::kU16);
    for (int document = 0; document < 20; ++document) {
      for (int sentence = 0; sentence < 3; ++sentence) {
        std::vector<std::int32_t> tokens;
        for (int i = 0; i < 4 + document % 4; ++i) {
          tokens.push_back(5 + (document * 7 + sentence * 5 + i) % 20);
        }
        writer.add_sequence(tokens);
      }
      writer.end_document();
    }
    writer.commit();
  }

  // Ten steps of one rank, and a plan that holds for its arenas.
  static Result train(const RunSetup& setup, const TrainConfig& config, const DeviceChoice& kernels,
                      Backend& backend, ArenaMemory& memory) {
    Result result;
    const MemoryPlan plan = plan_memory(config, *setup.model, setup.programs, 0, kernels);
    run_local_ranks(1, {}, [&](Communicator& world) {
      const RankCommunicators ranks(setup.grids, world);
      RankArenas arenas(plan.bytes, memory);
      Rank rank(config, *setup.model, setup.programs, ranks, backend, arenas);
      rank.initialise();
      const auto stream = setup.stream(SplitKind::kTrain, 0, {});
      for (int step = 1; step <= kSteps; ++step) {
        const StepResult found = rank.train_step(
            {.lr = 5e-3, .adam_step = step, .loss_scale = config.model.fp16 ? 256.0 : 1.0},
            stream->source());
        EXPECT_FALSE(found.skipped) << step;
        for (const LossResult& loss : found.losses) result.losses.push_back(loss.mean);
      }
      const Tensor& weights = rank.parameters().flat();
      result.weights.resize(static_cast<std::size_t>(weights.bytes()));
      rank.host_pieces().read(weights, result.weights);
    });
    return result;
  }
  static Result on_device(const RunSetup& setup, const DeviceOrder& order) {
    cuda::reset_driver();
    cuda::set_queue_order(order.order, order.seed);
    cuda::emulated_machine().set_seed(order.seed);
    TrainConfig config = setup.config;
    config.layout.device = "cuda-emulated";
    DeviceChoice kernels;
    kernels.named = &kEmulated;
    Result result;
    {
      const auto memory = cuda::device_memory(0);
      const auto backend = make_cuda_backend(0, note_progress);
      result = train(setup, config, kernels, *backend, *memory);
    }
    cuda::reset_driver();
    return result;
  }
  static Result on_processor(const RunSetup& setup) {
    // As TrainingMachine::processor().
    DeviceChoice kernels;
    kernels.products = storage() == DType::kBF16 && TrainingMachine::rounds_as_devices(storage())
                           ? cpu::ProductPrecision::kBf16
                           : cpu::ProductPrecision::kFp32;
    const auto backend = kernels.make_backend(1);
    return train(setup, setup.config, kernels, *backend, host_memory());
  }
};

TEST_P(CudaFamilies, TrainAsOnTheProcessorInEveryOrder) {
  const RunSetup setup(family_config());
  const bool every_seed = storage() == DType::kF32 || std::getenv("PHALANX_NIGHTLY") != nullptr;
  std::optional<Result> device;
  for (const auto order :
       {cuda::QueueOrder::kFirst, cuda::QueueOrder::kLast, cuda::QueueOrder::kAny}) {
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      if (!every_seed && seed != static_cast<std::uint64_t>(order)) continue;
      Result found = on_device(setup, {order, seed});
      if (!device)
        device = std::move(found);
      else
        EXPECT_TRUE(found == *device) << static_cast<int>(order) << " " << seed;
    }
  }
  const Result expected = on_processor(setup);
  ASSERT_EQ(device->losses.size(), expected.losses.size());
  const double tolerance = storage() == DType::kF32 ? 1e-5 : 2e-3;
  for (std::size_t i = 0; i < expected.losses.size(); ++i) {
    const double loss = expected.losses[i];
    EXPECT_NEAR(device->losses[i], loss, tolerance * std::abs(loss)) << "loss " << i;
  }
  // Of the last step; a model may have several.
  const std::size_t last = expected.losses.size() - expected.losses.size() / kSteps;
  EXPECT_LT(device->losses[last], device->losses.front()) << "it does not learn";
}

std::string family_name(const testing::TestParamInfo<CudaFamilies::ParamType>& instance) {
  return std::string(std::get<FamilyRun>(instance.param).name) + "_" +
         std::string(name_of(std::get<DType>(instance.param)));
}

INSTANTIATE_TEST_SUITE_P(All, CudaFamilies,
                         testing::Combine(testing::ValuesIn(kFamilyRuns),
                                          testing::Values(DType::kF32, DType::kBF16, DType::kF16)),
                         family_name);

}  // namespace
}  // namespace phalanx
