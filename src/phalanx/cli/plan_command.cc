#include <fmt/core.h>

#include "phalanx/base/error.h"
#include "phalanx/cli/commands.h"
#include "phalanx/cli/model_name.h"
#include "phalanx/cli/train_flags.h"
#include "phalanx/ops/cpu/precision.h"
#include "phalanx/planner/plan.h"
#include "phalanx/train/run_data.h"

namespace phalanx {
namespace {

// A plan needs the size of the vocabulary, not the tokenizer: --vocab-size alone will do.
std::int64_t vocabulary_of(const TrainConfig& config) {
  const bool has_tokenizer = !config.data.vocab_file.empty() || !config.data.merge_file.empty() ||
                             !config.data.tokenizer_type.empty();
  if (has_tokenizer) return run_tokenizer(config)->vocab_size();
  if (config.data.vocab_size <= 0) {
    throw ConfigError(
        "the plan needs the vocabulary: give --vocab-size N or the tokenizer's files");
  }
  return config.data.vocab_size;
}

}  // namespace

int run_plan(const Arguments& arguments) {
  TrainConfig config;
  bool json = false;
  bool all_ranks = false;
  std::string device = "cpu";
  Flags flags("phalanx plan gpt", "The memory plan of a training run, nothing allocated.");
  add_train_flags(flags, config);
  flags.section("Plan");
  flags.add_switch("--json", json, "One JSON document on standard output");
  flags.add_switch("--all-ranks", all_ranks, "JSON lists every rank also of worlds above 64");
  flags.add("--world-size", config.layout.world_size,
            "Ranks to plan for; they need not fit on this machine");
  flags.add("--device", device, "The kind of machine to plan for: cpu");
  flags.parse(behind_model_name("phalanx plan", arguments));
  if (device != "cpu") {
    throw ConfigError("--device {}: this build plans for cpu alone", device);
  }
  const std::int64_t vocabulary = vocabulary_of(config);
  resolve(config, false);
  const auto choice = cpu::choose_products(config.model.matmul_precision, config.model.bf16,
                                           static_cast<int>(config.layout.threads_per_rank));
  const RunPlan plan = plan_run(config, vocabulary, choice.products);
  const auto listed = all_ranks ? ListedRanks::kAll : ListedRanks::kAsManyAsReadable;
  fmt::print("{}", json ? to_json(plan, listed) : to_text(plan));
  return 0;
}

}  // namespace phalanx
