// A program with a family of its own whose model goes on with a text: a GPT by another name, with a
// flag of its own. own_model_test.cc runs it.

#include <array>
#include <memory>

#include "phalanx/cli/family_program.h"
#include "phalanx/families/families.h"
#include "phalanx/settings/config_views.h"

namespace {

using phalanx::TrainConfig;

class EchoFamily final : public phalanx::ModelFamily {
 public:
  std::string_view name() const override { return "echo"; }
  std::string_view title() const override { return "model that says it again"; }
  std::span<const OwnFlag> flags() const override {
    static const auto own_flags = std::to_array<OwnFlag>(
        {{.spec = {.name = "--echo-note", .help = "A remark that checkpoints keep"},
          .default_value = "none"}});
    return own_flags;
  }
  std::shared_ptr<const phalanx::Model> model(const TrainConfig& config,
                                              std::int64_t vocabulary) const override {
    return std::make_shared<const phalanx::GptModel>(phalanx::gpt_config(config, vocabulary),
                                                     config.data.seq_length);
  }
  std::unique_ptr<phalanx::DataSources> sources(
      const TrainConfig& config, const phalanx::SourceSeed& seed,
      const phalanx::Tokenizer& tokenizer) const override {
    return phalanx::gpt_family()->sources(config, seed, tokenizer);
  }
};

}  // namespace

int main(int argc, char** argv) {
  return phalanx::run_family_program(std::make_shared<const EchoFamily>(), argc, argv);
}
