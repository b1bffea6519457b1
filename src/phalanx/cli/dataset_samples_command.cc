#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/numeric.h"
#include "phalanx/cli/commands.h"
#include "phalanx/cli/tokenizer_flags.h"
#include "phalanx/flags/flag_set.h"
#include "phalanx/train/config_rules.h"
#include "phalanx/train/flags.h"
#include "phalanx/train/run_data.h"

namespace phalanx {
namespace {

using Json = nlohmann::ordered_json;

struct SamplesOptions {
  TrainConfig config;
  std::string of = "train", set;
  std::int64_t first = 1;
  SampleCounts counts;
  bool json = false;
};

SplitKind kind_of(const std::string& name) {
  return *std::ranges::find_if(kSplitKinds, [&](SplitKind kind) { return name_of(kind) == name; });
}

const RunData::Set& set_of(const RunData& data, const SamplesOptions& o) {
  const auto& sets = data.sets(kind_of(o.of));
  if (sets.empty()) {
    throw ConfigError("--of {}: this part is empty; see --split and --{}-samples", o.of, o.of);
  }
  if (o.set.empty()) return sets.front();
  std::string names;
  for (const RunData::Set& set : sets) {
    if (set.name == o.set) return set;
    names += (names.empty() ? "" : ", ") + set.name;
  }
  throw ConfigError("--set {}: there is {}", o.set, names.empty() ? "no such set" : names);
}

void add_flags(FlagSet& flags, TokenizerFlags& tokenizer, SamplesOptions& o) {
  for (const TrainFlag& flag : data_flags()) flags.add(flag.spec, flag.target(o.config));
  flags.add({.name = "--seed", .help = "Seed of the order", .range = from_to(1, UINT32_MAX)},
            &o.config.run.seed);
  flags.add(
      {.name = "--train-samples", .help = "Samples that training asks for", .range = at_least(0)},
      &o.counts.train);
  flags.add(
      {.name = "--valid-samples", .help = "Samples that validation asks for", .range = at_least(0)},
      &o.counts.valid);
  flags.add(
      {.name = "--test-samples", .help = "Samples that the test asks for", .range = at_least(0)},
      &o.counts.test);
  flags.add({.name = "--of", .help = "Which part", .choices = "train valid test"}, &o.of);
  flags.add({.name = "--set",
             .help = "Which of several validation sets (the first one)",
             .value_name = "NAME"},
            &o.set);
  flags.add({.name = "--first", .help = "How many samples to print", .range = at_least(0)},
            &o.first);
  flags.add({.name = "--json", .help = "One JSON document: {\"length\", \"samples\"}"}, &o.json);
  tokenizer.add_to(flags);
}

// In the order of the data set: a cyclic order belongs to ranks.
Json first_samples(const SampleSource& source, std::int64_t count) {
  const BatchSchema& schema = source.schema();
  Sample sample(schema);
  std::vector<double> counts(static_cast<std::size_t>(source.losses()));
  Json list = Json::array();
  for (std::int64_t i = 0; i < std::min(count, source.size()); ++i) {
    source.fetch(i, sample, counts);
    const auto inputs = sample.column<std::int32_t>(schema.index("tokens"));
    std::vector<std::int32_t> tokens(inputs.begin(), inputs.end());
    tokens.push_back(sample.column<std::int32_t>(schema.index("labels")).back());
    list.push_back(tokens);
  }
  return list;
}

}  // namespace

int run_dataset_samples(const Arguments& arguments) {
  SamplesOptions o;
  TokenizerFlags tokenizer_flags;
  FlagSet flags("phalanx dataset samples", "What the model will see, in order.");
  add_flags(flags, tokenizer_flags, o);
  flags.parse(arguments);
  check_data(o.config.data, true);
  // Any id will do where nobody says which there are.
  std::int64_t vocabulary_size = std::numeric_limits<std::int32_t>::max();
  std::int32_t eod = -1;
  if (flags.given("--tokenizer-type") || flags.given("--vocab-file") ||
      flags.given("--tokenizer-model")) {
    const auto tokenizer = tokenizer_flags.make();
    vocabulary_size = tokenizer->vocab_size();
    eod = tokenizer->end_of_document();
  }
  // Only counts of what a tokenizer's options mask and reset would differ, which nobody sees here.
  o.config.data.eod_mask_loss = false;
  o.config.data.reset_position_ids = false;
  o.config.data.reset_attention_mask = false;
  if (o.config.data.full_validation) o.counts.valid = std::max<std::int64_t>(1, o.counts.valid);
  const RunData data(o.config.data, static_cast<std::uint32_t>(o.config.run.seed), vocabulary_size,
                     eod, o.counts);
  const SampleSource& source = *set_of(data, o).source;
  const Json list = first_samples(source, o.first);
  if (o.json) {
    fmt::print("{}\n", Json{{"length", source.size()}, {"samples", list}}.dump());
    return 0;
  }
  fmt::print("{} samples\n", format_count(source.size()));
  for (const auto& sample : list) fmt::print("{}\n", sample.dump());
  return 0;
}

}  // namespace phalanx
