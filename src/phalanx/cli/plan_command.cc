#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"
#include "phalanx/base/input_path.h"
#include "phalanx/base/log.h"
#include "phalanx/cli/chat_tuning.h"
#include "phalanx/cli/checkpoint_arguments.h"
#include "phalanx/cli/chosen_device.h"
#include "phalanx/cli/commands.h"
#include "phalanx/cli/family_commands.h"
#include "phalanx/cli/loaded_adapters.h"
#include "phalanx/cli/model_name.h"
#include "phalanx/cli/shapes_file.h"
#include "phalanx/cli/time_flags.h"
#include "phalanx/cli/verb.h"
#include "phalanx/flag_table/deepspeed/deepspeed_config.h"
#include "phalanx/flag_table/train_flags.h"
#include "phalanx/flags/flag_set.h"
#include "phalanx/ops/cpu/precision.h"
#include "phalanx/ops/cpu/target.h"
#include "phalanx/planner/context_timeline.h"
#include "phalanx/planner/memory_bars.h"
#include "phalanx/planner/plan.h"
#include "phalanx/planner/step_shapes.h"
#include "phalanx/planner/step_timeline.h"
#include "phalanx/rules/resolve.h"
#include "phalanx/settings/config_views.h"
#include "phalanx/start/run_data.h"

namespace phalanx {
namespace {

using Notes = std::vector<std::string>;

// The size of GPT-2's vocabulary, which is the default tokenizer's.
constexpr std::int64_t kGpt2Vocabulary = 50257;

// A plan needs only the size of the vocabulary: the tokenizer's files may be missing.
std::int64_t vocabulary_of(const TrainConfig& config, Notes& notes) {
  const TokenizerOptions& options = config.tokenizer;
  const std::vector<TokenizerFile> files = tokenizer_files(options);
  const bool has_files =
      std::ranges::all_of(files, [](const TokenizerFile& file) { return path_exists(file.path); });
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

// Fills in what a run needs and a plan does not.
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

// What a call asks for: configuration and output.
struct PlanCall {
  TrainConfig config;
  std::optional<ChatTuning> tuning = {};  // of `plan finetune chat`
  bool json = false;
  bool all_ranks = false;
  std::string cpu_target;
  std::string svg;
  std::string compare;
  std::string timeline;
  std::string context_timeline;
  std::string shapes;
  TimeFlags time;
  Notes notes;
  std::string yaml;  // --print-yaml: the call itself
};

void add_example(FlagSet& flags) {
  flags.add_example(
      "phalanx plan gpt --num-layers 96 --hidden-size 12288 --num-attention-heads 96 --seq-length "
      "2048 --max-position-embeddings 2048 --micro-batch-size 1 --global-batch-size 1536 "
      "--tensor-model-parallel-size 8 --pipeline-model-parallel-size 16 --world-size 1024 --bf16",
      "GPT-3 on 1,024 ranks");
}

// The kernels of this machine, or of the target that is named.
DeviceChoice kernels_of(const TrainConfig& config, const std::string& cpu_target) {
  if (cpu_target.empty()) return chosen_device(config, DeviceUse::kPlan);
  const ModelConfig& model = config.model;
  const std::string& device = config.layout.device;
  if (device != "cpu") {
    throw ConfigError("--cpu-target {} is of processors: leave it out with --device {}", cpu_target,
                      device);
  }
  const cpu::Target target = cpu::target_named("--cpu-target", cpu_target);
  return {cpu::choose_products(model.matmul_precision, model.bf16, target).products,
          cpu::usual_processor(target)};
}

// Sizes that the call leaves open, and what follows from all of them.
void settle(const FlagSet& flags, PlanCall& call) {
  if (!call.tuning) {
    fill_in_samples(call.config, flags, call.notes);
    return resolve(call.config, false);
  }
  call.tuning->settle(flags, false, [&call](const TrainConfig& config) {
    return kernels_of(config, call.cpu_target);
  });
  const auto& notes = call.tuning->notes();
  call.notes.insert(call.notes.end(), notes.begin(), notes.end());
}

// The call must stay where it is while it is read.
void read_call(const NamedFamily& named, const Arguments& arguments, PlanCall& call) {
  TrainConfig& config = call.config;
  use_family(named.family, config);
  FlagSet flags(named.command, "The memory plan of a training run, nothing allocated.");
  flags.plan_only();
  if (named.is_chat_tuning) {
    call.tuning.emplace(config).add_flags(flags);
  } else {
    add_train_flags(flags, config);
  }
  flags.section("Plan");
  flags.add({.name = "--json", .help = "One JSON document on standard output"}, &call.json);
  flags.add({.name = "--all-ranks", .help = "JSON lists every rank also of worlds above 64"},
            &call.all_ranks);
  flags.add({.name = "--svg",
             .help = "A picture of the memory of ranks, by what is in it, is written to this file",
             .value_name = "FILE"},
            &call.svg);
  flags.add(
      {.name = "--compare",
       .help = "NAME=VALUE ... | NAME=VALUE ...: flags of several runs, each beside the others "
               "that are given; the picture has the memory of all",
       .value_name = "FLAGS",
       .needs = "--svg",
       .excludes = "--json --all-ranks --timeline --context-timeline"},
      &call.compare);
  flags.add(
      {.name = "--timeline",
       .help = "A picture of a step of rank 0 - passes, gathers, sums, files - in its order is "
               "written to this file",
       .value_name = "FILE"},
      &call.timeline);
  flags.add({.name = "--context-timeline",
             .help = "A picture of how context-parallel ranks exchange keys in the first layer, "
                     "forward and backward, is written to this file",
             .value_name = "FILE"},
            &call.context_timeline);
  call.time.add_to(flags);
  flags.add({.name = "--write-shapes",
             .help = "The products and the attention of a step are written to this file, for "
                     "phalanx bench device --shapes",
             .value_name = "FILE",
             .excludes = "--compare"},
            &call.shapes);
  flags.add({.name = "--world-size",
             .aliases = "--nproc",
             .help = "Ranks to plan for; they need not fit on this machine",
             .range = from_to(1, 1048576)},
            &config.layout.world_size);
  flags.add({.name = "--cpu-target",
             .help = "The processor to plan for, by the instructions that kernels use, with usual "
                     "caches; not given: this machine's, with its own",
             .choices = "scalar avx2 avx512 avx512_bf16 amx"},
            &call.cpu_target);
  flags.add_yaml();
  add_deepspeed_config(flags, config);
  if (config.family == nullptr) add_example(flags);
  flags.parse(
      arguments,
      [&] {
        if (call.tuning) {
          call.tuning->set_defaults(flags);
        } else {
          use_checkpoint_arguments(flags, config);
          use_loaded_adapters(flags, config);
        }
        use_family_defaults(flags, *named.family);
        fill_in_ranks(config, flags, call.notes);
      },
      [&] {
        settle(flags, call);
        call.time.cluster = config.run.cluster;
        // As a run does when it has opened the checkpoint.
        config.lora.has_base = config.lora.rank > 0 && !(config.run.load.empty() &&
                                                         config.run.pretrained_checkpoint.empty());
      });
  call.notes.insert(call.notes.begin(), flags.notes().begin(), flags.notes().end());
  if (flags.prints_yaml()) call.yaml = flags.to_yaml();
}

RunPlan plan_of(PlanCall& call) {
  const std::int64_t vocabulary = vocabulary_of(call.config, call.notes);
  return plan_run(call.config, vocabulary, kernels_of(call.config, call.cpu_target));
}

void say(const Notes& notes) {
  for (const std::string& note : notes) log_info("{}", note);
}

// Reads the runs of --compare, separated by |: NAME=VALUE or --NAME VALUE, and NAME for a switch.
std::vector<Arguments> runs_of(const std::string& compare) {
  std::vector<Arguments> runs;
  std::size_t begin = 0;
  while (begin <= compare.size()) {
    const std::size_t end = std::min(compare.find('|', begin), compare.size());
    std::istringstream words(compare.substr(begin, end - begin));
    Arguments& flags = runs.emplace_back();
    bool may_take_value = false;  // the word before is a flag without a value
    for (std::string word; words >> word;) {
      const bool has_dashes = word.starts_with("--");
      const bool has_value = word.find('=') != std::string::npos;
      if (may_take_value && !has_dashes && !has_value) {
        flags.back() += "=" + word;
        may_take_value = false;
        continue;
      }
      flags.push_back(has_dashes ? word : "--" + word);
      may_take_value = has_dashes && !has_value;
    }
    begin = end + 1;
  }
  return runs;
}

// Flags as they are read.
std::string name_of_run(const Arguments& flags) {
  std::string name;
  for (std::string flag : flags) {
    const std::size_t sign = flag.find('=');
    if (sign != std::string::npos) flag[sign] = ' ';
    name += (name.empty() ? "" : " ") + flag;
  }
  return name.empty() ? "as it is" : name;
}

constexpr std::size_t kMostRuns = 32;

// Draws the memory of every run in one picture.
void compare_runs(CommandIo& io, const NamedFamily& named, const PlanCall& call) {
  const std::vector<Arguments> runs = runs_of(call.compare);
  if (runs.size() > kMostRuns) {
    throw UsageError("--compare has {} runs, and a picture {} at most", runs.size(), kMostRuns);
  }
  std::vector<MemoryBar> bars;
  std::string times;
  std::string title;
  Notes said;
  for (const Arguments& flags : runs) {
    const std::string name = name_of_run(flags);
    Arguments arguments = named.arguments;
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    PlanCall run;
    try {
      read_call(named, arguments, run);
    } catch (const Error& error) {
      throw Error(error.code(), fmt::format("--compare, of \"{}\": {}", name, error.what()));
    }
    if (run.svg != call.svg || run.compare != call.compare || !run.yaml.empty()) {
      throw UsageError("--compare, of \"{}\": give flags of the run alone", name);
    }
    const RunPlan plan = plan_of(run);
    for (const std::string& note : run.notes) {
      if (std::ranges::find(said, note) == said.end()) said.push_back(note);
    }
    if (title.empty()) title = model_words(plan) + ": memory of a rank";
    const std::vector<MemoryBar> more = memory_bars(plan, name);
    bars.insert(bars.end(), more.begin(), more.end());
    if (run.time.given()) {
      times += fmt::format("{}: {}", name, run.time.text_of(plan, run.time.predict(plan)));
    }
  }
  // After the faults of the flags.
  if (runs.size() < 2) {
    throw UsageError(
        "--compare '{0}' names one run: put | between the flags of two or more, as in --compare "
        "'{0} | NAME=VALUE' (nothing on one side of it: the call as it is)",
        call.compare);
  }
  say(said);
  write_file_durably(call.svg, to_svg(bars, title));
  io.put(to_text(bars) + times);
}

// Pictures are written to files of their own.
void check_files(const PlanCall& call) {
  const std::array files = {std::pair("--svg", &call.svg), std::pair("--timeline", &call.timeline),
                            std::pair("--step-timeline", &call.time.step_timeline),
                            std::pair("--context-timeline", &call.context_timeline),
                            std::pair("--write-shapes", &call.shapes)};
  for (std::size_t i = 0; i < files.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (files[i].second->empty() || *files[i].second != *files[j].second) continue;
      throw UsageError("{} and {} are both {}: give two files", files[j].first, files[i].first,
                       *files[i].second);
    }
  }
}

}  // namespace

int run_plan(CommandIo& io, const Arguments& arguments) {
  if (!arguments.empty() && arguments[0] == "finetune") {
    constexpr std::array<Verb, 1> kVerbs = {{{"chat", "what an assistant says in conversations"}}};
    verb_of("phalanx plan finetune", kVerbs, {arguments.begin() + 1, arguments.end()});
    return plan(io, {.command = "phalanx plan finetune chat",
                     .family = find_family("gpt"),
                     .arguments = {arguments.begin() + 2, arguments.end()},
                     .is_chat_tuning = true});
  }
  return plan(io, named_family("phalanx plan", arguments));
}

int plan(CommandIo& io, const NamedFamily& named) {
  PlanCall call;
  read_call(named, named.arguments, call);
  if (!call.yaml.empty()) {
    io.put(call.yaml);
    return 0;
  }
  check_files(call);
  if (!call.compare.empty()) {
    compare_runs(io, named, call);
    return 0;
  }
  const RunPlan plan = plan_of(call);
  say(call.notes);
  if (!call.svg.empty()) {
    write_file_durably(call.svg,
                       to_svg(memory_bars(plan, ""), model_words(plan) + ": memory of a rank"));
  }
  if (!call.timeline.empty()) {
    write_file_durably(
        call.timeline,
        to_svg(step_timeline(plan),
               fmt::format("{}: a step of rank 0 of {}, ZeRO stage {}", model_words(plan),
                           plan.grids.dense.world_size(), zero_stage(plan.config.layout))));
  }
  if (!call.context_timeline.empty()) {
    const LayoutConfig& layout = plan.config.layout;
    write_file_durably(
        call.context_timeline,
        to_svg(context_timeline(plan),
               fmt::format("Attention of a layer on {} ranks, --cp-comm-type {}",
                           layout.context_parallel_size, fmt::join(layout.cp_comm_type, " "))));
  }
  if (!call.shapes.empty()) write_file_durably(call.shapes, to_json(step_shapes(plan)));
  const auto listed = call.all_ranks ? ListedRanks::kAll : ListedRanks::kAsManyAsReadable;
  std::optional<StepPrediction> prediction;
  if (call.time.given()) {
    prediction = call.time.predict(plan);
    call.time.draw(plan, *prediction);
  }
  io.put(call.json ? to_json(plan, listed, prediction ? &*prediction : nullptr)
                   : to_text(plan) + (prediction ? call.time.text_of(plan, *prediction) : ""));
  return 0;
}

}  // namespace phalanx
