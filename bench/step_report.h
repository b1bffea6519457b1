#pragma once
// What bench_step measured of one model, and its faces: text, one row of a table, JSON.

#include <cstdint>
#include <string>
#include <vector>

namespace phalanx::bench {

struct StepSetting {
  std::string model = "gpt2-124m";  // gpt2-124m, small, bert-base, t5-small, llama-160m
  std::string dtype = "f32";        // f32, bf16
  std::string attention = "fused";
  std::string matmul_precision = "auto";
  std::int64_t threads = 0;  // 0: all cores
  std::int64_t steps = 0;    // 0: as many as the model needs for a steady median
  std::int64_t micro_batch = 4;
  std::int64_t global_batch = 0;  // 0: one microbatch
  std::int64_t sequence = 256;
  std::int64_t lora_rank = 0;  // above 0: adapters at all linears, and nothing else, are trained
};

// Operations of one kind and size, in one step.
struct ProfileRow {
  std::string op;
  double calls = 0.0;
  double flops = 0.0;  // of one call
  double bytes = 0.0;  // of one call: what it must read and write at least
  double seconds = 0.0;
};

struct StepReport {
  StepSetting setting;             // resolved
  std::string products;            // the precision of matrix products
  std::string target;              // of the processor's instruction sets
  std::int64_t steps = 0;          // measured
  std::int64_t unclean = 0;        // of them, left out because other programs took the cores
  double tokens_per_second = 0.0;  // median
  double slowest = 0.0;
  double fastest = 0.0;
  double step_seconds = 0.0;     // median
  double flops_per_token = 0.0;  // the model's, with full attention
  double peak_before = 0.0;      // FLOP/s that products can reach (ops/cpu/precision.h)
  double peak_after = 0.0;
  double instruction_peak = 0.0;  // FLOP/s of the products' instruction alone
  double witness = 0.0;    // instructions per cycle (witness.h): the lesser of before and after
  double bandwidth = 0.0;  // bytes/s of memory
  double busy = 0.0;       // CPU time over threads x wall time
  double waiting = 0.0;    // of threads x wall time: ready to run, but without a core
  double loss = 0.0;       // of the last step
  std::int64_t plan_bytes = 0;
  std::int64_t library_bound = 0;
  std::int64_t resident_bytes = 0;  // at most
  // Means over the clean steps: a step, and its operations, the longest first.
  double mean_seconds = 0.0;
  std::vector<ProfileRow> profile;

  double peak() const;
  double flops_per_second() const;
  double share_of_peak() const { return flops_per_second() / peak(); }
};

// Sums over the profile: seconds, and flops of all calls.
struct OpTotal {
  double seconds = 0.0;
  double flops = 0.0;
};
OpTotal linear_total(const StepReport& report);
OpTotal attention_total(const StepReport& report);
OpTotal all_total(const StepReport& report);

std::string to_text(const StepReport& report);
std::string profile_text(const StepReport& report);
std::string markdown_header();
std::string markdown_row(const StepReport& report);

std::string to_json(const StepReport& report);
StepReport report_from_json(const std::string& text);

}  // namespace phalanx::bench
