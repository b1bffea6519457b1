#include "phalanx/checkpoint/info.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "phalanx/base/hash.h"
#include "phalanx/base/numeric.h"
#include "phalanx/checkpoint/checkpoint_directory.h"
#include "phalanx/checkpoint/tensor_source.h"

namespace phalanx {
namespace {

std::int64_t parameter_count(const Manifest& manifest) {
  std::int64_t count = 0;
  for (const auto& entry : manifest.tensors) {
    if (!entry.name.starts_with(kOptimizerPrefix)) count += entry.shape.count();
  }
  return count;
}

std::int64_t file_bytes(const Manifest& manifest) {
  std::int64_t bytes = 0;
  for (const auto& file : manifest.files) bytes += file.bytes;
  for (const auto& part : manifest.parts) bytes += part.bytes + part.index_bytes;
  return bytes;
}

// What the optimizer keeps of every weight: exp_avg of "optimizer.exp_avg.<name>", in order.
std::vector<std::string> optimizer_states(const Manifest& manifest) {
  std::vector<std::string> states;
  for (const auto& entry : manifest.tensors) {
    if (!entry.name.starts_with(kOptimizerPrefix)) continue;
    std::string state = entry.name.substr(kOptimizerPrefix.size());
    state = state.substr(0, state.find('.'));
    if (std::ranges::find(states, state) == states.end()) states.push_back(std::move(state));
  }
  return states;
}

std::string run_text(const Manifest& manifest) {
  if (manifest.run_id.empty()) return "not recorded";
  return fmt::format("{}, start {}", manifest.run_id, manifest.start);
}

}  // namespace

std::string info_json(const CheckpointReader& reader) {
  const Manifest& manifest = reader.manifest();
  nlohmann::ordered_json json;
  json["directory"] = reader.directory().string();
  json["run_id"] = manifest.run_id;
  json["start"] = manifest.start;
  json["iteration"] = manifest.iteration;
  json["consumed_train_samples"] = manifest.consumed_train_samples;
  json["consumed_valid_samples"] = manifest.consumed_valid_samples;
  json["phalanx_version"] = manifest.phalanx_version;
  json["parameters"] = parameter_count(manifest);
  json["tensors"] = manifest.tensors.size();
  json["bytes"] = file_bytes(manifest);
  json["has_optimizer"] = reader.has_optimizer();
  json["optimizer_states"] = optimizer_states(manifest);
  json["adam_step"] = manifest.optimizer.adam_step;
  json["loss_scale"] = manifest.optimizer.loss_scale;
  json["matmul_precision"] = manifest.matmul_precision;
  json["threads_per_rank"] = manifest.threads_per_rank;
  json["seed"] = manifest.seed;
  json["requested_samples"] = {{"train", manifest.requested_samples.train},
                               {"valid", manifest.requested_samples.valid},
                               {"test", manifest.requested_samples.test}};
  json["arguments"] = manifest.arguments;
  json["base"] = nullptr;
  if (const auto& base = manifest.base) {
    json["base"] = {{"path", base->path}, {"weights_xxh3", digest_to_text(base->weights_xxh3)}};
  }
  json["files"] = nlohmann::ordered_json::array();
  for (const auto& file : manifest.files) {
    json["files"].push_back(
        {{"name", file.name}, {"bytes", file.bytes}, {"xxh3", digest_to_text(file.xxh3)}});
  }
  json["parts"] = nlohmann::ordered_json::array();
  for (const auto& part : manifest.parts) {
    json["parts"].push_back({{"rank", part.rank}, {"bytes", part.bytes}});
  }
  json["input_files"] = nlohmann::ordered_json::array();
  for (const auto& file : manifest.input_files) {
    nlohmann::ordered_json item = {{"flag", file.flag}, {"path", file.path}, {"bytes", file.bytes}};
    // Null: by its length only, or not copied.
    item["xxh3"] = file.xxh3 ? nlohmann::json(digest_to_text(*file.xxh3)) : nlohmann::json();
    item["copy"] = file.copy.empty() ? nlohmann::json() : nlohmann::json(file.copy);
    json["input_files"].push_back(std::move(item));
  }
  json["data_blocks"] = nlohmann::ordered_json::array();
  for (const auto& blocks : manifest.data_blocks) {
    json["data_blocks"].push_back({{"flag", blocks.flag},
                                   {"path", blocks.path},
                                   {"bytes", blocks.bytes},
                                   {"block_bytes", blocks.block_bytes},
                                   {"known_blocks", blocks.xxh3.size()}});
  }
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string info_text(const CheckpointReader& reader) {
  const Manifest& manifest = reader.manifest();
  std::string text = fmt::format(
      "{}\n"
      "  run               {}\n"
      "  iteration         {}\n"
      "  consumed samples  {} train, {} valid\n"
      "  parameters        {} in {} tensors\n"
      "  optimizer state   {}\n"
      "  computed with     {} products, {} threads per rank, seed {}\n"
      "  written by        phalanx {}\n",
      reader.directory().string(), run_text(manifest), format_count(manifest.iteration),
      format_count(manifest.consumed_train_samples), format_count(manifest.consumed_valid_samples),
      format_count(parameter_count(manifest)), manifest.tensors.size(),
      reader.has_optimizer()
          ? fmt::format("{} after {} updates", fmt::join(optimizer_states(manifest), ", "),
                        manifest.optimizer.adam_step)
          : "none (weights only)",
      manifest.matmul_precision, manifest.threads_per_rank, manifest.seed,
      manifest.phalanx_version);
  if (const auto& base = manifest.base) {
    text += fmt::format("  other weights     {}, digest {}\n", base->path,
                        digest_to_text(base->weights_xxh3));
  }
  for (const auto& file : manifest.files) {
    text += fmt::format("  file              {}, {}\n", file.name, format_bytes(file.bytes));
  }
  if (!manifest.parts.empty()) {
    std::int64_t bytes = 0;
    for (const auto& part : manifest.parts) bytes += part.bytes + part.index_bytes;
    text += fmt::format("  parts             of {} ranks, {}\n", manifest.parts.size(),
                        format_bytes(bytes));
  }
  for (const auto& file : manifest.input_files) {
    text += fmt::format("  {:<17} {} ({}{})\n", file.flag, file.path,
                        file.xxh3 ? digest_to_text(*file.xxh3) : format_bytes(file.bytes),
                        file.copy.empty() ? "" : ", kept as " + file.copy);
  }
  for (const auto& [flag, value] : manifest.arguments) {
    text += fmt::format("  {} {}\n", flag, value);
  }
  return text;
}

}  // namespace phalanx
