#include "tests/prediction_rows.h"

#include <fmt/format.h>

#include <cstdint>

#include "phalanx/flag_table/test_support.h"
#include "phalanx/rules/resolve.h"

namespace phalanx {
namespace {

std::string model_flags(const PlannerRow& row) {
  std::string flags = fmt::format(
      "--num-layers {} --hidden-size {} --ffn-hidden-size {} --num-attention-heads {} --seq-length "
      "{} --max-position-embeddings {} --make-vocab-size-divisible-by 1",
      row.text("L"), row.text("h"), row.text("f"), row.text("a"), row.text("s"), row.text("s"));
  if (row.text("kv") != row.text("a")) {
    flags += " --group-query-attention --num-query-groups " + row.text("kv");
  }
  const std::string& mlp = row.text("mlp");
  if (mlp == "swiglu") flags += " --swiglu --normalization RMSNorm";
  if (mlp == "relu2") flags += " --squared-relu";
  if (mlp != "gelu") flags += " --disable-bias-linear --position-embedding-type rope";
  // Megatron's of the years of A100 trained with dropout.
  const bool drops = mlp == "gelu" && row.text("stack") != "fsdp" && row.text("device") == "a100";
  flags += drops ? " --hidden-dropout 0.1 --attention-dropout 0.1"
                 : " --hidden-dropout 0 --attention-dropout 0";
  if (row.text("untied") == "1") flags += " --untie-embeddings-and-output-weights";
  flags += row.text("dtype") == "fp16" ? " --fp16" : " --bf16";
  return flags;
}

std::string layout_flags(const PlannerRow& row) {
  std::string flags = fmt::format(
      " --world-size {} --tensor-model-parallel-size {} --context-parallel-size {} "
      "--pipeline-model-parallel-size {} --micro-batch-size {} --global-batch-size {}",
      row.text("gpus"), row.text("tp"), row.text("cp"), row.text("pp"), row.text("mbs"),
      row.text("gbs"));
  const int chunks = row.text("vp").empty() ? 1 : row.whole("vp");
  if (chunks > 1) {
    flags += fmt::format(" --num-layers-per-virtual-pipeline-stage {}",
                         row.whole("L") / row.whole("pp") / chunks);
  }
  const std::string& recompute = row.text("recompute");
  if (recompute == "full") {
    flags += " --recompute-granularity full --recompute-method uniform --recompute-num-layers 1";
  } else if (recompute.starts_with("selective")) {
    flags += " --recompute-granularity selective";
  }
  if (row.text("sp") == "1" && row.whole("tp") > 1) flags += " --sequence-parallel";
  flags += row.text("flash") == "1" ? " --attention-backend fused" : " --attention-backend unfused";
  if (row.whole("dp") * row.whole("cp") > 1) {
    const int zero = row.whole("zero");
    if (zero == 1) {
      flags += " --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather";
    } else if (zero > 1) {
      flags += fmt::format(" --zero-stage {}", zero);
    }
  }
  return flags;
}

// MosaicML had three kinds of devices.
std::string cluster_of(const PlannerRow& row) {
  const std::string& cluster = row.text("cluster");
  if (cluster != "mosaic" || row.text("device") == "h100") return cluster;
  return row.text("id").find("40gb") == std::string::npos ? "mosaic-a100-80" : "mosaic-a100-40";
}

}  // namespace

bool is_scored(const PlannerRow& row) {
  return row.text("quality") != "config incomplete" && row.text("quality") != "suspect";
}

PlannedStep planned_step(const PlannerRow& row) {
  TrainConfig config = with_flags({}, model_flags(row) + layout_flags(row));
  resolve(config, false);
  const RunPlan plan = plan_run(config, row.whole("V"), {cpu::ProductPrecision::kFp32});
  PlannedStep step{.id = row.text("id"),
                   .stack = row.text("stack") == "mlm20" ? "mlm21" : row.text("stack"),
                   .cluster = cluster_of(row),
                   .device = row.text("device"),
                   .seconds = row.number("seconds"),
                   .plan = plan,
                   .program = {},
                   .traces = trace_pipeline(plan)};
  step.program.with_range = false;
  step.program.stack = &software_stack(step.stack);
  if (row.text("dtype") == "fp8") step.program.products_type = ProductType::kFP8;
  return step;
}

double predicted_seconds(const PlannedStep& step, const Machine& machine) {
  return predict_step(step.plan, step.traces, machine, step.program).seconds;
}

}  // namespace phalanx
