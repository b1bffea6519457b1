#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/base/numeric.h"
#include "phalanx/cli/commands.h"
#include "phalanx/cli/tokenizer_flags.h"
#include "phalanx/cli/verb.h"
#include "phalanx/data/dataset_info.h"
#include "phalanx/data/gpt_dataset.h"
#include "phalanx/data/indexed_dataset_writer.h"
#include "phalanx/flags/flag_set.h"

namespace phalanx {
namespace {

using Json = nlohmann::ordered_json;

IndexedDataset open_dataset(const std::string& prefix) { return IndexedDataset(prefix); }

int info(const Arguments& arguments) {
  std::string path;
  bool json = false;
  FlagSet flags("phalanx dataset info", "What is in a dataset.");
  flags.add({.name = "--data-path",
             .help = "Prefix of the .bin and .idx files",
             .value_name = "PREFIX",
             .required = true},
            &path);
  flags.add({.name = "--json", .help = "One JSON document"}, &json);
  flags.parse(arguments);
  const DatasetInfo info = dataset_info(open_dataset(path));
  const Json document = {{"sequences", info.sequences},
                         {"documents", info.documents},
                         {"empty_documents", info.empty_documents},
                         {"tokens", info.tokens},
                         {"dtype", name_of(info.type)},
                         {"bin_bytes", info.bin_bytes},
                         {"idx_bytes", info.idx_bytes},
                         {"shortest_sequence", info.shortest_sequence},
                         {"longest_sequence", info.longest_sequence}};
  if (json) {
    fmt::print("{}\n", document.dump(2));
    return 0;
  }
  for (const auto& [key, value] : document.items()) {
    fmt::print(
        "  {:<18} {:>16}\n", key,
        value.is_number() ? format_count(value.get<std::int64_t>()) : value.get<std::string>());
  }
  return 0;
}

int check(const Arguments& arguments) {
  std::string path;
  std::int64_t vocabulary = 0;
  FlagSet flags("phalanx dataset check", "Reads every token and checks its range.");
  flags.add({.name = "--data-path",
             .help = "Prefix of the .bin and .idx files",
             .value_name = "PREFIX",
             .required = true},
            &path);
  flags.add({.name = "--vocab-size",
             .help = "Ids must be below this (0: print the range only)",
             .range = at_least(0)},
            &vocabulary);
  flags.parse(arguments);
  const IndexedDataset data = open_dataset(path);
  if (vocabulary > 0) check_token_ids(data, vocabulary);
  const TokenIdRange range = token_id_range(data);
  fmt::print("{} tokens, ids {} to {}\n", format_count(data.tokens()), range.smallest,
             range.largest);
  return 0;
}

int head(const Arguments& arguments) {
  std::string path;
  std::int64_t count = 1;
  std::int64_t tokens = 64;
  TokenizerFlags tokenizer_flags;
  FlagSet flags("phalanx dataset head", "The first tokens of the first sequences.");
  flags.add({.name = "--data-path",
             .help = "Prefix of the .bin and .idx files",
             .value_name = "PREFIX",
             .required = true},
            &path);
  flags.add({.name = "--count", .help = "Sequences", .range = at_least(0)}, &count);
  flags.add({.name = "--tokens", .help = "Tokens of each", .range = at_least(0)}, &tokens);
  tokenizer_flags.add_to(flags);
  flags.parse(arguments);
  const IndexedDataset data = open_dataset(path);
  const bool as_text = flags.given("--vocab-file") || flags.given("--tokenizer-model");
  const auto tokenizer = as_text ? tokenizer_flags.make() : nullptr;
  for (std::int64_t i = 0; i < std::min(count, data.sequences()); ++i) {
    std::vector<std::int32_t> ids(
        static_cast<std::size_t>(std::min<std::int64_t>(tokens, data.length(i))));
    data.get(i, 0, ids);
    fmt::print("{}\n", as_text ? tokenizer->decode(ids) : Json(ids).dump());
  }
  return 0;
}

int merge(const Arguments& arguments) {
  std::vector<std::string> inputs;
  std::string output;
  FlagSet flags("phalanx dataset merge", "Several datasets, one after the other, as one.");
  flags.add({.name = "--input", .help = "Prefixes", .value_name = "PREFIX", .required = true},
            &inputs);
  flags.add({.name = "--output-prefix",
             .help = "Prefix of the new dataset",
             .value_name = "PREFIX",
             .required = true},
            &output);
  flags.parse(arguments);
  merge_datasets(inputs, output);
  log_info("{}.bin, {}.idx", output, output);
  return 0;
}

struct SamplesOptions {
  std::string path, split = "969, 30, 1", of = "train", order = "megatron", cache;
  std::int64_t seq_length = 0, seed = 1234, first = 1;
  SampleCounts counts;
  bool json = false;
};

const GptDataset& part(const GptDatasets& datasets, const SamplesOptions& o) {
  const auto& found = o.of == "train"   ? datasets.train
                      : o.of == "valid" ? datasets.valid
                                        : datasets.test;
  if (!found) {
    throw ConfigError("--of {}: this part is empty; see --split and --{}-samples", o.of, o.of);
  }
  return *found;
}

int samples(const Arguments& arguments) {
  SamplesOptions o;
  FlagSet flags("phalanx dataset samples", "What the model will see, in order.");
  flags.add({.name = "--data-path",
             .help = "Prefix of the .bin and .idx files",
             .value_name = "PREFIX",
             .required = true},
            &o.path);
  flags.add({.name = "--split",
             .type = FlagType::kNumbers,
             .help = "Shares of training, validation and test data"},
            &o.split);
  flags.add({.name = "--seq-length",
             .help = "Tokens of a sample, labels aside",
             .required = true,
             .range = from_to(1, INT32_MAX)},
            &o.seq_length);
  flags.add({.name = "--seed", .help = "Seed of the order", .range = from_to(1, UINT32_MAX)},
            &o.seed);
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
  flags.add({.name = "--first", .help = "How many samples to print", .range = at_least(0)},
            &o.first);
  flags.add({.name = "--data-order",
             .help = "Shuffled, or windows in file order",
             .choices = "megatron sequential"},
            &o.order);
  flags.add({.name = "--data-cache-path",
             .help = "Directory that keeps the order of samples",
             .value_name = "DIR"},
            &o.cache);
  flags.add({.name = "--json", .help = "One JSON document: {\"length\", \"samples\"}"}, &o.json);
  flags.parse(arguments);
  const auto data = std::make_shared<const IndexedDataset>(open_dataset(o.path));
  const IndexCache cache(o.cache);
  const GptDatasets datasets = build_gpt_datasets(
      data, Split(o.split), o.counts,
      {.sequence_length = o.seq_length,
       .vocabulary_size = INT32_MAX,
       .seed = static_cast<std::uint32_t>(o.seed),
       .order = o.order == "sequential" ? DataOrder::kSequential : DataOrder::kMegatron,
       .cache = o.cache.empty() ? nullptr : &cache});
  const GptDataset& dataset = part(datasets, o);
  Json list = Json::array();
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(o.seq_length) + 1);
  for (std::int64_t i = 0; i < std::min(o.first, dataset.size()); ++i) {
    dataset.sample(i, tokens);
    list.push_back(tokens);
  }
  if (o.json) {
    fmt::print("{}\n", Json{{"length", dataset.size()}, {"samples", list}}.dump());
    return 0;
  }
  fmt::print("{} samples\n", format_count(dataset.size()));
  for (const auto& sample : list) fmt::print("{}\n", sample.dump());
  return 0;
}

}  // namespace

int run_dataset(const Arguments& arguments) {
  constexpr std::array<Verb, 5> kVerbs = {{{"info", "how many sequences, documents and tokens"},
                                           {"check", "whether every token is in range"},
                                           {"head", "the first tokens"},
                                           {"merge", "several datasets as one"},
                                           {"samples", "what the model will see, in order"}}};
  const std::string verb = verb_of("phalanx dataset", kVerbs, arguments);
  const Arguments rest(arguments.begin() + 1, arguments.end());
  if (verb == "info") return info(rest);
  if (verb == "check") return check(rest);
  if (verb == "head") return head(rest);
  if (verb == "merge") return merge(rest);
  return samples(rest);
}

}  // namespace phalanx
