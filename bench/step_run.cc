#include "step_run.h"

#include <fmt/core.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <string_view>
#include <tuple>

#include "memory_bandwidth.h"
#include "phalanx/base/error.h"
#include "phalanx/comm/local/local_world.h"
#include "phalanx/families/family.h"
#include "phalanx/metrics/process_memory.h"
#include "phalanx/ops/cpu/cpu_backend.h"
#include "phalanx/ops/cpu/precision.h"
#include "phalanx/ops/cpu/target.h"
#include "phalanx/rehearsal/memory_plan.h"
#include "phalanx/rules/resolve.h"
#include "phalanx/settings/config_views.h"
#include "phalanx/settings/trained_parameters.h"
#include "random_batch.h"
#include "witness.h"

namespace phalanx::bench {
namespace {

constexpr int kWarmUpSteps = 2;
// A step during which a thread waited for a core longer than this share of the time is unclean.
constexpr double kWaitingAllowed = 0.03;

// Megatron's shapes; the layers are those of each stack.
struct ModelSize {
  const char* name;
  const char* family;
  std::int64_t layers, hidden, heads, vocabulary, steps;
};
constexpr auto kModels = std::to_array<ModelSize>({{"gpt2-124m", "gpt", 12, 768, 12, 50257, 8},
                                                   {"small", "gpt", 4, 256, 8, 8192, 60},
                                                   {"bert-base", "bert", 12, 768, 12, 30524, 8},
                                                   {"t5-small", "t5", 6, 512, 8, 30624, 12},
                                                   {"llama-160m", "gpt", 12, 768, 12, 32000, 8},
                                                   {"moe-8x", "gpt", 4, 768, 12, 8192, 8},
                                                   {"moe-8x-dense", "gpt", 4, 768, 12, 8192, 8}});

const ModelSize& size_named(const std::string& name) {
  const auto found =
      std::ranges::find_if(kModels, [&](const ModelSize& size) { return size.name == name; });
  if (found == kModels.end()) {
    throw ConfigError(
        "--model {}: choose of gpt2-124m, small, bert-base, t5-small, llama-160m, moe-8x, "
        "moe-8x-dense",
        name);
  }
  return *found;
}

// Of T5's targets, which are shorter than its texts.
std::int64_t decoder_length(std::int64_t sequence) {
  return std::max<std::int64_t>(sequence / 4, 1);
}

bool is_llama(const ModelSize& size) {
  const std::string_view name = size.name;
  return name == "llama-160m" || name.starts_with("moe-8x");
}

// As JackFram/llama-160m (Miao et al., SpecInfer, 2023): no grouped queries.
void make_llama(ModelConfig& model) {
  model.ffn_hidden_size = 3072;
  model.position_embedding_type = "rope";
  model.normalization = "RMSNorm";
  model.norm_epsilon = 1e-6;
  model.swiglu = true;
  model.disable_bias_linear = true;
  model.untie_embeddings_and_output_weights = true;
}

// A small Mixtral (Jiang et al., 2024), and the same model with one MLP of an expert's width.
void make_mixtral(TrainConfig& config) {
  config.experts.num_experts = 8;
  config.experts.moe_router_topk = 2;
  config.experts.moe_aux_loss_coeff = {"0.02"};
}

TrainConfig train_config(const StepSetting& setting, const ModelSize& model) {
  if (setting.dtype != "f32" && setting.dtype != "bf16") {
    throw ConfigError("--dtype {}: choose of f32, bf16", setting.dtype);
  }
  TrainConfig config;
  config.model.family = model.family;
  if (std::string_view(model.family) == "t5") {
    config.model.decoder_num_layers = model.layers;
    config.data.decoder_seq_length = decoder_length(setting.sequence);
  }
  if (is_llama(model)) make_llama(config.model);
  if (std::string_view(model.name) == "moe-8x") make_mixtral(config);
  config.model.num_layers = model.layers;
  config.model.hidden_size = model.hidden;
  config.model.num_attention_heads = model.heads;
  config.data.seq_length = setting.sequence;
  config.model.max_position_embeddings = setting.sequence;
  config.model.attention_dropout = 0.0;
  config.model.hidden_dropout = 0.0;
  config.layout.micro_batch_size = setting.micro_batch;
  config.layout.global_batch_size = setting.global_batch;
  config.layout.threads_per_rank = setting.threads;
  config.model.bf16 = setting.dtype == "bf16";
  config.lora.rank = setting.lora_rank;
  if (setting.lora_rank > 0) config.lora.alpha = 2.0 * static_cast<double>(setting.lora_rank);
  config.model.attention_backend = setting.attention;
  config.model.matmul_precision = setting.matmul_precision;
  resolve(config, false);
  return config;
}

double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Seconds for which this process's threads were ready to run but had no core (the second number
// of Linux's schedstat).
double waiting_seconds() {
  double nanoseconds = 0.0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(task.path() / "schedstat");
    double ran = 0.0;
    double waited = 0.0;
    if (file >> ran >> waited) nanoseconds += waited;
  }
  return 1e-9 * nanoseconds;
}

struct Sample {
  double seconds = 0.0;
  double busy = 0.0;
  double waiting = 0.0;
  Trace trace;
};

class Stopwatch {
 public:
  Sample stop(std::int64_t threads) const {
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin_;
    const double available = wall.count() * static_cast<double>(threads);
    return {.seconds = wall.count(),
            .busy = (cpu_seconds() - cpu_) / available,
            .waiting = (waiting_seconds() - waiting_) / available,
            .trace = {}};
  }

 private:
  double waiting_ = waiting_seconds();
  double cpu_ = cpu_seconds();
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2.0;
}

template <typename Get>
double median_of(const std::vector<Sample>& samples, const Get& get) {
  std::vector<double> values;
  values.reserve(samples.size());
  for (const Sample& sample : samples) values.push_back(get(sample));
  return median(std::move(values));
}

// Means per step, by operation and size; the longest first.
std::vector<ProfileRow> profile_of(const std::vector<Sample>& samples) {
  std::map<std::tuple<std::string_view, std::int64_t, std::int64_t, std::int64_t>, ProfileRow> rows;
  const double share = 1.0 / static_cast<double>(samples.size());
  for (const Sample& sample : samples) {
    for_each_event<OpRun>(sample.trace, [&](const OpRun& run) {
      const OpCost& cost = run.cost;
      ProfileRow& row = rows[{cost.name, cost.flops, cost.bytes_read, cost.bytes_written}];
      row.op = cost.name;
      row.flops = static_cast<double>(cost.flops);
      row.bytes = static_cast<double>(cost.bytes_read + cost.bytes_written);
      row.calls += share;
      row.seconds += share * run.seconds;
    });
  }
  std::vector<ProfileRow> sorted;
  for (auto& [key, row] : rows) sorted.push_back(std::move(row));
  std::ranges::sort(sorted, std::greater{}, &ProfileRow::seconds);
  return sorted;
}

// The steps after the warm-up; `loss` gets the last one's.
std::vector<Sample> timed_steps(Rank& rank, const TrainConfig& config, const Model& model,
                                std::int64_t steps, double& loss) {
  std::vector<Sample> samples;
  Recorder recorder;
  std::vector<HostBatch> batches(static_cast<std::size_t>(num_microbatches(config.layout)));
  for (std::int64_t step = 0; step < kWarmUpSteps + steps; ++step) {
    for (std::size_t i = 0; i < batches.size(); ++i) {
      const auto first = step * config.layout.global_batch_size +
                         static_cast<std::int64_t>(i) * config.layout.micro_batch_size;
      batches[i] = random_batch(model.batch_schema(), first, config.layout.micro_batch_size,
                                model.vocabulary().ids);
    }
    if (step == kWarmUpSteps) rank.record_to(&recorder);
    recorder.clear();
    StepSchedule schedule{.lr = 1e-4, .weight_decay = 0.01, .adam_step = step + 1};
    if (rank.wants_loss_counts()) schedule.loss_counts = loss_counts(model, batches);
    const Stopwatch stopwatch;
    const StepResult result =
        rank.train_step(schedule, [&batches](int microbatch) -> const HostBatch& {
          return batches[static_cast<std::size_t>(microbatch)];
        });
    Sample sample = stopwatch.stop(config.layout.threads_per_rank);
    loss = result.loss();
    if (step < kWarmUpSteps) continue;
    sample.trace = recorder.events();
    samples.push_back(std::move(sample));
  }
  rank.record_to(nullptr);
  return samples;
}

cpu::Peak measured_peak(std::int64_t threads) {
  constexpr int kTimes = 10;
  return cpu::measure_peak(static_cast<int>(threads), kTimes);
}

}  // namespace

StepReport run_steps(StepSetting setting, bool measure_memory_bandwidth) {
  const ModelSize& size = size_named(setting.model);
  if (setting.global_batch == 0) setting.global_batch = setting.micro_batch;
  if (setting.steps == 0) setting.steps = size.steps;
  if (setting.steps < 0) throw ConfigError("--steps {} must be above 0", setting.steps);
  const TrainConfig config = train_config(setting, size);
  setting.threads = config.layout.threads_per_rank;
  const auto threads = static_cast<int>(config.layout.threads_per_rank);
  const auto model = make_model(config, size.vocabulary);
  const auto products = cpu::choose_products(config.model.matmul_precision, config.model.bf16);

  StepReport report;
  report.setting = setting;
  report.products = products.name();
  report.steps = setting.steps;
  report.flops_per_token = trained_share(config, *model).flops * model->flops_per_sample() /
                           static_cast<double>(model->tokens_per_sample());
  report.target = cpu::name_of(cpu::active_target());
  report.witness = instructions_per_cycle(threads);
  const cpu::Peak before = measured_peak(threads);
  report.peak_before = 1e9 * before.of(products.products);

  const auto world = make_local_world(1);
  const RankCommunicators ranks(parallel_grids(config.layout), *world[0]);
  const StepPrograms programs = step_programs(config);
  const MemoryPlan plan = plan_memory(config, *model, programs, 0, {products.products});
  RankArenas arenas(plan.bytes);
  const auto backend = make_cpu_backend(threads, products.products);
  Rank rank(config, *model, programs, ranks, *backend, arenas);
  rank.initialise();
  std::vector<Sample> samples = timed_steps(rank, config, *model, setting.steps, report.loss);
  report.resident_bytes = peak_resident_bytes();
  check_high_water(plan, arenas);
  report.plan_bytes = plan.bytes.total();
  report.library_bound = plan.library_bound;
  const cpu::Peak after = measured_peak(threads);
  report.peak_after = 1e9 * after.of(products.products);
  report.instruction_peak = 1e9 * std::max(before.of_instruction(products.products),
                                           after.of_instruction(products.products));
  report.witness = std::min(report.witness, instructions_per_cycle(threads));
  if (measure_memory_bandwidth) report.bandwidth = measure_bandwidth(threads);

  const auto unclean = [](const Sample& sample) { return sample.waiting > kWaitingAllowed; };
  report.unclean = std::ranges::count_if(samples, unclean);
  // Where no step was left alone, all of them are better than none; the report says so.
  if (report.unclean < report.steps) std::erase_if(samples, unclean);
  const auto tokens =
      static_cast<double>(config.layout.global_batch_size * model->tokens_per_sample());
  const auto [shortest, longest] = std::ranges::minmax(samples, std::less{}, &Sample::seconds);
  report.step_seconds = median_of(samples, [](const Sample& s) { return s.seconds; });
  report.tokens_per_second = tokens / report.step_seconds;
  report.slowest = tokens / longest.seconds;
  report.fastest = tokens / shortest.seconds;
  report.busy = median_of(samples, [](const Sample& s) { return s.busy; });
  report.waiting = median_of(samples, [](const Sample& s) { return s.waiting; });
  for (const Sample& sample : samples) {
    report.mean_seconds += sample.seconds / static_cast<double>(samples.size());
  }
  report.profile = profile_of(samples);
  return report;
}

}  // namespace phalanx::bench
