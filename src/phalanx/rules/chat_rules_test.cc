// What conversations ask of the other flags.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "phalanx/rules/test_support.h"
#include "phalanx/settings/config_views.h"

namespace phalanx {
namespace {

using config_tests::expect_refused;
using config_tests::parsed;
using config_tests::resolved;
using testing::HasSubstr;

TrainConfig chat() { return with_flags(config_tests::valid(), "--sft"); }

TEST(ChatRules, ConversationsAreSeenAlone) {
  const TrainConfig c = resolved(chat());
  EXPECT_TRUE(gpt_config(c, 100).transformer.mask_documents);
  EXPECT_FALSE(gpt_config(resolved(), 100).transformer.mask_documents);
  resolved(chat(), "--context-parallel-cut documents --world-size 2 --context-parallel-size 2");
}

TEST(ChatRules, WhatConversationsExclude) {
  expect_refused(chat(), "--data-path --mock-data", {"--sft and --mock-data", "--data-path"});
  expect_refused(chat(), "--pack-documents greedy",
                 {"--sft and --pack-documents", "--sft-packing"});
  expect_refused(chat(), "--eod-mask-loss", {"--sft and --eod-mask-loss", "--sft-loss"});
  expect_refused(chat(), "--reset-position-ids", {"--sft and --reset-position-ids"});
  expect_refused(chat(), "--reset-attention-mask", {"--sft and --reset-attention-mask"});
  expect_refused(chat(), "--sft-average sample --loss-average microbatch",
                 {"--sft-average sample and --loss-average microbatch"});
  expect_refused(chat(), "--chat-template-date tomorrow", {"--chat-template-date tomorrow"});
  expect_refused(chat(), "--sft-loss some", {"--sft-loss some", "assistant"});
}

TEST(ChatRules, WhatTheCommandLineSays) {
  const std::string required =
      "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 "
      "--max-position-embeddings 32 --micro-batch-size 2 --lr 1e-3 --train-iters 9 --data-path c ";
  const auto refusal = [&](const std::string& flags, const TrainConfig& from = {}) {
    return error_of([&] { parsed(from, required + flags); });
  };
  const TrainConfig all = parsed({}, required + "--sft --sft-tokenizer-prompt-format default");
  EXPECT_EQ(all.data.sft_loss, "all");
  EXPECT_THAT(refusal("--sft --sft-tokenizer-prompt-format nemotron-nano-v2"),
              HasSubstr("give --chat-template FILE"));
  for (const char* flag : {"--sft-loss last", "--sft-packing none", "--sft-drop-incomplete",
                           "--sft-truncation end", "--sft-average sample", "--chat-template f",
                           "--chat-template-args {}", "--sft-special-tokens-in-content parse"}) {
    EXPECT_THAT(refusal(flag), HasSubstr("needs --sft")) << flag;
  }
  EXPECT_THAT(refusal("--sft --pack-documents greedy"), HasSubstr("--sft and --pack-documents"));
  TrainConfig bert;
  bert.model.family = "bert";
  EXPECT_THAT(refusal("--sft", bert), HasSubstr("--sft is a flag of gpt, not of bert"));
}

}  // namespace
}  // namespace phalanx
