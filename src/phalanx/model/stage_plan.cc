#include "phalanx/model/stage_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

constexpr std::string_view kSplitFlag = "--pipeline-model-parallel-split-rank";

void check_split(const EncoderDecoderStages& request) {
  if (request.split == 0) {
    throw ConfigError(
        "an encoder and a decoder over {} pipeline stages need {}: the first stage of the decoder, "
        "from 1 to {}",
        request.stages, kSplitFlag, request.stages - 1);
  }
  if (request.split < 0 || request.split >= request.stages) {
    throw ConfigError("{} {}: must be from 1 to {}, below the {} pipeline stages", kSplitFlag,
                      request.split, request.stages - 1, request.stages);
  }
  if (request.standalone_embedding && request.split == 1) {
    throw ConfigError(
        "--standalone-embedding-stage leaves no stage for the layers of the encoder: {} must be at "
        "least 2",
        kSplitFlag);
  }
}

// How many layers each stage has.
std::int64_t even_share(std::string_view flag, std::int64_t layers, int stages,
                        std::string_view stack) {
  if (layers >= stages && layers % stages == 0) return layers / stages;
  throw ConfigError("{} {} is not a multiple of the {} pipeline stages that have layers of the {}",
                    flag, layers, stages, stack);
}

std::string layers_text(std::string_view stack, std::int64_t first, std::int64_t count) {
  if (count == 1) return fmt::format("{}layer {}", stack, first);
  return fmt::format("{}layers {}..{}", stack, first, first + count - 1);
}

}  // namespace

std::vector<StageRange> one_stack_stages(std::span<const std::int64_t> layers) {
  std::vector<StageRange> stages;
  std::int64_t first = 0;
  for (const std::int64_t count : layers) {
    const auto stage = static_cast<int>(stages.size());
    stages.push_back({.stage = stage,
                      .has_embedding = stage == 0,
                      .first_layer = first,
                      .num_layers = count,
                      .has_head = stage + 1 == static_cast<int>(layers.size())});
    first += count;
  }
  return stages;
}

std::vector<StageRange> encoder_decoder_stages(const EncoderDecoderStages& request) {
  PHALANX_CHECK(request.stages > 0, "{} stages", request.stages);
  if (request.stages == 1) {
    if (request.standalone_embedding) {
      throw ConfigError("--standalone-embedding-stage needs several pipeline stages");
    }
    return {{.stage = 0,
             .has_embedding = true,
             .num_layers = request.encoder_layers,
             .has_encoder_norm = true,
             .has_decoder_embedding = true,
             .num_decoder_layers = request.decoder_layers,
             .has_head = true}};
  }
  check_split(request);
  const int without_layers = request.standalone_embedding ? 1 : 0;
  const std::int64_t encoder_share = even_share("--encoder-num-layers", request.encoder_layers,
                                                request.split - without_layers, "encoder");
  const std::int64_t decoder_share = even_share("--decoder-num-layers", request.decoder_layers,
                                                request.stages - request.split, "decoder");
  std::vector<StageRange> stages;
  for (int stage = 0; stage < request.split; ++stage) {
    const bool has_layers = stage >= without_layers;
    stages.push_back({.stage = stage,
                      .has_embedding = stage == 0,
                      .first_layer = has_layers ? (stage - without_layers) * encoder_share : 0,
                      .num_layers = has_layers ? encoder_share : 0,
                      .has_encoder_norm = stage == request.split - 1});
  }
  for (int stage = request.split; stage < request.stages; ++stage) {
    stages.push_back({.stage = stage,
                      .first_layer = request.encoder_layers,
                      .has_decoder_embedding = stage == request.split,
                      .first_decoder_layer = (stage - request.split) * decoder_share,
                      .num_decoder_layers = decoder_share,
                      .has_head = stage == request.stages - 1});
  }
  return stages;
}

std::string description_of(const StageRange& range, bool has_decoder) {
  std::vector<std::string> parts;
  if (range.has_embedding) parts.emplace_back("embedding");
  if (range.num_layers > 0) {
    parts.push_back(
        layers_text(has_decoder ? "encoder " : "", range.first_layer, range.num_layers));
  }
  if (range.has_encoder_norm) parts.emplace_back("its norm");
  if (range.has_decoder_embedding) parts.emplace_back("decoder embedding");
  if (range.num_decoder_layers > 0) {
    parts.push_back(layers_text("decoder ", range.first_decoder_layer, range.num_decoder_layers));
  }
  if (range.has_head) parts.emplace_back("head");
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace phalanx
