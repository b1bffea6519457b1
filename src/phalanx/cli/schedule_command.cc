#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"
#include "phalanx/cli/commands.h"
#include "phalanx/cli/schedule_report.h"
#include "phalanx/flags/flag_set.h"
#include "phalanx/pipeline/schedule.h"
#include "phalanx/pipeline/schedule_memory.h"

namespace phalanx {
namespace {

// Viewers of traces show times: one unit of cost is one millisecond.
constexpr double kSecondsPerUnit = 1e-3;

struct ScheduleFlags {
  std::string kind;
  std::int64_t ranks = 0;
  std::int64_t microbatches = 0;
  std::int64_t chunks = 0;
  std::int64_t waves = 0;
  std::int64_t group_size = 0;
  std::int64_t split = 0;
  std::int64_t microbatches_per_update = 0;
  std::string costs = "1,1,1";
  std::string encoder_costs;
  double latency = 0.0;
  std::optional<double> memory_limit;
  std::string svg;
  std::string trace;
  bool text = false;
  bool json = false;
  bool lowered = false;
  bool check_only = false;
  bool parallelogram = false;
  bool list_kinds = false;
};

void add_flags(FlagSet& flags, ScheduleFlags& values) {
  // More is a typing error.
  const FlagRange count = from_to(1, 1'000'000);
  const FlagRange count_or_0 = from_to(0, 1'000'000);
  flags.add({.name = "--kind",
             .help = "The schedule: --list-kinds lists the names",
             .required_unless = "--list-kinds",
             .choices = kScheduleNames},
            &values.kind);
  flags.add({.name = "--pipeline-size",
             .help = "Ranks of the pipeline",
             .required_unless = "--list-kinds",
             .range = count},
            &values.ranks);
  flags.add({.name = "--microbatches",
             .help = "Microbatches of a step",
             .required_unless = "--list-kinds",
             .range = count},
            &values.microbatches);
  flags.add({.name = "--chunks",
             .help = "Chunks of the model on every rank (0: as many as the kind has, else 2)",
             .range = count_or_0},
            &values.chunks);
  flags.add({.name = "--waves",
             .help = "hanayo: waves, half as many as chunks",
             .range = count,
             .excludes = "--chunks"},
            &values.waves);
  flags.add({.name = "--microbatch-group-size-per-virtual-pipeline-stage",
             .help = "interleaved, zb-interleaved: microbatches that go through a chunk together "
                     "(0: what fits)",
             .range = count_or_0},
            &values.group_size);
  flags.add({.name = "--microbatches-per-update",
             .help = "pipedream-2bw: microbatches between two updates (0: one for each rank)",
             .range = count_or_0},
            &values.microbatches_per_update);
  flags.add({.name = "--pipeline-model-parallel-split-rank",
             .aliases = "--split-rank",
             .help = "An encoder and a decoder: the first rank of the decoder (0: one stack)",
             .range = count_or_0},
            &values.split);
  flags.section("Simulation");
  flags.add(
      {.name = "--costs",
       .help =
           "F,B,W: the times of a chunk's forward, input gradient and weight gradient; or those of "
           "every stage, as F,B,W/F,B,W/..."},
      &values.costs);
  flags.add({.name = "--encoder-costs",
             .help = "F,B,W of every stage of the encoder; --costs is then of the decoder's",
             .value_name = "F,B,W",
             .needs = "--pipeline-model-parallel-split-rank"},
            &values.encoder_costs);
  flags.add({.name = "--latency",
             .help = "The time of a message from rank to rank",
             .range = at_least(0)},
            &values.latency);
  flags.add(
      {.name = "--memory-limit",
       .help =
           "Activations, of one chunk and microbatch, that a rank can hold; half of one is kept "
           "for its weight gradient",
       .range = at_least(0)},
      &values.memory_limit);
  flags.section("Output");
  flags.add({.name = "--text", .help = "A drawing in letters (default if nothing else is asked)"},
            &values.text);
  flags.add({.name = "--svg", .help = "A picture is written to this file", .value_name = "FILE"},
            &values.svg);
  flags.add(
      {.name = "--trace",
       .help =
           "A trace in Chrome's format is written to this file; a unit of time is a millisecond",
       .value_name = "FILE"},
      &values.trace);
  flags.add({.name = "--json", .help = "One JSON document on standard output"}, &values.json);
  flags.add({.name = "--lowered",
             .help = "The whole program of every rank: messages, reductions and updates too"},
            &values.lowered);
  flags.add({.name = "--check-only", .help = "One line: whether the schedule is sound"},
            &values.check_only);
  flags.add({.name = "--parallelogram", .help = "Pictures show every rank from its own first pass"},
            &values.parallelogram);
  flags.add({.name = "--list-kinds", .help = "The names of all schedules"}, &values.list_kinds);
}

std::vector<double> numbers_of(std::string_view text) {
  std::vector<double> numbers;
  while (true) {
    const std::size_t comma = std::min(text.find(','), text.size());
    double value = std::numeric_limits<double>::quiet_NaN();
    const auto [end, error] = std::from_chars(text.data(), text.data() + comma, value);
    if (error != std::errc() || end != text.data() + comma) return {};
    numbers.push_back(value);
    if (comma == text.size()) return numbers;
    text.remove_prefix(comma + 1);
  }
}

bool is_time(double value) { return std::isfinite(value) && value >= 0.0; }

StageCosts stage_costs_of(std::string_view flag, std::string_view given, std::string_view text) {
  const std::vector<double> numbers = numbers_of(text);
  if (numbers.size() != 3 || !std::all_of(numbers.begin(), numbers.end(), is_time) ||
      numbers[0] <= 0.0 || numbers[1] <= 0.0) {
    throw UsageError("{} {}: give three times F,B,W, of which F and B are above 0", flag, given);
  }
  return {numbers[0], numbers[1], numbers[2]};
}

Costs costs_of(const ScheduleFlags& values) {
  Costs costs{.stages = {}, .latency = values.latency};
  std::string_view text = values.costs;
  while (true) {
    const std::size_t end = text.find('/');
    costs.stages.push_back(stage_costs_of("--costs", values.costs, text.substr(0, end)));
    if (end == std::string_view::npos) return costs;
    text.remove_prefix(end + 1);
  }
}

// The encoder's stages have costs of their own.
void add_encoder_costs(const ScheduleFlags& values, int ranks, Costs& costs) {
  if (values.encoder_costs.empty()) return;
  if (costs.stages.size() > 1) {
    throw UsageError(
        "--encoder-costs {} and the times of {} stages in --costs: with the first, the second is "
        "of a stage of the decoder",
        values.encoder_costs, costs.stages.size());
  }
  const StageCosts decoder = costs.stages.front();
  costs.stages.assign(static_cast<std::size_t>(ranks), decoder);
  std::fill_n(costs.stages.begin(), values.split,
              stage_costs_of("--encoder-costs", values.encoder_costs, values.encoder_costs));
}

// One cost for all stages, or one for each.
void check_costs(const ScheduleRequest& request, const Placement& placement) {
  const auto given = static_cast<int>(request.costs.stages.size());
  if (given == 1 || given == placement.stages()) return;
  throw UsageError("--costs has the times of {} stages, the pipeline has {}", given,
                   placement.stages());
}

void check_size(const ScheduleRequest& request) {
  constexpr std::int64_t kMost = 100'000'000;
  const std::int64_t chunks = std::int64_t{request.ranks} * std::max(request.chunks, 1);
  if (chunks * request.microbatches > kMost || chunks > kMost) {
    throw UsageError("{} chunks and {} microbatches: more than {} forward passes are too many",
                     chunks, request.microbatches, kMost);
  }
  expect_schedules_fit(static_cast<double>(chunks) * request.microbatches,
                       "give fewer --microbatches or a smaller --pipeline-size");
}

// Refuses flags that the chosen schedule does not read.
void check_kind_of_flags(const FlagSet& flags, const ScheduleFlags& values) {
  const auto check = [&](std::string_view flag, const auto& reads) {
    if (!flags.given(flag) || reads(schedule_kind(values.kind))) return;
    std::vector<std::string_view> names;
    for (const ScheduleKind& kind : schedule_kinds()) {
      if (reads(kind)) names.push_back(kind.name);
    }
    throw UsageError("{} is for {} alone, not for {}", flag, fmt::join(names, " and "),
                     values.kind);
  };
  check("--waves", [](const ScheduleKind& kind) { return kind.name == "hanayo"; });
  check("--microbatch-group-size-per-virtual-pipeline-stage",
        [](const ScheduleKind& kind) { return kind.takes_group_size; });
  check("--microbatches-per-update",
        [](const ScheduleKind& kind) { return kind.update == UpdateRule::kDoubleBuffered; });
}

ScheduleRequest request_of(const FlagSet& flags, const ScheduleFlags& values) {
  check_kind_of_flags(flags, values);
  ScheduleRequest request{.ranks = static_cast<int>(values.ranks),
                          .microbatches = static_cast<int>(values.microbatches),
                          .costs = costs_of(values),
                          .memory_limit = values.memory_limit};
  if (values.chunks != 0) request.chunks = static_cast<int>(values.chunks);
  if (flags.given("--waves")) {
    request.chunks = 2 * static_cast<int>(values.waves);
  }
  if (values.group_size != 0) {
    request.group_size = static_cast<int>(values.group_size);
  }
  if (values.microbatches_per_update != 0) {
    request.microbatches_per_update = static_cast<int>(values.microbatches_per_update);
  }
  check_size(request);
  if (values.split >= values.ranks) {
    throw ConfigError("--pipeline-model-parallel-split-rank {}: must be below --pipeline-size {}",
                      values.split, values.ranks);
  }
  request.split = static_cast<int>(values.split);
  if (request.split > 0) check_split(schedule_kind(values.kind));
  add_encoder_costs(values, request.ranks, request.costs);
  check_costs(request, schedule_kind(values.kind).placement(request));
  return request;
}

void write_pictures(const ScheduleFlags& values, const TimelinePicture& picture) {
  if (!values.svg.empty()) write_file_durably(values.svg, to_svg({&picture, 1}));
  if (!values.trace.empty()) {
    write_file_durably(values.trace, to_chrome_trace({&picture, 1}, kSecondsPerUnit));
  }
}

}  // namespace

int run_schedule(CommandIo& io, const Arguments& arguments) {
  return schedule(io, arguments, nullptr);
}

int schedule(CommandIo& io, const Arguments& arguments, std::string* svg) {
  ScheduleFlags values;
  FlagSet flags("phalanx schedule",
                "One pipeline schedule: generated, verified, simulated, drawn.");
  add_flags(flags, values);
  flags.parse(arguments);
  if (values.list_kinds) {
    io.put(values.json ? kinds_json() : kinds_text());
    return 0;
  }
  const int documents = int{values.json} + int{values.check_only} + int{values.text};
  if (documents > 1 || (values.check_only && values.lowered)) {
    throw UsageError("--json, --text and --check-only exclude each other");
  }
  const ScheduleReport report = report_on_schedule(values.kind, request_of(flags, values));
  const TimelinePicture picture = picture_of(report, values.parallelogram);
  write_pictures(values, picture);
  if (svg != nullptr) *svg = to_svg({&picture, 1});
  if (values.json) {
    io.put(to_json(report, values.lowered));
    return 0;
  }
  if (values.check_only) io.put(check_text(report));
  const bool asks_for_other =
      values.check_only || values.lowered || !values.svg.empty() || !values.trace.empty();
  if (values.text || !asks_for_other) io.put(to_text(picture));
  if (values.lowered) io.put(programs_text(report));
  return 0;
}

}  // namespace phalanx
