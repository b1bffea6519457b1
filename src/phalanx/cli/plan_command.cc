#include <fmt/core.h>

#include <filesystem>
#include <string>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/cli/checkpoint_arguments.h"
#include "phalanx/cli/commands.h"
#include "phalanx/cli/model_name.h"
#include "phalanx/flags/flag_set.h"
#include "phalanx/ops/cpu/precision.h"
#include "phalanx/planner/plan.h"
#include "phalanx/train/config_views.h"
#include "phalanx/train/deepspeed/deepspeed_config.h"
#include "phalanx/train/flags.h"
#include "phalanx/train/run_data.h"

namespace phalanx {
namespace {

using Notes = std::vector<std::string>;

// Of GPT-2's vocabulary, the default tokenizer's.
constexpr std::int64_t kGpt2Vocabulary = 50257;

// A plan needs the size of the vocabulary, not the tokenizer: no file need be there.
std::int64_t vocabulary_of(const TrainConfig& config, Notes& notes) {
  const TokenizerOptions& options = config.tokenizer;
  const std::vector<TokenizerFile> files = tokenizer_files(options);
  const bool has_files = std::ranges::all_of(
      files, [](const TokenizerFile& file) { return std::filesystem::exists(file.path); });
  const bool is_null = options.tokenizer_type == "NullTokenizer";
  if (is_null || (has_files && !files.empty())) return make_tokenizer(options)->vocab_size();
  if (options.vocab_size > 0) return options.vocab_size;
  if (config.model.model_vocab_size > 0) return config.model.model_vocab_size;
  notes.push_back(fmt::format("the plan is of GPT-2's {} ids: {}", kGpt2Vocabulary,
                              files.empty() ? "give --vocab-size N or --model-vocab-size N or the "
                                              "tokenizer's files for another vocabulary"
                                            : "the tokenizer's files are not there"));
  return kGpt2Vocabulary;
}

// What a run needs and a plan can do without.
void fill_in_samples(TrainConfig& config, const FlagSet& flags, Notes& notes) {
  if (flags.given("--micro-batch-size")) return;
  config.layout.micro_batch_size = 1;
  notes.emplace_back("the plan is of microbatches of 1 sample: --micro-batch-size is not given");
}

void fill_in_ranks(TrainConfig& config, const FlagSet& flags, Notes& notes) {
  LayoutConfig& layout = config.layout;
  if (flags.given("--world-size")) return;
  const std::int64_t one_copy = ranks_of_model(layout);
  if (one_copy == 1) return;
  layout.world_size = one_copy;
  notes.push_back(fmt::format(
      "the plan is of the {} ranks of one copy of the model: --world-size is not given", one_copy));
}

}  // namespace

int run_plan(const Arguments& arguments) {
  TrainConfig config;
  bool json = false;
  bool all_ranks = false;
  std::string device = "cpu";
  Notes notes;
  const NamedFamily named = named_family("phalanx plan", arguments);
  config.model.family = named.family->name();
  FlagSet flags(fmt::format("phalanx plan {}", config.model.family),
                "The memory plan of a training run, nothing allocated.");
  flags.plan_only();
  add_train_flags(flags, config);
  flags.section("Plan");
  flags.add({.name = "--json", .help = "One JSON document on standard output"}, &json);
  flags.add({.name = "--all-ranks", .help = "JSON lists every rank also of worlds above 64"},
            &all_ranks);
  flags.add({.name = "--world-size",
             .aliases = "--nproc",
             .help = "Ranks to plan for; they need not fit on this machine",
             .range = from_to(1, 1048576)},
            &config.layout.world_size);
  flags.add({.name = "--device", .help = "The kind of machine to plan for", .choices = "cpu"},
            &device);
  flags.add_yaml();
  add_deepspeed_config(flags, config);
  flags.add_example(
      "phalanx plan gpt --num-layers 96 --hidden-size 12288 --num-attention-heads 96 --seq-length "
      "2048 --max-position-embeddings 2048 --micro-batch-size 1 --global-batch-size 1536 "
      "--tensor-model-parallel-size 8 --pipeline-model-parallel-size 16 --world-size 1024 --bf16",
      "GPT-3 on 1,024 ranks");
  flags.parse(
      named.arguments,
      [&] {
        use_checkpoint_arguments(flags, config);
        use_family_defaults(flags, *named.family);
        fill_in_ranks(config, flags, notes);
      },
      [&] {
        fill_in_samples(config, flags, notes);
        resolve(config, false);
      });
  if (flags.prints_yaml()) {
    fmt::print("{}", flags.to_yaml());
    return 0;
  }
  const std::int64_t vocabulary = vocabulary_of(config, notes);
  for (const Notes& some : {flags.notes(), notes}) {
    for (const std::string& note : some) log_info("{}", note);
  }
  const auto choice = cpu::choose_products(config.model.matmul_precision, config.model.bf16);
  const RunPlan plan = plan_run(config, vocabulary, choice.products);
  const auto listed = all_ranks ? ListedRanks::kAll : ListedRanks::kAsManyAsReadable;
  fmt::print("{}", json ? to_json(plan, listed) : to_text(plan));
  return 0;
}

}  // namespace phalanx
