#pragma once
// A call of `finetune chat`, or of `plan finetune chat`: what it leaves out follows from the model,
// the conversations and the machine.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "phalanx/cli/chat_base.h"
#include "phalanx/flags/flag_set.h"
#include "phalanx/ops/device_choice.h"
#include "phalanx/settings/train_config.h"
#include "phalanx/tokenizer/tokenizer.h"

namespace phalanx {

class ChatTuning {
 public:
  // The kernels of a resolved configuration; null where this machine's memory decides nothing,
  // since other processes or hosts belong to the run: microbatches then have one sample.
  using Kernels = std::function<DeviceChoice(const TrainConfig& config)>;

  // Sets what fine-tuning has by default. `config` must live as long.
  explicit ChatTuning(TrainConfig& config);

  // The flags of fine-tuning, and those of training.
  void add_flags(FlagSet& flags);
  // The first step of FlagSet::parse(): the model's flags, and the tokenizer's, from --load, or
  // from
  // --save where that has a checkpoint.
  void set_defaults(FlagSet& flags);
  // The second: sizes. Resolves the configuration. ConfigError, DataError as the flags and the data
  // have it.
  void settle(const FlagSet& flags, bool for_training, const Kernels& kernels);

  const ChatBase& base() const { return *base_; }
  // Whether --save has a checkpoint, with which the run goes on.
  bool goes_on() const { return goes_on_; }
  std::int64_t saved_iteration() const { return saved_iteration_; }
  // What was chosen, for people.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  void name_data(const FlagSet& flags);
  void set_precision(FlagSet& flags) const;
  void set_adapters(FlagSet& flags) const;
  void set_rates(FlagSet& flags) const;
  void take_sizes_of(FlagSet& flags, const std::string& save);
  void check_start(const FlagSet& flags, bool for_training) const;
  void choose_sequence(const Tokenizer& tokenizer);
  void choose_batches(const FlagSet& flags, const Tokenizer& tokenizer, bool for_training,
                      const Kernels& kernels);
  void choose_micro_batch(const FlagSet& flags, const Tokenizer& tokenizer, bool for_training,
                          const Kernels& kernels);
  // The file of prompts that the run is asked where the call names none; empty: it is asked none.
  std::string own_prompts(const FlagSet& flags) const;
  void choose_prompts(const FlagSet& flags, const Tokenizer& tokenizer, bool for_training);
  void choose_length(const FlagSet& flags, std::int64_t samples);
  // Samples of an epoch; 0 where the call names no data.
  std::int64_t samples_of_epoch(const TrainConfig& resolved, const Tokenizer& tokenizer) const;
  std::vector<std::string> training_files() const;

  TrainConfig& config_;
  std::string load_;
  std::vector<std::string> data_;
  std::int64_t epochs_ = 3;
  double held_out_ = 0.05;
  bool lora_ = false;

  std::optional<ChatBase> base_;
  bool goes_on_ = false;
  std::int64_t saved_iteration_ = 0;
  std::vector<std::string> notes_;
};

}  // namespace phalanx
