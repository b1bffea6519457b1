#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/numeric.h"
#include "phalanx/cli/commands.h"
#include "phalanx/cli/tokenizer_flags.h"
#include "phalanx/data/bert_samples.h"
#include "phalanx/data/t5_samples.h"
#include "phalanx/families/conversation_sources.h"
#include "phalanx/families/family_sources.h"
#include "phalanx/flag_table/train_flags.h"
#include "phalanx/flags/flag_set.h"
#include "phalanx/rules/rules.h"
#include "phalanx/settings/config_views.h"
#include "phalanx/start/run_data.h"

namespace phalanx {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kBinaryHead = "--bert-no-binary-head";

struct SamplesOptions {
  TrainConfig config;
  std::string model = "gpt";
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

// The table of flags says of which models each is.
void check_model_flags(const FlagSet& flags, const std::string& model) {
  const auto check = [&](const TrainFlag& flag) {
    if (!flags.given(flag.spec.name) || is_of_family(flag, model)) return;
    throw UsageError("{}: no sample of --model {} depends on it; leave it out", flag.spec.name,
                     model);
  };
  for (const auto rows : {data_flags(), chat_flags()}) {
    for (const TrainFlag& flag : rows) {
      if (flag.target != nullptr) check(flag);
    }
  }
  check(*find_train_flag(kBinaryHead));
}

void add_flags(FlagSet& flags, TokenizerFlags& tokenizer, SamplesOptions& o) {
  flags.add({.name = "--model", .help = "Whose samples", .choices = "gpt bert t5"}, &o.model);
  for (const auto rows : {data_flags(), chat_flags()}) {
    for (const TrainFlag& flag : rows) {
      flags.add(flag.spec, flag.target != nullptr ? flag.target(o.config) : FlagTarget{});
    }
  }
  const TrainFlag& head = *find_train_flag(kBinaryHead);
  flags.add(head.spec, head.target(o.config));
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
  flags.add(
      {.name = "--json",
       .help = "One JSON document: {\"length\", \"samples\"}; of BERT and T5 also the "
               "\"index\" of the samples that are printed, [first sentence, end, target]; with "
               "--pack-documents also the \"documents\" of each, the tokens of every one; with "
               "--sft a sample is {\"tokens\", \"labels\", \"loss_mask\", \"position_ids\", "
               "\"documents\"}, -1 where there is none"},
      &o.json);
  tokenizer.add_to(flags);
}

// Tokens of each document of a sample of whole documents.
std::vector<std::int64_t> document_lengths(std::span<const std::int32_t> documents) {
  std::vector<std::int64_t> lengths;
  for (const std::int32_t document : documents) {
    if (document < 0) break;
    lengths.resize(static_cast<std::size_t>(document) + 1);
    ++lengths.back();
  }
  return lengths;
}

// In the order of the data set, because a cyclic order depends on the ranks.
Json gpt_samples(const SampleSource& source, std::int64_t count, bool is_packed) {
  const BatchSchema& schema = source.schema();
  Sample sample(schema);
  std::vector<double> counts(static_cast<std::size_t>(source.losses()));
  Json list = Json::array();
  Json documents = Json::array();
  for (std::int64_t i = 0; i < count; ++i) {
    source.fetch(i, sample, counts);
    const auto inputs = sample.column<std::int32_t>(schema.index("tokens"));
    std::vector<std::int32_t> tokens(inputs.begin(), inputs.end());
    if (is_packed) {
      documents.push_back(document_lengths(sample.column<std::int32_t>(schema.index("document"))));
    } else {
      tokens.push_back(sample.column<std::int32_t>(schema.index("labels")).back());
    }
    list.push_back(tokens);
  }
  Json found{{"samples", list}};
  if (is_packed) found["documents"] = documents;
  return found;
}

Json chat_samples(const SampleSource& source, std::int64_t count) {
  const BatchSchema& schema = source.schema();
  Sample sample(schema);
  std::vector<double> counts(static_cast<std::size_t>(source.losses()));
  const auto numbers = [&]<typename T>(T /*type*/, std::string_view column) {
    const auto all = sample.column<T>(schema.index(column));
    return std::vector<T>(all.begin(), all.end());
  };
  Json list = Json::array();
  for (std::int64_t i = 0; i < count; ++i) {
    source.fetch(i, sample, counts);
    list.push_back({{"tokens", numbers(std::int32_t{}, "tokens")},
                    {"labels", numbers(std::int32_t{}, "labels")},
                    {"loss_mask", numbers(float{}, "loss_mask")},
                    {"position_ids", numbers(std::int32_t{}, "position_ids")},
                    {"documents", numbers(std::int32_t{}, "document")}});
  }
  return {{"samples", list}};
}

Json to_json(const BertSample& sample) {
  return {{"text", sample.text},
          {"types", sample.types},
          {"labels", sample.labels},
          {"is_random", sample.is_random ? 1 : 0},
          {"loss_mask", sample.loss_mask},
          {"padding_mask", sample.padding_mask},
          {"truncated", sample.truncated ? 1 : 0}};
}

Json to_json(const T5Sample& sample) {
  return {{"text_enc", sample.text_enc},
          {"text_dec", sample.text_dec},
          {"labels", sample.labels},
          {"loss_mask", sample.loss_mask},
          {"truncated", sample.truncated ? 1 : 0}};
}

// For sources that are made of `Samples`.
template <typename Samples, typename Whole>
Json masked_samples(const SampleSource& source, std::int64_t count) {
  Json index = Json::array();
  Json list = Json::array();
  Whole sample;
  for (std::int64_t i = 0; i < count; ++i) {
    const SamplePlace place = source.place_of(i);
    const auto* const samples = dynamic_cast<const Samples*>(place.source);
    PHALANX_CHECK(samples != nullptr, "a source of another model");
    const SentenceSpan span = samples->dataset().mapping()[place.index];
    index.push_back({span.first, span.end, span.target});
    samples->dataset().sample(place.index, sample);
    list.push_back(to_json(sample));
  }
  return {{"index", index}, {"samples", list}};
}

std::unique_ptr<Tokenizer> named_tokenizer(const FlagSet& flags, const TokenizerFlags& tokenizer) {
  const bool is_named = flags.given("--tokenizer-type") || flags.given("--vocab-file") ||
                        flags.given("--tokenizer-model");
  return is_named ? tokenizer.make() : nullptr;
}

std::unique_ptr<DataSources> make_sources(const SamplesOptions& o, const SourceSeed& seed,
                                          const TokenizerOptions& tokenizer_options,
                                          const Tokenizer* tokenizer) {
  const DataConfig& data = o.config.data;
  if (data.sft) {
    if (tokenizer == nullptr) throw UsageError("--sft needs the tokenizer: give --tokenizer-type");
    return chat_sources(data, seed, tokenizer_options, *tokenizer);
  }
  if (o.model == "gpt") {
    // Without a tokenizer any id is allowed.
    const std::int64_t ids =
        tokenizer == nullptr ? std::numeric_limits<std::int32_t>::max() : tokenizer->vocab_size();
    return gpt_sources(data, seed, ids, tokenizer == nullptr ? -1 : tokenizer->end_of_document());
  }
  if (tokenizer == nullptr) {
    throw UsageError("--model {} needs the tokenizer: give --vocab-file, and --tokenizer-type",
                     o.model);
  }
  if (o.model == "bert") {
    return bert_sources(data, seed, *tokenizer, !o.config.model.bert_no_binary_head);
  }
  return t5_sources(data, seed, *tokenizer);
}

Json first_samples(const SamplesOptions& o, const SampleSource& source) {
  const std::int64_t count = std::min(o.first, source.size());
  if (o.model == "bert") return masked_samples<BertSamples, BertSample>(source, count);
  if (o.model == "t5") return masked_samples<T5Samples, T5Sample>(source, count);
  if (o.config.data.sft) return chat_samples(source, count);
  return gpt_samples(source, count, packs_documents(o.config.data));
}

void print(CommandIo& io, const SamplesOptions& o, std::int64_t length, const Json& found) {
  if (o.json) {
    Json document{{"length", length}};
    document.update(found);
    io.print("{}\n", document.dump());
    return;
  }
  io.print("{} samples\n", format_count(length));
  for (std::size_t i = 0; i < found["samples"].size(); ++i) {
    io.print("{}\n", found["samples"][i].dump());
    if (found.contains("documents")) {
      io.print("  documents of {} tokens\n",
               fmt::join(found["documents"][i].get<std::vector<std::int64_t>>(), ", "));
    }
  }
}

}  // namespace

int run_dataset_samples(CommandIo& io, const Arguments& arguments) {
  SamplesOptions o;
  TokenizerFlags tokenizer_flags;
  FlagSet flags("phalanx dataset samples", "What the model will see, in order.");
  add_flags(flags, tokenizer_flags, o);
  flags.parse(arguments, [&] {
    if (o.model != "gpt") flags.set_default("--tokenizer-type", "BertWordPieceLowerCase");
  });
  check_model_flags(flags, o.model);
  check_data(o.config.data, true);
  Faults faults;
  check_chat(o.config, faults);
  faults.raise();
  // Only counts that depend on the tokenizer's options would differ, and they are not shown here.
  o.config.data.eod_mask_loss = false;
  o.config.data.reset_position_ids = false;
  o.config.data.reset_attention_mask = false;
  if (o.config.data.full_validation) o.counts.valid = std::max<std::int64_t>(1, o.counts.valid);
  const auto tokenizer = named_tokenizer(flags, tokenizer_flags);
  const IndexCache cache(o.config.data.data_cache_path);
  const auto sources =
      make_sources(o, {.seed = static_cast<std::uint32_t>(o.config.run.seed), .cache = &cache},
                   tokenizer_flags.options(), tokenizer.get());
  const RunData data(o.config.data, *sources, o.counts);
  const SampleSource& source = *set_of(data, o).source;
  print(io, o, source.size(), first_samples(o, source));
  return 0;
}

}  // namespace phalanx
