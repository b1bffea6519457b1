// Published models as flags: the number of parameters is the published one.

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "phalanx/families/family.h"
#include "phalanx/flag_table/train_flags.h"
#include "phalanx/flags/flag_set.h"
#include "phalanx/rules/resolve.h"
#include "phalanx/settings/config_views.h"

namespace phalanx {
namespace {

constexpr const char* kLlama =
    "--position-embedding-type rope --normalization RMSNorm --swiglu --disable-bias-linear "
    "--micro-batch-size 1 --group-query-attention ";

std::shared_ptr<const Model> model_of(const std::string& arguments) {
  std::istringstream words(kLlama + arguments);
  std::vector<std::string> list;
  for (std::string word; words >> word;) list.push_back(word);
  TrainConfig config;
  FlagSet flags("phalanx plan gpt", "");
  add_train_flags(flags, config);
  flags.plan_only();
  flags.parse(list, nullptr, [&] { resolve(config, false); });
  return make_model(config, config.model.model_vocab_size);
}

struct Published {
  const char* name;
  const char* arguments;
  std::int64_t parameters;
};

constexpr Published kPublished[] = {
    {"Llama-2 7B",
     "--num-layers 32 --hidden-size 4096 --ffn-hidden-size 11008 --num-attention-heads 32 "
     "--num-query-groups 32 --seq-length 4096 --max-position-embeddings 4096 --model-vocab-size "
     "32000 --untie-embeddings-and-output-weights",
     6738415616},
    {"Llama-2 70B",
     "--num-layers 80 --hidden-size 8192 --ffn-hidden-size 28672 --num-attention-heads 64 "
     "--num-query-groups 8 --seq-length 4096 --max-position-embeddings 4096 --model-vocab-size "
     "32000 --untie-embeddings-and-output-weights",
     68976648192},
    {"Llama-3 8B",
     "--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 "
     "--num-query-groups 8 --seq-length 8192 --max-position-embeddings 8192 --rotary-base 500000 "
     "--model-vocab-size 128256 --untie-embeddings-and-output-weights",
     8030261248},
    {"Llama-3.2 1B",
     "--num-layers 16 --hidden-size 2048 --ffn-hidden-size 8192 --num-attention-heads 32 "
     "--num-query-groups 8 --seq-length 8192 --max-position-embeddings 131072 --rotary-base 500000 "
     "--use-rope-scaling --rope-scaling-factor 32 --model-vocab-size 128256",
     1235814400},
    {"Mistral 7B",
     "--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 "
     "--num-query-groups 8 --seq-length 8192 --max-position-embeddings 32768 --window-size 4095,0 "
     "--model-vocab-size 32000 --untie-embeddings-and-output-weights",
     7241732096},
    {"Qwen2 7B",
     "--num-layers 28 --hidden-size 3584 --ffn-hidden-size 18944 --num-attention-heads 28 "
     "--num-query-groups 4 --seq-length 8192 --max-position-embeddings 131072 --rotary-base "
     "1000000 --add-qkv-bias --model-vocab-size 152064 --untie-embeddings-and-output-weights",
     7615616512},
    {"Qwen2 0.5B",
     "--num-layers 24 --hidden-size 896 --ffn-hidden-size 4864 --num-attention-heads 14 "
     "--num-query-groups 2 --seq-length 8192 --max-position-embeddings 131072 --rotary-base "
     "1000000 --add-qkv-bias --model-vocab-size 151936",
     494032768},
};

TEST(PublishedModels, Parameters) {
  for (const Published& published : kPublished) {
    EXPECT_EQ(model_of(published.arguments)->parameters(), published.parameters) << published.name;
  }
}

TEST(PublishedModels, FlopsOfAToken) {
  const auto flops = [](const Published& published) {
    const auto model = model_of(published.arguments);
    return model->flops_per_sample() / static_cast<double>(model->tokens_per_sample());
  };
  EXPECT_EQ(flops(kPublished[0]), 46084915200.0);
  EXPECT_EQ(flops(kPublished[2]), 57912852480.0);
  // A row of Mistral sees at most 4096 keys: at 8192 positions 3072.25 on average.
  EXPECT_EQ(flops(kPublished[4]),
            6.0 * 7241732096 - 6.0 * (32000.0 * 4096 + 65.0 * 4096) + 12.0 * 32 * 4096 * 3072.25);
}

// Heads that are not hidden / heads wide: the projection behind attention is [hidden, heads *
// size].
TEST(PublishedModels, WidthOfHeadsIsItsOwn) {
  const auto model = model_of(
      "--num-layers 2 --hidden-size 64 --ffn-hidden-size 96 --num-attention-heads 4 --kv-channels "
      "32 --num-query-groups 2 --seq-length 8 --max-position-embeddings 8 "
      "--model-vocab-size 128");
  const std::int64_t q = 128, kv = 64;
  EXPECT_EQ(model->parameters(),
            2 * (64 * (q + 2 * kv) + q * 64 + 3 * 64 * 96 + 2 * 64) + 64 + 128 * 64);
  EXPECT_EQ(model->flops_per_sample(),
            8 * (6.0 * (2 * (64 * (q + 2 * kv) + q * 64 + 3 * 64 * 96) + 64 * 128) +
                 12.0 * 2 * 8 * static_cast<double>(q)));
}

}  // namespace
}  // namespace phalanx
