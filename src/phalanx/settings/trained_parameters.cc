#include "phalanx/settings/trained_parameters.h"

#include <algorithm>
#include <regex>
#include <string_view>
#include <vector>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

std::vector<std::regex> compiled(std::string_view flag, const std::vector<std::string>& patterns) {
  std::vector<std::regex> expressions;
  for (const std::string& pattern : patterns) {
    try {
      expressions.emplace_back(pattern);
    } catch (const std::regex_error& error) {
      throw ConfigError("{} '{}' is no regular expression: {}", flag, pattern, error.what());
    }
  }
  return expressions;
}

bool is_in(const std::string& name, const std::vector<std::regex>& expressions) {
  return std::ranges::any_of(expressions, [&](const std::regex& expression) {
    return std::regex_search(name, expression);
  });
}

void check_found(std::string_view flag, const std::vector<std::string>& patterns,
                 const nn::ParamTable& whole) {
  const std::vector<std::regex> expressions = compiled(flag, patterns);
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    const auto has = [&](const ParamSpec& spec) {
      return !spec.is_state && std::regex_search(spec.name, expressions[i]);
    };
    if (std::ranges::any_of(whole.specs(), has)) continue;
    throw ConfigError("{} '{}' is in no name of a parameter, for example {}", flag, patterns[i],
                      whole[whole.size() / 2].name);
  }
}

bool is_of_expert(const ParamSpec& spec) { return spec.domain == ReductionDomain::kExpert; }

// A token is computed with this share of the experts.
double used_share_of_experts(const nn::ParamTable& whole, const Model& model) {
  std::int64_t all = 0;
  for (const ParamSpec& spec : whole.specs()) {
    if (is_of_expert(spec)) all += spec.global_shape.count();
  }
  const std::int64_t idle = model.parameters() - model.active_parameters();
  return all == 0 ? 1.0 : 1.0 - static_cast<double>(idle) / static_cast<double>(all);
}

}  // namespace

bool is_of_adapter(std::string_view name) { return name.find(".lora.") != name.npos; }

std::function<bool(const std::string& name)> frozen_parameters(const TrainConfig& config) {
  const OptimizerConfig& o = config.optimizer;
  const bool has_adapters = config.lora.rank > 0;
  if (!has_adapters && o.trainable.empty() && o.freeze.empty()) return {};
  return [has_adapters, trainable = compiled("--trainable", o.trainable),
          freeze = compiled("--freeze", o.freeze)](const std::string& name) {
    const bool is_chosen = (!has_adapters && trainable.empty()) || is_in(name, trainable) ||
                           (has_adapters && is_of_adapter(name));
    return !is_chosen || is_in(name, freeze);
  };
}

void check_trained_parameters(const OptimizerConfig& config, const nn::ParamTable& whole) {
  check_found("--trainable", config.trainable, whole);
  check_found("--freeze", config.freeze, whole);
  if (std::ranges::any_of(whole.specs(), &ParamSpec::trainable)) return;
  throw ConfigError("--trainable and --freeze leave no parameter to be trained");
}

TrainedShare trained_share(const TrainConfig& config, const Model& model) {
  const auto is_frozen = frozen_parameters(config);
  if (!is_frozen) return {.parameters = model.parameters()};
  nn::ParamTable table;
  table.freeze(is_frozen);
  Chunk chunk = model.build_chunk(model.whole(), table);
  chunk.leave_out_frozen(table, false);
  TrainedShare share;
  for (const ParamSpec& spec : table.specs()) {
    if (spec.trainable) share.parameters += spec.global_shape.count();
  }
  const double used = used_share_of_experts(table, model);
  double computed = 0.0;
  double all = 0.0;
  for (int u = 0; u < chunk.num_units(); ++u) {
    const nn::Unit& unit = *chunk.units()[static_cast<std::size_t>(u)];
    // An embedding looks rows up; a head multiplies with the table.
    const bool looks_up =
        unit.needs(nn::PassKind::kForward) != unit.needs(nn::PassKind::kBackwardInput);
    for (const ParamId id : unit.parameters()) {
      if (looks_up || table[id].global_shape.rank() < 2) continue;
      const auto weights = static_cast<double>(table[id].global_shape.count()) *
                           (is_of_expert(table[id]) ? used : 1.0);
      all += 3.0 * weights;
      computed += weights * (1.0 + (u >= chunk.first_backward() ? 1.0 : 0.0) +
                             (table.trains(id) ? 1.0 : 0.0));
    }
  }
  if (all > 0.0) share.flops = computed / all;
  return share;
}

}  // namespace phalanx
