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
#include "phalanx/base/memory_need.h"
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

// Samples as JSON, one at a time: a user may ask for more than memory holds.
class ShownSamples {
 public:
  virtual ~ShownSamples() = default;
  virtual Json sample(std::int64_t i) = 0;
  // Lists about all samples, in front of them and behind.
  virtual Json before(std::int64_t /*count*/) { return Json::object(); }
  virtual Json after() { return Json::object(); }
};

// In the order of the data set, because a cyclic order depends on the ranks.
class GptShown final : public ShownSamples {
 public:
  GptShown(const SampleSource& source, bool is_packed)
      : source_(source),
        sample_(source.schema()),
        counts_(static_cast<std::size_t>(source.losses())),
        is_packed_(is_packed) {}

  Json sample(std::int64_t i) override {
    const BatchSchema& schema = source_.schema();
    source_.fetch(i, sample_, counts_);
    const auto inputs = sample_.column<std::int32_t>(schema.index("tokens"));
    Json tokens = std::vector<std::int32_t>(inputs.begin(), inputs.end());
    if (is_packed_) {
      documents_.push_back(
          document_lengths(sample_.column<std::int32_t>(schema.index("document"))));
    } else {
      tokens.push_back(sample_.column<std::int32_t>(schema.index("labels")).back());
    }
    return tokens;
  }
  Json after() override {
    return is_packed_ ? Json{{"documents", std::move(documents_)}} : Json::object();
  }

 private:
  const SampleSource& source_;
  Sample sample_;
  std::vector<double> counts_;
  bool is_packed_;
  Json documents_ = Json::array();
};

class ChatShown final : public ShownSamples {
 public:
  explicit ChatShown(const SampleSource& source)
      : source_(source),
        sample_(source.schema()),
        counts_(static_cast<std::size_t>(source.losses())) {}

  Json sample(std::int64_t i) override {
    source_.fetch(i, sample_, counts_);
    const auto numbers = [&]<typename T>(T /*type*/, std::string_view column) {
      const auto all = sample_.column<T>(source_.schema().index(column));
      return std::vector<T>(all.begin(), all.end());
    };
    return {{"tokens", numbers(std::int32_t{}, "tokens")},
            {"labels", numbers(std::int32_t{}, "labels")},
            {"loss_mask", numbers(float{}, "loss_mask")},
            {"position_ids", numbers(std::int32_t{}, "position_ids")},
            {"documents", numbers(std::int32_t{}, "document")}};
  }

 private:
  const SampleSource& source_;
  Sample sample_;
  std::vector<double> counts_;
};

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
class MaskedShown final : public ShownSamples {
 public:
  explicit MaskedShown(const SampleSource& source) : source_(source) {}

  Json sample(std::int64_t i) override {
    const SamplePlace place = source_.place_of(i);
    samples_of(place).dataset().sample(place.index, whole_);
    return to_json(whole_);
  }
  Json before(std::int64_t count) override {
    Json index = Json::array();
    for (std::int64_t i = 0; i < count; ++i) {
      const SamplePlace place = source_.place_of(i);
      const SentenceSpan span = samples_of(place).dataset().mapping()[place.index];
      index.push_back({span.first, span.end, span.target});
    }
    return {{"index", index}};
  }

 private:
  static const Samples& samples_of(const SamplePlace& place) {
    const auto* const samples = dynamic_cast<const Samples*>(place.source);
    PHALANX_CHECK(samples != nullptr, "a source of another model");
    return *samples;
  }

  const SampleSource& source_;
  Whole whole_;
};

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

std::unique_ptr<ShownSamples> shown_samples(const SamplesOptions& o, const SampleSource& source) {
  if (o.model == "bert") return std::make_unique<MaskedShown<BertSamples, BertSample>>(source);
  if (o.model == "t5") return std::make_unique<MaskedShown<T5Samples, T5Sample>>(source);
  if (o.config.data.sft) return std::make_unique<ChatShown>(source);
  return std::make_unique<GptShown>(source, packs_documents(o.config.data));
}

// A sample as it is read, as JSON and as its text; before its order is made, which takes long where
// samples are.
void expect_sample_fits(const SamplesOptions& o) {
  constexpr double kBytesOfColumns = 16;  // of a row, at least
  constexpr double kBytesOfNumber = sizeof(Json) + 8;
  const DataConfig& data = o.config.data;
  const double numbers = o.model == "gpt" && !data.sft ? 1 : 5;
  const double rows =
      static_cast<double>(data.seq_length) + static_cast<double>(data.decoder_seq_length);
  const bool has_decoder = data.decoder_seq_length > 0;
  expect_memory(
      fmt::format(
          "a sample of --seq-length {}{}", data.seq_length,
          has_decoder ? fmt::format(" and --decoder-seq-length {}", data.decoder_seq_length) : ""),
      rows * (kBytesOfColumns + numbers * kBytesOfNumber),
      has_decoder ? "give smaller ones" : "give a smaller one");
}

// `{"a": [...]}` as it stands inside of a larger object.
std::string members_of(const Json& object, bool is_first) {
  if (object.empty()) return "";
  std::string text = object.dump();
  text = text.substr(1, text.size() - 2);
  return is_first ? text + "," : "," + text;
}

void print(CommandIo& io, const SamplesOptions& o, const SampleSource& source) {
  const std::int64_t count = std::min(o.first, source.size());
  const auto shown = shown_samples(o, source);
  if (o.json) {
    io.print("{{\"length\":{},{}\"samples\":[", source.size(),
             members_of(shown->before(count), true));
    for (std::int64_t i = 0; i < count; ++i) {
      io.print("{}{}", i > 0 ? "," : "", shown->sample(i).dump());
    }
    io.print("]{}}}\n", members_of(shown->after(), false));
    return;
  }
  io.print("{} samples\n", format_count(source.size()));
  for (std::int64_t i = 0; i < count; ++i) {
    io.print("{}\n", shown->sample(i).dump());
    const Json behind = shown->after();
    if (behind.contains("documents")) {
      io.print("  documents of {} tokens\n",
               fmt::join(behind["documents"].back().get<std::vector<std::int64_t>>(), ", "));
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
  if (o.first > 0) expect_sample_fits(o);
  const RunData data(o.config.data, *sources, o.counts);
  print(io, o, *set_of(data, o).source);
  return 0;
}

}  // namespace phalanx
