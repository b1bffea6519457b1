#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/input_path.h"
#include "phalanx/checkpoint/checkpoint_directory.h"
#include "phalanx/checkpoint/checkpoint_reader.h"
#include "phalanx/cli/checkpoint_arguments.h"
#include "phalanx/cli/chosen_device.h"
#include "phalanx/cli/commands.h"
#include "phalanx/cli/finetune_commands.h"
#include "phalanx/cli/training_run.h"
#include "phalanx/cli/verb.h"
#include "phalanx/families/family.h"
#include "phalanx/flag_table/train_flags.h"
#include "phalanx/rules/resolve.h"
#include "phalanx/saving/run_checkpoint.h"
#include "phalanx/settings/config_views.h"
#include "phalanx/tasks/bag_of_words.h"
#include "phalanx/tasks/classification.h"
#include "phalanx/tasks/classify_family.h"
#include "phalanx/tasks/classify_options.h"

namespace phalanx {
namespace {

struct FinetuneOptions {
  ClassifyOptions classify;
  bool bag_of_words = false;
};

void add_flags(FlagSet& flags, FinetuneOptions& o) {
  ClassifyOptions& c = o.classify;
  flags.section("Classification");
  flags.add({.name = "--num-classes",
             .help = "Labels (0: as many as --labels names, or the format has)",
             .range = at_least(0)},
            &c.num_classes);
  flags.add({.name = "--table-format",
             .help = "plain: any tab-separated file; mnli, qqp: the columns of these tasks",
             .choices = "plain mnli qqp"},
            &c.table_format);
  flags.add({.name = "--text-columns",
             .help = "The column of the text, or of both: numbers from 0 on, from the end -1, -2, "
                     "..., or names in the header",
             .value_name = "COLUMN"},
            &c.text_columns);
  flags.add({.name = "--label-column", .help = "Likewise", .value_name = "COLUMN"},
            &c.label_column);
  flags.add({.name = "--header", .help = "The first row of a plain file is a header"}, &c.header);
  flags.add({.name = "--labels",
             .help = "Words of the labels, the first is class 0; without, they are numbers",
             .value_name = "WORD"},
            &c.labels);
  flags.add({.name = "--epochs",
             .help = "How often the training data is read (0: only the evaluation)",
             .range = from_to(0, 1e6)},
            &c.epochs);
  flags.add({.name = "--keep-last-batch",
             .help = "An epoch ends with a smaller batch where samples do not fill the last one; "
                     "without, they are left out (Megatron: --keep-last)"},
            &c.keep_last_batch);
  flags.add({.name = "--bag-of-words",
             .help = "Before training, the accuracy of logistic regression on which tokens there "
                     "are, whatever their order"},
            &o.bag_of_words);
}

// Sets what depends on the data: an epoch ends with an evaluation and a checkpoint. Returns the
// iterations of an epoch.
std::int64_t plan_epochs(const FlagSet& flags, TrainConfig& config,
                         const ClassifyOptions& options) {
  RunConfig& run = config.run;
  run.train_iters = 1;
  if (config.data.valid_data_path.empty()) {
    config.data.full_validation = config.data.multiple_validation_sets = false;
    run.eval_iters = 0;
  }
  if (options.epochs == 0) return 0;
  if (run.save.empty()) {
    throw ConfigError("--save must be given: what an epoch has come to is kept there");
  }
  if (config.data.train_data_path.empty()) throw ConfigError("--train-data must be given");
  TrainConfig probe = config;
  resolve(probe, true);
  const std::int64_t samples = std::ssize(
      read_tables(config.data.train_data_path, options, TableUse::kTraining, Tell::kNothing).texts);
  const std::int64_t batches =
      batches_of_epoch(samples, batch_schedule(probe).last(), options.keep_last_batch);
  run.train_iters = options.epochs * batches;
  run.eval_interval = run.save_interval = batches;
  if (!flags.given("--keep-last")) run.keep_last = std::max(run.keep_last, options.epochs);
  return batches;
}

// A classifier that is trained on, or evaluated, keeps the names of its classes.
void check_labels(const RunConfig& run, const ClassifyOptions& options) {
  const bool is_new = run.load.empty() || begins_pretrained(run);
  if (is_new && options.epochs > 0) return;
  const std::string& from = is_new ? run.pretrained_checkpoint : run.load;
  if (from.empty()) return;
  const auto checkpoint = CheckpointReader::open_if_any(from, Verify::kNo);
  if (!checkpoint) return;
  const auto& arguments = checkpoint->manifest().arguments;
  const auto family = arguments.find(std::string(kFamilyArgument));
  if (family == arguments.end() || family->second != kClassifyFamily) return;
  const auto then = ClassifyOptions::from_text(arguments).label_names();
  const auto now = options.label_names();
  if (then == now) return;
  throw ConfigError(
      "--labels: the classes are {}, but those of the checkpoint in {} are {}: give them in its "
      "order",
      fmt::join(now, ", "), from, fmt::join(then, ", "));
}

// The tables that are evaluated.
struct Validation {
  std::vector<std::string> names;
  std::vector<LabelledTexts> texts;
};

Validation read_validation(const TrainConfig& config, const ClassifyOptions& options) {
  Validation result;
  // A run prints this itself.
  const Tell tell = options.epochs > 0 ? Tell::kNothing : Tell::kAll;
  for (const std::string& path : config.data.valid_data_path) {
    result.names.push_back(validation_name(path));
    result.texts.push_back(read_tables({path}, options, TableUse::kValidation, tell));
  }
  return result;
}

std::vector<WordBag> bags_of(const LabelledTexts& texts, const Tokenizer& tokenizer) {
  std::vector<WordBag> bags;
  for (const LabelledText& text : texts.texts) {
    WordBag bag{.tokens = tokenizer.encode(text.a), .label = text.label};
    const auto b = tokenizer.encode(text.b);
    bag.tokens.insert(bag.tokens.end(), b.begin(), b.end());
    std::ranges::sort(bag.tokens);
    bags.push_back(std::move(bag));
  }
  return bags;
}

// Trains the baseline and says how good it is on every set.
void compare_with_bag_of_words(CommandIo& io, const TrainConfig& config,
                               const ClassifyOptions& options, const Validation& valid) {
  const auto tokenizer = make_tokenizer(config.tokenizer);
  const BagOfWords model(
      bags_of(
          read_tables(config.data.train_data_path, options, TableUse::kTraining, Tell::kNothing),
          *tokenizer),
      tokenizer->vocab_size(), options.classes(), static_cast<std::uint64_t>(config.run.seed));
  for (std::size_t i = 0; i < valid.texts.size(); ++i) {
    Confusion found(options.classes());
    for (const WordBag& bag : bags_of(valid.texts[i], *tokenizer)) {
      found.add(bag.label, model.predict(bag));
    }
    io.print(" > bag of words: metrics for {}: correct / total = {} / {} = {:.4f} %\n",
             valid.names[i], found.correct(), found.total(),
             100.0 * static_cast<double>(found.correct()) / static_cast<double>(found.total()));
  }
}

// Megatron's lines of one checkpoint.
void evaluate_checkpoint(CommandIo& io, const TrainConfig& config, const ClassifyOptions& options,
                         const Validation& valid, const std::string& directory,
                         std::int64_t epoch) {
  const auto checkpoint = CheckpointReader::open(directory, Verify::kWeights);
  const auto tokenizer = make_tokenizer(config.tokenizer);
  Classifier classifier(config, classifier_config(config, tokenizer->vocab_size()), *tokenizer,
                        checkpoint, chosen_device(config, DeviceUse::kCompute));
  Confusion all(options.classes());
  for (std::size_t i = 0; i < valid.texts.size(); ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const Confusion found = classifier.evaluate(
        ClassificationSamples(valid.texts[i], *tokenizer, config.data.seq_length));
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    io.print("{}, elapsed time (sec): {:.3f}\n", accuracy_line(epoch, valid.names[i], found),
             time.count());
    io.print(" > |epoch: {}| F1 for {}: {:.4f}\n", epoch, valid.names[i], found.f1());
    all.add(found);
  }
  if (!valid.texts.empty()) io.print("{}\n", overall_line(epoch, all));
  io.flush();
}

// Evaluates the checkpoint of every epoch that exists; if nothing was trained, the loaded one.
void evaluate_epochs(CommandIo& io, TrainConfig config, const ClassifyOptions& options,
                     const Validation& valid, std::int64_t batches) {
  const RunConfig run = config.run;
  const std::string device = config.layout.device;
  config = for_inference(config);
  config.layout.device = device;
  config.layout.threads_per_rank = 0;
  resolve(config, false);
  if (options.epochs == 0) {
    const std::string& from = run.load.empty() ? run.pretrained_checkpoint : run.load;
    if (from.empty()) throw ConfigError("--epochs 0 evaluates a checkpoint: give --load");
    evaluate_checkpoint(io, config, options, valid, from, -1);
    return;
  }
  for (std::int64_t epoch = 0; epoch < options.epochs; ++epoch) {
    const auto directory = directory_of_iteration(run.save, (epoch + 1) * batches);
    if (!path_exists(directory)) continue;
    evaluate_checkpoint(io, config, options, valid, directory.string(), epoch);
  }
}

int finetune_classifier(CommandIo& io, const Arguments& arguments) {
  TrainConfig config;
  config.family = classify_family();
  config.model.family = "bert";  // it has the flags of a BERT
  config.run.use_checkpoint_args = true;
  config.data.full_validation = config.data.multiple_validation_sets = true;
  const auto environment = begin_process(io, config);
  FinetuneOptions options;
  FlagSet flags("phalanx finetune classify",
                "Trains a BERT to say which class a text, or a pair of texts, is of.");
  add_flags(flags, options);
  // Megatron's vision models have a --num-classes, too.
  add_other_train_flags(flags, config);
  add_start_flags(flags, config);
  flags.add_example(
      "phalanx finetune classify --pretrained-checkpoint BERT --train-data train.tsv --valid-data "
      "dev.tsv --text-columns 0 1 --num-classes 2 --epochs 3 --micro-batch-size 16 --lr 5e-5 "
      "--save RUN",
      "pairs of texts, and their label in the last column");
  std::int64_t batches = 0;
  flags.parse(
      arguments,
      [&] {
        use_checkpoint_arguments(flags, config);
        // Known only from the data.
        flags.set_default("--train-iters", "1");
        flags.set_default("--save-interval", "1");
        config.family_options = options.classify.to_text();
      },
      [&] {
        options.classify.classes();
        check_labels(config.run, options.classify);
        batches = plan_epochs(flags, config, options.classify);
        resolve(config, options.classify.epochs > 0);
      });
  if (flags.prints_yaml()) {
    io.put(flags.to_yaml());
    return 0;
  }
  const bool is_first = !environment || environment->rank == 0;
  const Validation valid = read_validation(config, options.classify);
  if (options.bag_of_words && is_first) {
    compare_with_bag_of_words(io, config, options.classify, valid);
  }
  if (options.classify.epochs > 0) {
    const int status = run_training(io, environment, flags, config);
    if (status != 0) return status;
  }
  if (is_first) evaluate_epochs(io, config, options.classify, valid, batches);
  return 0;
}

}  // namespace

int run_finetune(CommandIo& io, const Arguments& arguments) {
  constexpr std::array<Verb, 2> kVerbs = {{{"chat", "what an assistant says in conversations"},
                                           {"classify", "which class a text is of"}}};
  const std::string verb = verb_of("phalanx finetune", kVerbs, arguments);
  const Arguments others(arguments.begin() + 1, arguments.end());
  return verb == "chat" ? finetune_chat(io, others) : finetune_classifier(io, others);
}

}  // namespace phalanx
