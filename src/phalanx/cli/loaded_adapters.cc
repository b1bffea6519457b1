#include "phalanx/cli/loaded_adapters.h"

#include <array>
#include <map>
#include <string>

#include "phalanx/base/error.h"
#include "phalanx/checkpoint/checkpoint_reader.h"
#include "phalanx/cli/checkpoint_arguments.h"
#include "phalanx/hugging_face/adapter_folder.h"
#include "phalanx/hugging_face/adapters.h"
#include "phalanx/saving/run_checkpoint.h"

namespace phalanx {
namespace {

constexpr std::array kFlags = {"--lora-rank",    "--lora-alpha",   "--lora-scaling",
                               "--lora-dropout", "--lora-targets", "--lora-layers",
                               "--trainable"};

void set_defaults(FlagSet& flags, const std::map<std::string, std::string>& arguments) {
  for (const char* flag : kFlags) {
    const auto said = arguments.find(flag);
    if (said != arguments.end() && !said->second.empty()) flags.set_default(flag, said->second);
  }
}

}  // namespace

void use_loaded_adapters(FlagSet& flags, const TrainConfig& config, const ModelArguments& model) {
  const std::string& load = config.lora.load;
  if (load.empty()) return;
  if (hugging_face::is_adapter_folder(load)) {
    const hugging_face::AdapterFolder folder(load, model);
    return set_defaults(flags, folder.settings().arguments().arguments());
  }
  set_defaults(flags, CheckpointReader::open(load, Verify::kNo).manifest().arguments);
}

void use_loaded_adapters(FlagSet& flags, const TrainConfig& config) {
  const std::string& load = config.lora.load;
  if (load.empty()) return;
  const auto model = checkpoint_of_model(config.run);
  if (!model) {
    if (flags.given("--lora-rank")) return;
    throw ConfigError(
        "--lora-load {}: adapters need the model that they are of: give --finetune --load DIR with "
        "its checkpoint",
        load);
  }
  const bool goes_on =
      !config.run.finetune && !begins_pretrained(config.run) && hugging_face::has_adapters(*model);
  if (goes_on) return set_defaults(flags, model->manifest().arguments);
  use_loaded_adapters(flags, config, ModelArguments(model->manifest().arguments));
}

}  // namespace phalanx
