#pragma once
// The model that `finetune chat` begins with: a checkpoint, or a folder of Hugging Face's that is
// imported once.

#include <filesystem>
#include <map>
#include <string>

#include "phalanx/cli/command_io.h"
#include "phalanx/flags/flag_set.h"
#include "phalanx/flags/model_arguments.h"

namespace phalanx {

class ChatBase {
 public:
  // Reads what `load` says of its model, no weights: the settings of a checkpoint (a save directory
  // or one iteration's), or of a folder with config.json. Such a folder is imported to `save`/base;
  // where that has been done, the checkpoint there is the base. Without `save` nothing is imported.
  // InputMissingError for neither; ConfigError where `save`/base has another model, or the model
  // continues no text.
  ChatBase(const std::string& load, const std::string& save);

  // The directory of the checkpoint, which is not there before import() if this is a folder.
  const std::filesystem::path& checkpoint() const { return checkpoint_; }
  bool must_be_imported() const { return !folder_.empty(); }
  // Whether its weights have 16 bits.
  bool is_half() const { return is_half_; }

  // Flags of the model in a folder that must be imported.
  ModelArguments arguments() const { return ModelArguments(arguments_); }

  // Flags of the model and of its tokenizer that are not given get the base's values.
  void set_defaults(FlagSet& flags) const;
  // Imports the folder, with a line that says so. Returns the exit status.
  int import(CommandIo& io) const;

 private:
  void read_folder(const std::string& save);
  void read_checkpoint();

  std::filesystem::path folder_;  // empty: a checkpoint
  std::filesystem::path checkpoint_;
  std::map<std::string, std::string> arguments_;  // of a folder: flags and their values
  bool is_half_ = false;
};

}  // namespace phalanx
