#include "phalanx/metrics/tensorboard_sink.h"

#include <algorithm>
#include <cmath>

#include "phalanx/metrics/training_log.h"

namespace phalanx {
namespace {

// Megatron's name of a flag: "num_layers" for "--num-layers".
std::string argument_name(const std::string& flag) {
  std::string name = flag.substr(std::min(flag.find_first_not_of('-'), flag.size()));
  std::ranges::replace(name, '-', '_');
  return name;
}

}  // namespace

void TensorBoardSink::begin(const RunBegin& begin) {
  // A run that was finished before has its events already.
  if (begin.is_finished) return;
  world_size_ = static_cast<double>(begin.world_size);
  file_.emplace(options_.directory, options_.queue_size);
  // Events that an earlier start wrote after the checkpoint come again. Some tags count steps in
  // iterations, others in samples; a restart at the iteration would also remove samples that stay.
  if (begin.iteration > 0) file_->restart(begin.consumed_samples + 1);
  for (const auto& [flag, value] : begin.arguments) {
    file_->text(argument_name(flag), value, begin.iteration);
  }
  file_->flush();
}

void TensorBoardSink::put(std::string_view tag, double value, const Place& at) {
  file_->scalar(tag, value, at.iteration);
  file_->scalar(std::string(tag) + " vs samples", value, at.samples);
}

void TensorBoardSink::iteration(const IterationReport& report) {
  if (!file_) return;
  seconds_ += report.seconds;
  ++iterations_;
  if (report.iteration % options_.interval == 0) put_iteration(report);
  if (!report.is_logged) return;
  if (options_.timers) put_times(report);
  seconds_ = 0;
  iterations_ = 0;
}

void TensorBoardSink::put_iteration(const IterationReport& report) {
  const Place at{.iteration = report.iteration, .samples = report.consumed_samples};
  if (options_.learning_rate) put("learning-rate", report.learning_rate, at);
  if (options_.batch_size) put("batch-size", static_cast<double>(report.global_batch_size), at);
  // As in Megatron, a skipped iteration has neither.
  if (!report.skipped) {
    for (const NamedLoss& loss : report.losses) put(loss.name, loss.value, at);
  }
  if (options_.loss_scale) put("loss-scale", report.loss_scale, at);
  if (options_.world_size) put("world-size", world_size_, at);
  if (!report.skipped) {
    if (!std::isnan(report.grad_norm)) put("grad-norm", report.grad_norm, at);
    if (report.zeros_in_gradients) put("num-zeros", *report.zeros_in_gradients, at);
  }
  if (report.expert_loads) put_expert_loads(*report.expert_loads, at);
  if (report.parameters_norm) put("params-norm", *report.parameters_norm, at);
  if (options_.memory) {
    const auto arenas = static_cast<double>(report.peak_bytes);
    file_->scalar("mem-reserved-bytes", static_cast<double>(report.rss_bytes), at.iteration);
    file_->scalar("mem-allocated-bytes", arenas, at.iteration);
    file_->scalar("mem-max-allocated-bytes", arenas, at.iteration);
  }
}

void TensorBoardSink::put_expert_loads(const ExpertLoads& loads, const Place& at) {
  const auto put_bias = [&](const std::optional<ExpertLoads::Bias>& bias, const std::string& of) {
    if (!bias) return;
    put("expert-bias min" + of, bias->least, at);
    put("expert-bias max" + of, bias->most, at);
  };
  put("expert-load", loads.worst, at);
  put("expert-load mean", loads.mean, at);
  put("expert-dropped", loads.dropped, at);
  put_bias(loads.bias, "");
  for (const ExpertLoads::Layer& layer : loads.layers) {
    const std::string of = " " + layer.name;
    put("expert-load" + of, layer.most_to_mean, at);
    put("expert-dropped" + of, layer.dropped, at);
    put_bias(layer.bias, of);
  }
}

void TensorBoardSink::put_times(const IterationReport& report) {
  const double seconds = seconds_ / static_cast<double>(iterations_);
  file_->scalar("iteration-time", seconds, report.iteration);
  if (options_.throughput) {
    file_->scalar("throughput", report.model_flops / seconds / 1e12 / world_size_,
                  report.iteration);
  }
  for (const TimerRow& row : report.times) {
    const double most = std::ranges::max(row.seconds);
    if (most > 0) file_->scalar(row.name + "-time", most, report.iteration);
  }
}

void TensorBoardSink::evaluation(const EvaluationReport& report) {
  if (!file_) return;
  const Place at{.iteration = report.iteration, .samples = report.consumed_samples};
  const auto tag_of = [&](const NamedLoss& value) {
    const std::string tag = value.name + (report.split == "test" ? " test" : " validation");
    return report.set.empty() ? tag : tag + " " + report.set;
  };
  for (const NamedLoss& score : report.scores) put(tag_of(score), score.value, at);
  for (const NamedLoss& loss : report.losses) {
    const std::string tag = tag_of(loss);
    put(tag, loss.value, at);
    if (options_.validation_perplexity) put(tag + " ppl", perplexity(loss.value), at);
  }
  file_->flush();
}

void TensorBoardSink::end(const RunEnding& /*ending*/) {
  if (file_) file_->flush();
}

}  // namespace phalanx
