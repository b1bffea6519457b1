// The part of resolve() that is about conversations.

#include <fmt/format.h>

#include "phalanx/chat/template_file.h"
#include "phalanx/rules/rules.h"
#include "phalanx/settings/config_views.h"

namespace phalanx {

namespace {

// The first rank answers alone, with the weights that it trains.
void check_answers(const TrainConfig& config, Faults& faults) {
  if (config.run.answer_prompts.empty()) return;
  const LayoutConfig& layout = config.layout;
  const auto refuse = [&](bool is_cut, std::string_view flag) {
    if (!is_cut) return;
    faults.add(fmt::format(
        "--answer-prompts needs the whole model on the first rank, and {} cuts it: "
        "leave --answer-prompts out, and ask the checkpoints by phalanx generate --chat",
        flag));
  };
  refuse(layout.tensor_model_parallel_size > 1, "--tensor-model-parallel-size");
  refuse(layout.pipeline_model_parallel_size > 1, "--pipeline-model-parallel-size");
  refuse(zero_stage(layout) == 3, "a sharding of the weights (--zero-stage 3)");
}

}  // namespace

void check_chat(const TrainConfig& config, Faults& faults) {
  const DataConfig& d = config.data;
  if (!d.sft) return;
  const auto refuse = [&](bool is_given, std::string_view flag, std::string_view reason) {
    if (is_given) faults.add(fmt::format("--sft and {} exclude each other: {}", flag, reason));
  };
  refuse(d.mock_data, "--mock-data", "no conversations are made up; give --data-path FILE.jsonl");
  refuse(d.pack_documents != "wrapped", "--pack-documents", "give --sft-packing");
  constexpr std::string_view kAlone = "every conversation is seen alone anyway";
  refuse(d.reset_attention_mask, "--reset-attention-mask", kAlone);
  refuse(d.reset_position_ids, "--reset-position-ids", kAlone);
  refuse(d.eod_mask_loss, "--eod-mask-loss", "--sft-loss says what is trained");
  if (d.sft_average == "sample" && config.optimizer.loss_average == "microbatch") {
    faults.add(
        "--sft-average sample and --loss-average microbatch exclude each other: the mean of "
        "conversations is over a global batch; leave --loss-average out");
  }
  check_answers(config, faults);
  if (!d.chat_template_date.empty()) faults.hold([&] { template_day(d.chat_template_date); });
}

}  // namespace phalanx
