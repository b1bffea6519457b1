#include "phalanx/cli/flags.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <functional>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

// Edits (insert, delete, replace) that turn one word into the other.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

// Megatron's flags that mean something this version cannot do yet: the message says so instead of
// guessing a neighbour.
constexpr std::array kNotYet =
    std::to_array<std::string_view>({"--expert-model-parallel-size",
                                     "--expert-tensor-parallel-size",
                                     "--num-experts",
                                     "--moe-router-topk",
                                     "--pipeline-model-parallel-layout",
                                     "--pipeline-model-parallel-split-rank",
                                     "--account-for-embedding-in-pipeline-split",
                                     "--account-for-loss-in-pipeline-split",
                                     "--standalone-embedding-stage",
                                     "--no-overlap-p2p-communication",
                                     "--overlap-p2p-communication-warmup-flush",
                                     "--no-align-grad-reduce",
                                     "--no-align-param-gather",
                                     "--defer-embedding-wgrad-compute",
                                     "--delay-wgrad-compute",
                                     "--cp-comm-type",
                                     "--hierarchical-context-parallel-sizes",
                                     "--grad-reduce-in-bf16",
                                     "--ddp-average-in-collective",
                                     "--ddp-num-buckets",
                                     "--ddp-pad-buckets-for-high-nccl-busbw",
                                     "--num-distributed-optimizer-instances",
                                     "--overlap-param-gather-with-optimizer-step",
                                     "--data-parallel-random-init",
                                     "--check-weight-hash-across-dp-replicas-interval",
                                     "--use-torch-fsdp2",
                                     "--use-custom-fsdp",
                                     "--use-megatron-fsdp",
                                     "--data-parallel-sharding-strategy",
                                     "--optimizer-cpu-offload",
                                     "--use-precision-aware-optimizer",
                                     "--main-grads-dtype",
                                     "--main-params-dtype",
                                     "--exp-avg-dtype",
                                     "--exp-avg-sq-dtype",
                                     "--tp-comm-overlap",
                                     "--distributed-backend",
                                     "--recompute-modules",
                                     "--cpu-offloading-num-layers",
                                     "--fp8-format",
                                     "--apply-query-key-layer-scaling",
                                     "--fp16-lm-cross-entropy",
                                     "--rampup-batch-size",
                                     "--decrease-batch-size-if-needed",
                                     "--swiglu",
                                     "--normalization",
                                     "--position-embedding-type",
                                     "--use-rotary-position-embeddings",
                                     "--disable-bias-linear",
                                     "--optimizer",
                                     "--tensorboard-dir",
                                     "--train-data-path",
                                     "--async-save",
                                     "--mock-data"});

std::string text_of(const std::string& value) { return value; }
std::string text_of(std::int64_t value) { return std::to_string(value); }
std::string text_of(double value) { return fmt::format("{}", value); }
std::string text_of(const std::optional<double>& value) { return value ? text_of(*value) : ""; }

}  // namespace

std::optional<std::string> nearest(std::string_view word,
                                   const std::vector<std::string>& candidates) {
  std::optional<std::string> best;
  std::size_t best_distance = std::max<std::size_t>(word.size() / 3, 2) + 1;
  for (const auto& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

struct Flags::State {
  struct Flag {
    std::string name;
    CLI::Option* option;
    std::function<std::string()> text;
    bool is_switch;
  };

  template <typename T>
  void add(std::string_view name, T& value, std::string_view help) {
    CLI::Option* option = app.add_option(std::string(name), value, std::string(help));
    option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)->group(group);
    if (!text_of(value).empty()) option->capture_default_str();
    flags.push_back({std::string(name), option, [&value] { return text_of(value); }, false});
  }

  std::string command;
  CLI::App app;
  std::string group = "Flags";
  std::vector<Flag> flags;
};

Flags::Flags(std::string command, const std::string& description)
    : state_(std::make_unique<State>()) {
  state_->app.description(description);
  state_->app.name(command);
  state_->app.allow_extras();
  state_->app.get_formatter()->column_width(44);
  state_->command = std::move(command);
}

Flags::~Flags() = default;

void Flags::section(std::string title) { state_->group = std::move(title); }

void Flags::add(std::string_view name, std::int64_t& value, std::string_view help) {
  state_->add(name, value, help);
}
void Flags::add(std::string_view name, double& value, std::string_view help) {
  state_->add(name, value, help);
}
void Flags::add(std::string_view name, std::optional<double>& value, std::string_view help) {
  state_->add(name, value, help);
}
void Flags::add(std::string_view name, std::string& value, std::string_view help) {
  state_->add(name, value, help);
}

void Flags::add(std::string_view name, std::vector<std::string>& values, std::string_view help) {
  CLI::Option* option = state_->app.add_option(std::string(name), values, std::string(help));
  option->group(state_->group);
  state_->flags.push_back(
      {std::string(name), option, [&values] { return CLI::detail::join(values, " "); }, false});
}

void Flags::add_switch(std::string_view name, bool& value, std::string_view help) {
  CLI::Option* option = state_->app.add_flag(std::string(name), value, std::string(help));
  option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)->group(state_->group);
  state_->flags.push_back({std::string(name), option,
                           [&value] { return std::string(value ? "true" : "false"); }, true});
}

void Flags::add_positional(std::string_view name, std::vector<std::string>& values, int at_least,
                           int at_most, std::string_view help) {
  state_->app.add_option(std::string(name), values, std::string(help))
      ->expected(at_least, at_most)
      ->required(at_least > 0);
}

void Flags::parse(const std::vector<std::string>& arguments) {
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  try {
    state_->app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    throw HelpRequested{state_->app.help()};
  } catch (const CLI::ParseError& error) {
    throw UsageError("{}: {} ({} --help lists the flags)", state_->command, error.what(),
                     state_->command);
  }
  for (const std::string& extra : state_->app.remaining()) {
    const std::string word = extra.substr(0, extra.find('='));
    if (!word.starts_with("-")) {
      throw UsageError("{}: {} belongs to no flag ({} --help lists the flags)", state_->command,
                       word, state_->command);
    }
    if (std::find(kNotYet.begin(), kNotYet.end(), word) != kNotYet.end()) {
      throw UsageError("{}: {} is not available in this version of Phalanx", state_->command, word);
    }
    std::vector<std::string> names;
    for (const auto& flag : state_->flags) names.push_back(flag.name);
    const auto meant = nearest(word, names);
    throw UsageError("{}: unknown flag {}{} ({} --help lists the flags)", state_->command, word,
                     meant ? "; did you mean " + *meant + "?" : "", state_->command);
  }
}

bool Flags::given(std::string_view name) const {
  return state_->app.get_option(std::string(name))->count() > 0;
}

std::vector<std::pair<std::string, std::string>> Flags::values() const {
  std::vector<std::pair<std::string, std::string>> result;
  for (const auto& flag : state_->flags) result.emplace_back(flag.name, flag.text());
  return result;
}

std::vector<std::string> Flags::arguments_from(
    const std::vector<std::pair<std::string, std::string>>& values) const {
  std::vector<std::string> arguments;
  for (const auto& [name, value] : values) {
    const auto flag =
        std::find_if(state_->flags.begin(), state_->flags.end(),
                     [&name = name](const auto& known) { return known.name == name; });
    if (flag == state_->flags.end() || value.empty()) continue;
    if (flag->is_switch && value != "true") continue;
    arguments.push_back(flag->is_switch ? name : name + "=" + value);
  }
  return arguments;
}

}  // namespace phalanx
