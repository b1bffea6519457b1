#include "layout.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <tuple>
#include <utility>

#include "pairwise.h"
#include "phalanx/base/error.h"
#include "phalanx/flags/flag_spec.h"
#include "phalanx/rank/step_programs.h"
#include "phalanx/rules/resolve.h"

namespace phalanx {
namespace {

constexpr int kMostRanks = 8;

// Tensor- and data-parallel ranks: of layouts without a pipeline, and of each stage of those with
// one.
using Replicas = std::pair<int, int>;
constexpr std::array<Replicas, 9> kReplicas = {
    {{1, 1}, {1, 2}, {1, 4}, {1, 8}, {2, 1}, {2, 2}, {2, 4}, {4, 1}, {4, 2}}};
constexpr std::array<Replicas, 6> kStageReplicas = {
    {{1, 1}, {1, 2}, {1, 4}, {2, 1}, {2, 2}, {4, 1}}};
constexpr std::array<int, 4> kPipelines = {2, 3, 4, 8};

// One of each family, and how many chunks of a rank it has.
using PipelineKind = std::pair<const char*, int>;
constexpr std::array<PipelineKind, 10> kPipelineKinds = {{{"1f1b", 1},
                                                          {"gpipe", 1},
                                                          {"eager-1f1b", 1},
                                                          {"zb-h1", 1},
                                                          {"interleaved", 2},
                                                          {"zb-interleaved", 2},
                                                          {"looped-bfs", 2},
                                                          {"zb-v", 2},
                                                          {"dualpipe-v", 2},
                                                          {"hanayo", 2}}};
// Ways to share states: without a pipeline, and with one.
constexpr std::array<Sharding, 9> kShardings = {
    {{},
     {.stage = 1},
     {.stage = 2},
     {.stage = 3},
     {.stage = 2, .accumulate_unsharded = true},
     {.stage = 3, .accumulate_unsharded = true, .prefetch = 2, .stays_below = 96},
     {.stage = 3, .prefetch = 0, .reshard = false},
     {.stage = 2, .copies = 2},
     {.stage = 3, .copies = 2, .prefetch = 2, .stays_below = 96}}};
constexpr std::array<Sharding, 4> kStageShardings = {
    {{}, {.stage = 1}, {.stage = 2, .accumulate_unsharded = true}, {.stage = 1, .copies = 2}}};
// Numbers of layers that numbers of stages divide, and that they do not.
constexpr std::array<int, 4> kEvenLayers = {4, 6, 8, 16};
constexpr std::array<int, 4> kUnevenLayers = {3, 5, 9, 17};

// The axes: ranks without a pipeline or with one and what they share, what they do, and the model.
const std::vector<int> kFlatAxes = {static_cast<int>(kReplicas.size()),
                                    static_cast<int>(kShardings.size())};
const std::vector<int> kPipelineAxes = {
    static_cast<int>(kStageReplicas.size()), static_cast<int>(kPipelines.size()),
    static_cast<int>(kPipelineKinds.size()), static_cast<int>(kStageShardings.size())};
const std::vector<int> kFeatureAxes = {2, 3, 2, 6, 2, 5};
const std::vector<int> kModelAxes = {2, 2, 2, 5, 2, 2};

template <typename Values>
auto at(const Values& values, int index) {
  return values[static_cast<std::size_t>(index)];
}

void set_flat(Layout& layout, const int* value) {
  std::tie(layout.tensor, layout.data) = at(kReplicas, value[0]);
  layout.zero = at(kShardings, value[1]);
}

void set_pipeline(Layout& layout, const int* value) {
  std::tie(layout.tensor, layout.data) = at(kStageReplicas, value[0]);
  layout.pipeline = at(kPipelines, value[1]);
  std::tie(layout.schedule, layout.chunks) = at(kPipelineKinds, value[2]);
  layout.zero = at(kStageShardings, value[3]);
}

void set_features(Layout& layout, const int* value) {
  layout.sequence_parallel = value[0] != 0;
  layout.overlap = static_cast<Overlap>(value[1]);
  layout.small_buckets = value[2] != 0;
  layout.recompute = static_cast<Recompute>(value[3]);
  layout.async_reduce = value[4] == 0;
  layout.files = static_cast<Files>(value[5]);
}

// The fewest layers of which each stage has one.
int fewest_layers(int stages, bool even) {
  for (const int layers : even ? kEvenLayers : kUnevenLayers) {
    if (layers >= stages && (stages == 1 || (layers % stages == 0) == even)) return layers;
  }
  PHALANX_CHECK(false, "no number of layers for {} stages", stages);
  return 0;
}

void set_model(Layout& layout, const int* value) {
  layout.layers = fewest_layers(layout.pipeline * std::max(layout.chunks, 1), value[0] != 0);
  layout.micro_batch = 1 + value[1];
  layout.fused_attention = value[2] == 0;
  layout.storage = static_cast<StorageType>(value[3]);
  layout.tied = value[4] == 0;
  layout.mean_of_means = value[5] != 0;
}

// Layouts of a kind, with the axes of their ranks.
struct Family {
  const std::vector<int>& ranks;
  void (*set_ranks)(Layout& layout, const int* value);
  std::size_t nightly_features;  // of which the product is taken at night

  // The axes of ranks, features and the model, from one of them to another.
  std::vector<int> axes(std::size_t begin, std::size_t end) const {
    std::vector<int> all = ranks;
    all.insert(all.end(), kFeatureAxes.begin(), kFeatureAxes.end());
    all.insert(all.end(), kModelAxes.begin(), kModelAxes.end());
    return {all.begin() + static_cast<std::ptrdiff_t>(begin),
            all.begin() + static_cast<std::ptrdiff_t>(end)};
  }
  std::size_t num_axes() const { return ranks.size() + kFeatureAxes.size() + kModelAxes.size(); }
  std::size_t num_nightly_axes() const { return ranks.size() + nightly_features; }

  Layout layout_of(const Combination& values) const {
    Layout layout;
    set_ranks(layout, values.data());
    set_features(layout, values.data() + ranks.size());
    set_model(layout, values.data() + ranks.size() + kFeatureAxes.size());
    return layout;
  }
};
// With a pipeline the product of everything would take a day, and so with files.
const std::array<Family, 2> kFamilies = {
    {{kFlatAxes, set_flat, kFeatureAxes.size() - 1}, {kPipelineAxes, set_pipeline, 2}}};

void add_nightly_layouts(const Family& family, std::vector<Layout>& layouts) {
  const IsLegal any = [](const Combination&) { return true; };
  const auto rests = pairwise_cover(family.axes(family.num_nightly_axes(), family.num_axes()), any);
  std::size_t next = 0;
  const auto visit = [&](const Combination& product) {
    // The next rest that makes it legal.
    for (std::size_t tried = 0; tried < rests.size(); ++tried) {
      const Combination& rest = rests[next++ % rests.size()];
      Combination values = product;
      values.insert(values.end(), rest.begin(), rest.end());
      const Layout layout = family.layout_of(values);
      if (!legal_config(layout)) continue;
      layouts.push_back(layout);
      return;
    }
  };
  for_product(family.axes(0, family.num_nightly_axes()), any, visit);
}

void add_covering_layouts(const Family& family, std::vector<Layout>& layouts) {
  const auto is_legal = [&](const Combination& values) {
    return legal_config(family.layout_of(values)).has_value();
  };
  for (const auto& values : pairwise_cover(family.axes(0, family.num_axes()), is_legal)) {
    layouts.push_back(family.layout_of(values));
  }
}

void set_sharding(const Sharding& zero, LayoutConfig& l) {
  l.zero_stage = zero.stage;
  l.num_distributed_optimizer_instances = zero.copies;
  l.zero_accumulate_unsharded = zero.accumulate_unsharded;
  if (zero.stage < 3) return;
  l.zero_prefetch_depth = zero.prefetch;
  l.zero_persistence_threshold = zero.stays_below;
  l.no_zero_reshard_after_forward = !zero.reshard;
}

bool has_parameter_files(const Layout& layout) {
  return layout.files == Files::kParameters || layout.files == Files::kBoth ||
         (layout.files == Files::kHalf && layout.zero.stage == 3);
}

void set_files(Files files, bool has_parameters, LayoutConfig& l) {
  if (has_parameters) l.offload_parameters_to = state_directory();
  if (files == Files::kNone || files == Files::kParameters) return;
  l.offload_optimizer_to = state_directory();
  if (files == Files::kHalf) l.offload_fraction = 0.5;
}

std::string name_of(const Sharding& zero) {
  if (zero.stage == 0) return "";
  std::string name = fmt::format(" zero{}", zero.stage);
  if (zero.copies > 1) name += fmt::format(" x{}", zero.copies);
  if (zero.accumulate_unsharded) name += " unsharded-sums";
  if (zero.stage < 3) return name;
  return fmt::format("{} prefetch{} stays{}{}", name, zero.prefetch, zero.stays_below,
                     zero.reshard ? "" : " no-reshard");
}

// Whether sums over ranks are added microbatch by microbatch.
bool adds_sums(const Layout& layout) {
  return layout.zero.stage >= 2 && !layout.zero.accumulate_unsharded &&
         layout.micro_batch * layout.data < kGlobalBatch;
}

void set_recomputation(Recompute recompute, TrainConfig& c) {
  if (recompute == Recompute::kNone) return;
  if (recompute == Recompute::kSelective) {
    c.layout.recompute_granularity = "selective";
    return;
  }
  c.layout.recompute_granularity = "full";
  c.layout.recompute_method = recompute == Recompute::kBlock2 ? "block" : "uniform";
  c.layout.recompute_num_layers = recompute == Recompute::kUniform1 ? 1 : 2;
  c.layout.distribute_saved_activations = recompute == Recompute::kDistributed;
}

void set_context(const Layout& layout, TrainConfig& c) {
  c.layout.context_parallel_size = layout.context;
  c.layout.cp_comm_type = {layout.exchange};
  if (layout.exchange == "a2a+p2p") {
    c.layout.hierarchical_context_parallel_sizes = {layout.heads_of_exchange,
                                                    layout.context / layout.heads_of_exchange};
  }
  c.layout.context_parallel_cut = layout.cuts_documents ? "documents" : "sequence";
  if (layout.documents) c.data.pack_documents = "best-fit";
}

// A window on every second layer.
void set_llama(const Layout& layout, ModelConfig& m) {
  m.position_embedding_type = "rope";
  m.normalization = "RMSNorm";
  m.swiglu = true;
  m.disable_bias_linear = true;
  m.window_size = "5,0";
  m.window_attn_skip_freq = "2";
  m.add_qkv_bias = layout.qkv_extras;
  m.qk_layernorm = layout.qkv_extras;
}

void set_experts(const Layout& layout, TrainConfig& c) {
  if (layout.experts == 0) return;
  c.experts.num_experts = layout.experts;
  // So that in no step a router's choice is close (routing.h). In 16 bits rounding
  // moves scores the less, the smaller layers' outputs are beside the embedding.
  const bool is_full = layout.storage == StorageType::kF32;
  c.run.seed = is_full ? 16 : 376;
  c.model.init_method_std = is_full ? 0.2 : 0.01;
  c.experts.moe_ffn_hidden_size = 16;
  c.experts.moe_aux_loss_coeff = {"0.01"};
  c.layout.expert_model_parallel_size = layout.expert_parallel;
  c.layout.expert_tensor_parallel_size = layout.expert_tensor;
  if (layout.planned_imbalance == 0.0) return;
  c.experts.moe_token_dispatcher_type = "alltoall";
  c.experts.moe_planned_imbalance = layout.planned_imbalance;
}

void set_family(const Layout& layout, TrainConfig& c) {
  if (layout.family == "llama") return set_llama(layout, c.model);
  c.model.family = layout.family;
  c.model.bert_no_binary_head = !layout.binary_head;
  if (layout.family != "t5") return;
  c.model.decoder_num_layers = layout.decoder_layers;
  c.data.decoder_seq_length = kDecoderSequence;
  c.layout.pipeline_model_parallel_split_rank = layout.split;
  if (layout.relative_positions) c.model.position_embedding_type = "relative";
}

}  // namespace

std::string name_of(const Layout& l) {
  static constexpr std::array<const char*, 3> kOverlaps = {"", " overlap", " overlap+gather"};
  static constexpr std::array<const char*, 6> kRecomputes = {
      "", " selective", " uniform1", " uniform2", " block2", " distributed"};
  static constexpr std::array<const char*, 5> kStorages = {"fp32", "bf16", "bf16+fp32-residual",
                                                           "fp16", "fp16+fp32-residual"};
  static constexpr std::array<const char*, 5> kFiles = {"", " optimizer-files", " weight-files",
                                                        " files", " half-files"};
  const std::string pipeline =
      l.pipeline == 1 ? "" : fmt::format(" p{} {} v{}", l.pipeline, l.schedule, l.chunks);
  std::string context = l.context == 1 ? "" : fmt::format(" c{} {}", l.context, l.exchange);
  if (l.cuts_documents) context += " by-documents";
  std::string model = fmt::format("L{}", l.layers);
  if (l.groups > 0) model += fmt::format(" g{}", l.groups);
  if (l.family == "llama") model = fmt::format("llama {}{}", model, l.qkv_extras ? " extras" : "");
  if (l.family == "bert") model = fmt::format("bert {}{}", model, l.binary_head ? " sop" : "");
  if (l.family == "t5") {
    model = fmt::format("t5 {}+{}{}{}", model, l.decoder_layers,
                        l.split > 0 ? fmt::format(" S{}", l.split) : "",
                        l.relative_positions ? " relative" : "");
  }
  if (l.documents) model += " documents";
  if (l.products != "fp32") model += fmt::format(" products in {}", l.products);
  if (!l.trainable.empty()) model += fmt::format(" trains {}", l.trainable);
  if (!l.freeze.empty()) model += fmt::format(" freezes {}", l.freeze);
  if (!l.adapters.empty()) model += fmt::format(" adapts {}", l.adapters);
  if (l.adapter_dropout > 0.0) model += fmt::format(" dropping {}", l.adapter_dropout);
  if (l.experts > 0) {
    model += fmt::format(" E{} ep{} etp{}", l.experts, l.expert_parallel, l.expert_tensor);
    if (l.planned_imbalance > 0.0) model += fmt::format(" rounds of {}", l.planned_imbalance);
  }
  return fmt::format(
      "t{}{}{}{} d{}{}{}{}{}{}{} {} b{} {} {} {}{}", l.tensor, l.sequence_parallel ? " sp" : "",
      context, pipeline, l.data, name_of(l.zero), kFiles[static_cast<std::size_t>(l.files)],
      kOverlaps[static_cast<std::size_t>(l.overlap)], l.small_buckets ? " small-buckets" : "",
      kRecomputes[static_cast<std::size_t>(l.recompute)], l.async_reduce ? "" : " no-async", model,
      l.micro_batch, l.fused_attention ? "fused" : "unfused",
      kStorages[static_cast<std::size_t>(l.storage)], l.tied ? "tied" : "untied",
      l.mean_of_means ? " mean-of-means" : "");
}

Layout on_one_rank(const Layout& layout) {
  return {.layers = layout.layers,
          .micro_batch = layout.micro_batch,
          .fused_attention = layout.fused_attention,
          .storage = layout.storage,
          .products = layout.products,
          .tied = layout.tied,
          .mean_of_means = layout.mean_of_means,
          .groups = layout.groups,
          .family = layout.family,
          .qkv_extras = layout.qkv_extras,
          .binary_head = layout.binary_head,
          .documents = layout.documents,
          .decoder_layers = layout.decoder_layers,
          .relative_positions = layout.relative_positions,
          .trainable = layout.trainable,
          .freeze = layout.freeze,
          .adapters = layout.adapters,
          .adapter_dropout = layout.adapter_dropout,
          .experts = layout.experts};
}

Layout without_bitwise_features(const Layout& layout) {
  Layout plain = on_one_rank(layout);
  plain.tensor = layout.tensor;
  plain.data = layout.data;
  plain.context = layout.context;
  plain.exchange = layout.exchange;
  plain.heads_of_exchange = layout.heads_of_exchange;
  plain.cuts_documents = layout.cuts_documents;
  plain.sequence_parallel = layout.sequence_parallel;
  plain.expert_parallel = layout.expert_parallel;
  plain.expert_tensor = layout.expert_tensor;
  plain.planned_imbalance = layout.planned_imbalance;
  plain.zero.copies = layout.zero.copies;
  if (layout.zero.copies > 1) plain.zero.stage = 1;
  if (adds_sums(layout)) plain.zero.stage = 2;
  return plain;
}

std::string state_directory() {
  namespace fs = std::filesystem;
  // Thousands of small transfers, for their order and their numbers: a disk would be waited for.
  const fs::path memory = "/dev/shm";
  const fs::path base = fs::is_directory(memory) ? memory : fs::temp_directory_path();
  return (base / fmt::format("phalanx_layouts_{}", ::getpid())).string();
}

TrainConfig config_of(const Layout& layout) {
  TrainConfig c;
  c.model.num_layers = layout.layers;
  c.model.hidden_size = 32;
  c.model.ffn_hidden_size = 96;
  c.model.num_attention_heads = 4;
  c.model.group_query_attention = layout.groups > 0;
  if (layout.groups > 0) c.model.num_query_groups = layout.groups;
  c.model.max_position_embeddings = 20;
  c.data.seq_length = kSequence;
  c.model.make_vocab_size_divisible_by = 8;
  c.model.init_method_std = 0.1;
  c.optimizer.weight_decay = 0.1;
  c.optimizer.clip_grad = 0.2;
  if (!layout.trainable.empty()) c.optimizer.trainable = {layout.trainable};
  if (!layout.freeze.empty()) c.optimizer.freeze = {layout.freeze};
  if (!layout.adapters.empty()) {
    c.lora.rank = 2;
    c.lora.alpha = 3.0;
    c.lora.dropout = layout.adapter_dropout;
    c.lora.targets.clear();
    for (const std::string_view word : words_of(layout.adapters)) c.lora.targets.emplace_back(word);
  }
  c.layout.global_batch_size = kGlobalBatch;
  c.layout.threads_per_rank = 1;
  c.layout.threads_reason = "as given";  // so that resolve() does not look at the machine
  c.layout.micro_batch_size = layout.micro_batch;
  c.model.untie_embeddings_and_output_weights = !layout.tied;
  c.model.attention_backend = layout.fused_attention ? "fused" : "unfused";
  c.optimizer.loss_average = layout.mean_of_means ? "microbatch" : "token";
  c.model.bf16 =
      layout.storage == StorageType::kBF16 || layout.storage == StorageType::kBF16ResidualF32;
  c.model.fp16 =
      layout.storage == StorageType::kF16 || layout.storage == StorageType::kF16ResidualF32;
  c.model.fp32_residual_connection = layout.storage == StorageType::kBF16ResidualF32 ||
                                     layout.storage == StorageType::kF16ResidualF32;
  c.model.matmul_precision = layout.products;
  if (c.model.fp16) c.optimizer.loss_scale = 1024.0;

  c.layout.world_size =
      std::int64_t{layout.tensor} * layout.context * layout.data * layout.pipeline;
  set_context(layout, c);
  c.layout.pipeline_model_parallel_size = layout.pipeline;
  c.layout.pipeline_schedule = layout.schedule;
  c.layout.num_virtual_stages_per_pipeline_rank = layout.chunks;
  c.layout.tensor_model_parallel_size = layout.tensor;
  c.layout.sequence_parallel = layout.sequence_parallel;
  c.layout.no_async_tensor_model_parallel_allreduce = !layout.async_reduce;
  set_sharding(layout.zero, c.layout);
  set_files(layout.files, has_parameter_files(layout), c.layout);
  c.layout.overlap_grad_reduce = layout.overlap != Overlap::kNone;
  c.layout.overlap_param_gather = layout.overlap == Overlap::kReduceAndGather;
  c.layout.ddp_bucket_size = layout.small_buckets ? 1 : 0;
  set_recomputation(layout.recompute, c);
  set_family(layout, c);
  set_experts(layout, c);
  return c;
}

std::optional<TrainConfig> legal_config(const Layout& layout) {
  if (layout.tensor * layout.context * layout.data * layout.pipeline > kMostRanks) return {};
  // What means nothing on one rank of a group is not a layout of its own.
  if (layout.tensor == 1 && (layout.sequence_parallel || !layout.async_reduce)) return {};
  // There gradients of a microbatch may still be apart, and weights in a file.
  const bool is_second = layout.zero.stage == 2 && !layout.zero.accumulate_unsharded;
  if (layout.zero.stage > 1 && layout.data * layout.context == 1 && !is_second &&
      !has_parameter_files(layout)) {
    return {};
  }
  if (has_parameter_files(layout) && layout.zero.stage < 3) return {};
  // As resolve() would find: what is refused most often is refused at once.
  const bool has_state_files = layout.files != Files::kNone && layout.files != Files::kParameters;
  const bool sums_shards = layout.zero.copies > 1 && layout.zero.stage > 1;
  if (has_state_files && sums_shards && !layout.zero.accumulate_unsharded) return {};
  if (layout.zero.copies > 1 && layout.zero.copies >= layout.data * layout.context) return {};
  TrainConfig config = config_of(layout);
  try {
    resolve(config, false);
    if (layout.pipeline > 1) step_programs(config);
  } catch (const ConfigError&) {
    return {};
  }
  return config;
}

std::vector<Layout> covering_layouts() {
  std::vector<Layout> layouts;
  for (const Family& family : kFamilies) add_covering_layouts(family, layouts);
  return layouts;
}

std::vector<Layout> layouts_of_world(int tensor, int data, bool nightly) {
  std::vector<Layout> layouts;
  if (nightly) {
    for (const Family& family : kFamilies) add_nightly_layouts(family, layouts);
  } else {
    layouts = covering_layouts();
  }
  std::erase_if(layouts, [&](const Layout& layout) {
    return layout.tensor != tensor || layout.data != data;
  });
  return layouts;
}

}  // namespace phalanx
