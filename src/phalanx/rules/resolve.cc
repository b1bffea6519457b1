#include "phalanx/rules/resolve.h"

#include <cmath>
#include <filesystem>
#include <utility>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/families/family.h"
#include "phalanx/flag_table/train_flags.h"
#include "phalanx/ops/named_devices.h"
#include "phalanx/rules/rules.h"
#include "phalanx/settings/config_views.h"
#include "phalanx/settings/data_settings.h"

namespace phalanx {
namespace {

void check_precision(const ModelConfig& m) {
  if (m.fp16 && m.bf16) throw ConfigError("--fp16 and --bf16 exclude each other: give one");
  if ((m.matmul_precision == "bf16" || m.matmul_precision == "amx2") && !m.bf16) {
    throw ConfigError("--matmul-precision {} needs bf16 parameters: add --bf16",
                      m.matmul_precision);
  }
  if (m.fp32_residual_connection && !m.fp16 && !m.bf16) {
    throw ConfigError("--fp32-residual-connection needs --fp16 or --bf16");
  }
  if (m.fp32_residual_connection && m.post_layernorm) {
    throw ConfigError(
        "--fp32-residual-connection: with --post-layernorm the residual stream is what a norm "
        "gives, in 16 bits: leave one of the two out");
  }
}

// One rank computes on one CUDA device. Plans are of many.
void check_device(const TrainConfig& c, bool for_training) {
  const LayoutConfig& l = c.layout;
  if (l.device == "cpu") return;
  const bool is_named = named_device(l.device) != nullptr;
  if (is_named && for_training) {
    throw ConfigError(
        "--device {}: a device with a name is for phalanx plan: give --device cuda to compute on "
        "the one that is there",
        l.device);
  }
  if (l.world_size > 1 && !is_named) {
    throw ConfigError(
        "--device {}: {} ranks would exchange tensors of devices, which needs NCCL and is not "
        "there yet: give one rank, or --device cpu",
        l.device, l.world_size);
  }
  if (c.model.matmul_precision != "auto") {
    throw ConfigError("--matmul-precision {} is of processors: leave it out with --device {}",
                      c.model.matmul_precision, l.device);
  }
  for (const auto& [flag, directory] :
       {std::pair<std::string_view, std::string>{"--offload-optimizer-to", l.offload_optimizer_to},
        {"--offload-parameters-to", l.offload_parameters_to},
        {"--offload-activations-to", l.offload_activations_to}}) {
    if (directory.empty()) continue;
    throw ConfigError("{} {}: files hold states of processors alone: leave it out with --device {}",
                      flag, directory, l.device);
  }
}

// Sums of sizes that follow from these must fit into 64 bits; a larger model is a typing error.
void check_size(const TrainConfig& c) {
  const ModelConfig& m = c.model;
  const auto real = [](std::int64_t value) { return static_cast<double>(value); };
  const double width = real(m.hidden_size) + real(m.num_attention_heads) * real(m.kv_channels);
  const double experts = real(c.experts.num_experts) * real(c.experts.moe_ffn_hidden_size) +
                         real(c.experts.moe_shared_expert_intermediate_size);
  const double layer = width * (4.0 * width + 4.0 * (real(m.ffn_hidden_size) + experts));
  const double tables =
      real(m.hidden_size) * (2.0 * 2147483647.0 + real(m.max_position_embeddings));
  const double sequence = real(c.data.seq_length) + real(c.data.decoder_seq_length);
  const double rows = real(c.layout.micro_batch_size) * sequence;
  const double attention = real(m.num_attention_heads) * sequence;
  // A layer of a decoder has cross attention too.
  const double layers = real(m.num_layers) + 2.0 * real(m.decoder_num_layers);
  const double of_experts =
      real(c.experts.moe_router_topk) * (width + real(c.experts.moe_ffn_hidden_size)) + experts;
  const double activations =
      rows * (24.0 * width + 10.0 * (real(m.ffn_hidden_size) + of_experts) + 6.0 * attention);
  const double bytes = 24.0 * (layers * layer + tables) + 8.0 * layers * activations;
  if (bytes < std::exp2(62)) return;
  throw ConfigError(
      "--num-layers {}, --hidden-size {}, --ffn-hidden-size {}, --num-attention-heads {}, "
      "--kv-channels {}, --seq-length {} and --micro-batch-size {} make sizes beyond 64 bits: one "
      "of them is mistyped",
      m.num_layers, m.hidden_size, m.ffn_hidden_size, m.num_attention_heads, m.kv_channels,
      c.data.seq_length, c.layout.micro_batch_size);
}

void check_second_places(const RunConfig& r) {
  if (!r.save_copy.empty() && r.save_copy_interval == 0) {
    throw ConfigError("--save-copy {} needs --save-copy-interval", r.save_copy);
  }
  if (!r.non_persistent_ckpt_type.empty() && r.non_persistent_ckpt_type != "global") {
    throw ConfigError(
        "--non-persistent-ckpt-type {}: a host's own disk or memory is lost with the host, and "
        "another layout could not read it; give global",
        r.non_persistent_ckpt_type);
  }
  if (r.non_persistent_save_interval > 0 && r.non_persistent_ckpt_type.empty()) {
    throw ConfigError("--non-persistent-save-interval {} needs --non-persistent-ckpt-type global",
                      r.non_persistent_save_interval);
  }
  std::vector<std::pair<std::string_view, std::string>> places;
  for (const auto& [flag, directory] :
       {std::pair<std::string_view, std::string>{"--save", r.save},
        {"--save-copy", r.save_copy},
        {"--non-persistent-global-ckpt-dir", r.non_persistent_global_ckpt_dir}}) {
    if (directory.empty()) continue;
    const std::filesystem::path path =
        std::filesystem::path(directory).lexically_normal() / std::filesystem::path();
    for (const auto& [other, used] : places) {
      if (used != path.string()) continue;
      throw ConfigError("{} and {} are both {}: give two directories", other, flag, directory);
    }
    places.emplace_back(flag, path.string());
  }
}

void check_run(const RunConfig& r) {
  if (!r.trace.empty() && !r.trace.ends_with(".json")) {
    throw ConfigError("--trace {}: the name must end with .json; a picture goes beside it as .svg",
                      r.trace);
  }
  if (!r.save.empty() && r.save_interval == 0) {
    throw ConfigError("--save {} needs --save-interval", r.save);
  }
  check_second_places(r);
  if (r.skip_train && r.eval_iters == 0) {
    throw ConfigError("--skip-train and --eval-iters 0 leave nothing to do: leave one out");
  }
  iterations_to_skip(r);  // throws if one is not a number
  for (const std::string& name : r.allow_changed) {
    const TrainFlag* flag = find_train_flag(name);
    if (flag == nullptr || flag->target == nullptr) {
      std::vector<std::string> names;
      for (const TrainFlag& known : train_flags()) {
        if (known.target != nullptr) names.emplace_back(known.spec.name);
      }
      const auto meant = nearest(canonical_name(name), names);
      throw ConfigError("--allow-changed {}: no flag that a checkpoint keeps{}", name,
                        meant ? "; did you mean " + meant->substr(2) + "?" : "");
    }
    if (flag->spec.resume == ResumeClass::kSchedule) {
      throw ConfigError("--allow-changed {}: schedules change with --override-opt_param-scheduler",
                        name);
    }
    if (flag->spec.resume == ResumeClass::kState) {
      throw ConfigError("--allow-changed {}: the optimizer changes with --no-load-optim", name);
    }
  }
}

}  // namespace

void resolve(TrainConfig& config, bool for_training) {
  Faults faults;
  check_values(config, for_training, faults);
  faults.raise();

  check_family_flags(config, faults);
  faults.raise();

  const bool has_model = faults.hold([&] {
    resolve_model(config);
    resolve_experts(config);
    resolve_upcycling(config, for_training);
    family_of(config).resolve_model(config);
  });
  if (has_model) faults.hold([&] { check_adapters(config); });
  const bool has_ranks = faults.hold([&] {
    resolve_encoder_ranks(config.layout);
    resolve_ranks(config);
  });
  const bool has_batch = has_ranks && faults.hold([&] { resolve_batch(config); });
  faults.hold([&] { check_precision(config.model); });
  faults.hold([&] { check_device(config, for_training); });
  if (has_ranks) faults.hold([&] { resolve_data_parallelism(config.layout); });
  faults.hold([&] { check_offload(config.layout); });
  faults.hold([&] { check_data(config.data, for_training); });
  check_chat(config, faults);
  faults.hold([&] { check_optimizer(config.optimizer); });
  faults.hold([&] { check_loss_scale(config.optimizer); });
  faults.hold([&] { check_run(config.run); });
  const bool has_decay = faults.hold([&] { resolve_weight_decay(config.optimizer); });
  // Only after this check may sizes be multiplied.
  if (has_model && has_batch && faults.hold([&] { check_size(config); })) {
    faults.hold([&] { resolve_tensor_parallelism(config); });
    check_context_parallelism(config, faults);
    faults.hold([&] { resolve_recomputation(config); });
    faults.hold([&] { resolve_pipeline(config); });
    faults.hold([&] { check_frozen(config); });
    faults.hold([&] { check_experts(config); });
  }
  if (has_batch && faults.hold([&] { check_length(config, for_training); }) && has_decay) {
    faults.hold([&] { check_learning_rate(config); });
  }
  faults.raise();
  family_of(config).resolve(config);
}

}  // namespace phalanx
