// `finetune chat`: from a model and a file of conversations to a model that answers.

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"
#include "phalanx/base/input_path.h"
#include "phalanx/base/log.h"
#include "phalanx/checkpoint/checkpoint_directory.h"
#include "phalanx/cli/chat_tuning.h"
#include "phalanx/cli/chosen_device.h"
#include "phalanx/cli/finetune_commands.h"
#include "phalanx/cli/training_run.h"
#include "phalanx/metrics/metrics_file.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;

struct Evaluated {
  fs::path directory;
  std::int64_t iteration = 0;
  double loss = 0.0;
};

// Of the checkpoints in `save`, the one with the lowest validation loss; several sets count by
// their mean. None: nothing was evaluated where a checkpoint is.
std::optional<Evaluated> best_checkpoint(const fs::path& save) {
  const fs::path metrics = save / kMetricsName;
  if (!path_exists(metrics)) return std::nullopt;
  std::map<std::int64_t, std::map<std::string, double>> losses;  // by iteration and set
  std::istringstream lines(read_file(metrics));
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object() || json.value("eval", "") != "valid") continue;
    const auto loss = json.find("lm_loss");
    if (loss == json.end() || !loss->is_number()) continue;
    losses[json.value("iteration", std::int64_t{0})][json.value("set", "")] = loss->get<double>();
  }
  std::optional<Evaluated> best;
  for (const auto& [iteration, sets] : losses) {
    const fs::path directory = directory_of_iteration(save, iteration);
    if (!path_exists(directory)) continue;
    double mean = 0.0;
    for (const auto& [set, loss] : sets) mean += loss / static_cast<double>(sets.size());
    if (!best || mean < best->loss) best = Evaluated{directory, iteration, mean};
  }
  return best;
}

void say_best(const RunConfig& run) {
  const auto best = best_checkpoint(run.save);
  if (!best) {
    log_info(
        "nothing was held out, so no checkpoint is known to be the best: the last one is in {}",
        run.save);
    return;
  }
  log_info("best checkpoint: {}, of iteration {}, validation loss {:.4f}", best->directory.string(),
           best->iteration, best->loss);
  log_info("ask it: phalanx generate --chat --interactive --load {}", best->directory.string());
}

// Imports a folder, unless other processes would do it at the same time.
int import_base(CommandIo& io, const ChatBase& base,
                const std::optional<LaunchEnvironment>& environment) {
  if (environment && environment->world_size > 1) {
    throw ConfigError(
        "--load: a folder of Hugging Face's, and this run has {} processes: import it first, with "
        "phalanx import hf --input DIR --output {}",
        environment->world_size, base.checkpoint().string());
  }
  return base.import(io);
}

}  // namespace

int finetune_chat(CommandIo& io, const Arguments& arguments) {
  TrainConfig config;
  const auto environment = begin_process(io, config);
  ChatTuning tuning(config);
  FlagSet flags("phalanx finetune chat",
                "Trains a language model on conversations: all of it, or adapters.");
  tuning.add_flags(flags);
  add_start_flags(flags, config);
  flags.add_example(
      "phalanx finetune chat --load Llama-3.2-1B-Instruct --data chats.jsonl --save RUN",
      "a published folder, all weights");
  flags.add_example(
      "phalanx finetune chat --load Llama-3.2-1B-Instruct --data chats.jsonl --save RUN --lora",
      "adapters of rank 16, in a small part of the memory");
  const bool is_alone = !environment || environment->world_size == 1;
  flags.parse(
      arguments, [&] { tuning.set_defaults(flags); },
      [&] {
        tuning.settle(flags, true,
                      !is_alone ? nullptr : ChatTuning::Kernels([](const TrainConfig& c) {
                        return chosen_device(c, DeviceUse::kCompute);
                      }));
      });
  if (flags.prints_yaml()) {
    io.put(flags.to_yaml());
    return 0;
  }
  for (const std::string& note : tuning.notes()) log_info("{}", note);
  if (tuning.base().must_be_imported()) {
    const int status = import_base(io, tuning.base(), environment);
    if (status != 0) return status;
  }
  if (tuning.goes_on()) {
    if (config.run.train_iters > 0 && tuning.saved_iteration() >= config.run.train_iters) {
      log_info("--save {}: all of its {} iterations are done; --epochs N trains for longer",
               config.run.save, tuning.saved_iteration());
      say_best(config.run);
      return 0;
    }
    log_info("--save {}: goes on after iteration {}", config.run.save, tuning.saved_iteration());
  }
  const int status = run_training(io, environment, flags, config);
  if (status != 0) return status;
  if (!environment || environment->rank == 0) say_best(config.run);
  return 0;
}

}  // namespace phalanx
