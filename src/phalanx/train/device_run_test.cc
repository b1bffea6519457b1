// Runs on the emulated CUDA device, as the program makes them. The family has no attention, which
// has no kernels yet.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "phalanx/families/families.h"
#include "phalanx/nn/embedding.h"
#include "phalanx/nn/language_model_head.h"
#include "phalanx/nn/test_support.h"
#include "phalanx/train/test_support.h"

namespace phalanx {
namespace {

using testing::HasSubstr;

// A GPT whose layers are their MLPs alone.
class PlainModel final : public Model {
 public:
  PlainModel(GptConfig config, std::int64_t sequence) : gpt_(std::move(config), sequence) {}

  std::unique_ptr<const Model> placed(int /*tensor_rank*/) const override {
    return std::make_unique<const PlainModel>(*this);
  }
  const nn::TransformerConfig& transformer() const override { return gpt_.transformer(); }
  VocabularySize vocabulary() const override { return gpt_.vocabulary(); }
  BatchSchema batch_schema() const override { return gpt_.batch_schema(); }
  std::vector<LossSpec> losses() const override { return gpt_.losses(); }
  StageRange whole() const override { return gpt_.whole(); }
  std::int64_t tokens_per_sample() const override { return gpt_.tokens_per_sample(); }
  double flops_per_sample() const override { return gpt_.flops_per_sample(); }

  Chunk build_chunk(const StageRange& /*range*/, nn::ParamTable& table) const override {
    table.begin_chunk();
    const GptConfig& c = gpt_.config();
    const BatchSchema schema = batch_schema();
    std::vector<std::unique_ptr<nn::Unit>> units;
    units.push_back(std::make_unique<nn::Embedding>(
        table, c.vocabulary, c.padded_vocabulary, c.max_positions,
        nn::EmbeddingSharing{.words = true},
        nn::EmbeddingColumns{.tokens = schema.index("tokens"),
                             .position_ids = schema.index("position_ids")},
        c.transformer));
    for (std::int64_t layer = 0; layer < c.transformer.num_layers; ++layer) {
      const auto make = [layer](nn::ParamTable& parameters, std::vector<ParamId>& owned,
                                nn::SavedSlots& slots, const nn::TransformerConfig& config) {
        return nn::mlp_sublayer(parameters, owned, slots, fmt::format("decoder.layers.{}", layer),
                                layer, config);
      };
      units.push_back(std::make_unique<nn::SublayerUnit>(table, c.transformer, make));
    }
    units.push_back(std::make_unique<nn::LanguageModelHead>(
        table, nn::LanguageModelHead::Output::kTied, c.vocabulary, c.padded_vocabulary,
        nn::TargetColumns{.labels = schema.index("labels"), .loss_mask = schema.index("loss_mask")},
        c.transformer));
    return Chunk(std::move(units));
  }

 private:
  GptModel gpt_;
};

class PlainFamily final : public ModelFamily {
 public:
  std::string_view name() const override { return "plain"; }
  std::string_view title() const override { return "model without attention"; }
  std::shared_ptr<const Model> model(const TrainConfig& config,
                                     std::int64_t vocabulary) const override {
    return std::make_shared<const PlainModel>(gpt_config(config, vocabulary),
                                              config.data.seq_length);
  }
  std::unique_ptr<DataSources> sources(const TrainConfig& config, const SourceSeed& seed,
                                       const Tokenizer& tokenizer) const override {
    return gpt_family()->sources(config, seed, tokenizer);
  }
};

class DeviceRuns : public RunTest {
 protected:
  TrainConfig plain(const std::string& save, const char* device,
                    const std::string& flags = {}) const {
    TrainConfig c = with_flags(config(save), "--hidden-dropout 0.1 " + flags);
    c.layout.device = device;
    c.family = std::make_shared<const PlainFamily>();
    return c;
  }
};

// Trained, evaluated, saved and resumed: the processor's losses, and the same bits after a resume.
TEST_F(DeviceRuns, HaveTheProcessorsLosses) {
  struct Precision {
    const char* flags;
    double tolerance;
  };
  for (const Precision& precision : {Precision{"", 1e-5}, Precision{"--bf16", 2e-3}}) {
    SCOPED_TRACE(precision.flags);
    train(plain("host", "cpu", precision.flags));
    train(plain("device", "cuda-emulated", precision.flags));
    expect_near("device", "host", "lm_loss", precision.tolerance);
    const auto learnt = losses("device");
    EXPECT_LT(learnt.back(), learnt.front());
    const Manifest& manifest = CheckpointReader::open(path("device")).manifest();
    EXPECT_EQ(manifest.matmul_precision, "cuda-sm80-lt1");
    std::filesystem::remove_all(path("host"));
    std::filesystem::remove_all(path("device"));
  }
}

TEST_F(DeviceRuns, ResumeBitForBit) {
  expect_resume_is_bitwise(
      plain("whole", "cuda-emulated", "--fp16 --initial-loss-scale 1024 --loss-scale-window 4"));
}

// Other products make other bits.
TEST_F(DeviceRuns, AreResumedWhereTheyWereMade) {
  TrainConfig c = plain("device", "cuda-emulated");
  c.run.load = c.run.save;
  c.run.exit_interval = 3;
  train(c);
  c.layout.device = "cpu";
  EXPECT_THAT(refusal(c), HasSubstr("this run's products are those of a processor, the checkpoint "
                                    "of iteration 3 was made with cuda-sm80-lt1"));
  c.run.allow_changed = {"matmul-precision"};
  train(c);
}

TEST_F(DeviceRuns, SayWhatTheyCannotDo) {
  TrainConfig c = config("");
  c.layout.device = "cuda-emulated";
  EXPECT_THAT(refusal(c), HasSubstr("no CUDA kernel computes the op AttentionForward yet"));
  c = plain("", "cuda-emulated");
  c.layout.world_size = 2;
  EXPECT_THAT(refusal(c), HasSubstr("--device cuda-emulated: 2 ranks would exchange tensors"));
  c = plain("", "cuda-emulated", "--bf16 --matmul-precision fp32");
  EXPECT_THAT(refusal(c), HasSubstr("--matmul-precision fp32 is of processors"));
}

}  // namespace
}  // namespace phalanx
