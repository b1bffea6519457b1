// The part of resolve() that is about what layers are made of.

#include <fmt/format.h>

#include <initializer_list>
#include <string_view>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/flag_table/train_flags.h"
#include "phalanx/rules/rules.h"
#include "phalanx/settings/config_views.h"
#include "phalanx/settings/window_text.h"

namespace phalanx {
namespace {

// Checks that flags which need another flag have their defaults without it.
void require_defaults(const TrainConfig& config, std::initializer_list<std::string_view> names,
                      std::string_view needed) {
  TrainConfig values = config;  // the table needs variables; they are only read
  TrainConfig plain;
  for (const std::string_view name : names) {
    const TrainFlag* flag = find_train_flag(name);
    PHALANX_CHECK(flag != nullptr && flag->target != nullptr, "{} is no flag that works", name);
    const FlagTarget target = flag->target(values);
    const std::string text = text_of(target);
    if (text == text_of(flag->target(plain))) continue;
    const bool is_switch = type_of(target, flag->spec.type) == FlagType::kSwitch;
    throw ConfigError("{}{}{} needs {}", name, is_switch ? "" : " ", is_switch ? "" : text, needed);
  }
}

void resolve_positions(TrainConfig& c) {
  ModelConfig& m = c.model;
  if (m.no_position_embedding) {
    if (m.position_embedding_type == "learned_absolute") m.position_embedding_type = "none";
    if (m.position_embedding_type == "relative") {
      throw ConfigError(
          "--no-position-embedding and --position-embedding-type relative exclude each other: give "
          "one");
    }
    m.no_position_embedding = false;
  }
  if (m.max_position_embeddings < c.data.seq_length && m.position_embedding_type != "relative") {
    throw ConfigError("--max-position-embeddings {} is below --seq-length {}: raise the first",
                      m.max_position_embeddings, c.data.seq_length);
  }
}

// An activation can be set by switches (--swiglu, ...) or by --activation-func and
// --gated-linear-unit.
void resolve_activation(ModelConfig& m) {
  const auto exclude = [](std::string_view one, std::string_view other) {
    throw ConfigError("{} and {} exclude each other: give one", one, other);
  };
  if (m.activation_func == "swiglu") {
    m.activation_func = "silu";
    m.gated_linear_unit = true;
  }
  const bool is_default = m.activation_func == ModelConfig{}.activation_func;
  if (m.swiglu && m.squared_relu) exclude("--swiglu", "--squared-relu");
  if (m.swiglu) {
    if (!is_default && m.activation_func != "silu") {
      exclude("--swiglu", "--activation-func " + m.activation_func);
    }
    m.activation_func = "silu";
    m.gated_linear_unit = true;
  }
  if (m.squared_relu) {
    if (!is_default && m.activation_func != "squaredrelu") {
      exclude("--squared-relu", "--activation-func " + m.activation_func);
    }
    m.activation_func = "squaredrelu";
  }
  m.swiglu = m.gated_linear_unit && m.activation_func == "silu";
  m.squared_relu = m.activation_func == "squaredrelu";
  if (m.no_bias_gelu_fusion && m.activation_func != "gelu") {
    log_info("--no-bias-gelu-fusion changes nothing: the activation is {}", m.activation_func);
    m.no_bias_gelu_fusion = false;
  }
}

void check_rotary(const TrainConfig& c) {
  const ModelConfig& m = c.model;
  const bool is_yarn = m.rope_type == "yarn";
  if (m.position_embedding_type != "rope") {
    require_defaults(c,
                     {"--rotary-base", "--rotary-percent", "--rotary-interleaved",
                      "--rotary-seq-len-interpolation-factor", "--use-rope-scaling", "--rope-type"},
                     "--position-embedding-type rope");
  }
  if (is_yarn && m.use_rope_scaling) {
    throw ConfigError("--use-rope-scaling and --rope-type yarn exclude each other: give one");
  }
  if (!m.use_rope_scaling) {
    require_defaults(c, {"--rope-low-freq-factor", "--rope-high-freq-factor"},
                     "--use-rope-scaling");
  }
  if (!is_yarn) {
    require_defaults(
        c,
        {"--yarn-beta-fast", "--yarn-beta-slow", "--yarn-attention-factor", "--yarn-no-truncate"},
        "--rope-type yarn");
  }
  if (!m.use_rope_scaling && !is_yarn) {
    require_defaults(c, {"--rope-scaling-factor", "--rope-original-max-positions"},
                     "--use-rope-scaling or --rope-type yarn");
  }
  if (m.position_embedding_type != "rope") return;
  const std::int64_t dimensions = rotary_dimensions(m);
  if (dimensions < 2 || dimensions % 2 != 0) {
    throw ConfigError(
        "--rotary-percent {} of --kv-channels {} are {} dimensions: rotary positions turn pairs; "
        "give another share",
        m.rotary_percent, m.kv_channels, dimensions);
  }
  if (m.use_rope_scaling && m.rope_low_freq_factor >= m.rope_high_freq_factor) {
    throw ConfigError("--rope-low-freq-factor {} must be below --rope-high-freq-factor {}",
                      m.rope_low_freq_factor, m.rope_high_freq_factor);
  }
  if (is_yarn && m.yarn_beta_slow >= m.yarn_beta_fast) {
    throw ConfigError("--yarn-beta-slow {} must be below --yarn-beta-fast {}", m.yarn_beta_slow,
                      m.yarn_beta_fast);
  }
  if (c.data.reset_position_ids && !separates_documents(c.data)) {
    log_info(
        "--reset-position-ids without --reset-attention-mask: rotary positions begin anew in every "
        "document, and what a row sees of earlier documents has positions that overlap its own; "
        "Megatron's rotary positions are those of the sequence");
  }
}

// Brings the window's flags into canonical form, so that equal windows are equal texts.
void resolve_window(ModelConfig& m) {
  const std::int64_t window = window_from_text(m.window_size);
  if (window == 0) {
    m.window_size = ModelConfig{}.window_size;
    m.window_attn_skip_freq.clear();
    return;
  }
  m.window_size = fmt::format("{},0", window - 1);
  if (m.window_attn_skip_freq.empty())
    m.window_attn_skip_freq = fmt::format("[1]*{}", m.num_layers);
  window_layers_from_text(m.window_attn_skip_freq, m.num_layers);  // throws if it is malformed
}

}  // namespace

void resolve_model(TrainConfig& c) {
  ModelConfig& m = c.model;
  resolve_positions(c);
  resolve_activation(m);
  if (m.ffn_hidden_size == 0) {
    // Three matrices instead of two: each is a third smaller, rounded to whole tiles.
    m.ffn_hidden_size = m.swiglu ? 8 * m.hidden_size / 3 / 64 * 64 : 4 * m.hidden_size;
    if (m.ffn_hidden_size == 0) {
      throw ConfigError("--swiglu with --hidden-size {} needs --ffn-hidden-size", m.hidden_size);
    }
  }
  if (m.kv_channels == 0) {
    if (m.hidden_size % m.num_attention_heads != 0) {
      throw ConfigError(
          "--hidden-size {} is not a multiple of --num-attention-heads {}: change one or give "
          "--kv-channels",
          m.hidden_size, m.num_attention_heads);
    }
    m.kv_channels = m.hidden_size / m.num_attention_heads;
  }
  if (!m.group_query_attention) {
    m.num_query_groups = m.num_attention_heads;
  } else if (m.num_attention_heads % m.num_query_groups != 0) {
    throw ConfigError("--num-attention-heads {} is not a multiple of --num-query-groups {}",
                      m.num_attention_heads, m.num_query_groups);
  }
  // If all linears have a bias, the flag adds nothing.
  if (!m.disable_bias_linear) m.add_qkv_bias = false;
  check_rotary(c);
  resolve_window(m);
}

}  // namespace phalanx
