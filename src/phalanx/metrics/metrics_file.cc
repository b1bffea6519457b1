#include "phalanx/metrics/metrics_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"
#include "phalanx/metrics/training_log.h"

namespace phalanx {
namespace {

template <typename Float>
std::string number(Float value) {
  return std::isfinite(value) ? fmt::format("{}", value) : "null";
}

// Losses are computed in fp32.
float as_float(const NamedLoss& loss) { return static_cast<float>(loss.value); }

// Adds "lm_loss": 9.01 and so on.
std::string loss_fields(const std::vector<NamedLoss>& losses) {
  std::string text;
  for (const NamedLoss& loss : losses) {
    text += fmt::format(R"("{}": {}, )", metrics_key(loss.name), number(as_float(loss)));
  }
  return text;
}

// Adds "accuracy": 0.875 and so on.
std::string score_fields(const std::vector<NamedLoss>& scores) {
  std::string text;
  for (const NamedLoss& score : scores) {
    text += fmt::format(R"("{}": {}, )", score.name, number(score.value));
  }
  return text;
}

std::string decoupled_field(const IterationReport& report) {
  if (!report.decoupled_learning_rate) return {};
  return fmt::format(R"("decoupled_learning_rate": {}, )", number(*report.decoupled_learning_rate));
}

// Adds "expert_load": 1.25 and so on.
std::string expert_fields(const IterationReport& report) {
  if (!report.expert_loads) return {};
  const ExpertLoads& loads = *report.expert_loads;
  std::string text;
  const auto add = [&](std::string_view key, std::string_view place, double value) {
    text += fmt::format(R"("{}{}": {}, )", key, place, number(value));
  };
  const auto add_bias = [&](const std::optional<ExpertLoads::Bias>& bias, std::string_view place) {
    if (!bias) return;
    add("expert_bias_min", place, bias->least);
    add("expert_bias_max", place, bias->most);
  };
  add("expert_load", "", loads.worst);
  add("expert_load_mean", "", loads.mean);
  add("expert_dropped", "", loads.dropped);
  add_bias(loads.bias, "");
  for (const ExpertLoads::Layer& layer : loads.layers) {
    const std::string place = "/" + layer.name;
    add("expert_load", place, layer.most_to_mean);
    add("expert_dropped", place, layer.dropped);
    add_bias(layer.bias, place);
  }
  return text;
}

std::string file_field(const IterationReport& report) {
  if (!report.file_seconds) return {};
  return fmt::format(R"("waited_for_files_s": {}, )", number(*report.file_seconds));
}

std::string save_fields(const IterationReport& report) {
  std::string text;
  if (report.snapshot_seconds) {
    text += fmt::format(R"(, "snapshot_wait_s": {})", number(*report.snapshot_seconds));
  }
  if (report.save_bytes) text += fmt::format(R"(, "save_bytes": {})", *report.save_bytes);
  return text;
}

// Adds "predicted_s": 1.25, and of parts "seconds/products": 0.8, "predicted_seconds/products":
// 0.7.
std::string prediction_fields(const IterationReport& report) {
  if (!report.predicted_seconds) return {};
  std::string text = fmt::format(R"(, "predicted_s": {})", number(*report.predicted_seconds));
  for (const StepPart& part : report.parts) {
    text += fmt::format(R"(, "seconds/{0}": {1}, "predicted_seconds/{0}": {2})", part.name,
                        number(part.measured), number(part.predicted));
  }
  return text;
}

struct Line {
  std::int64_t iteration = 0;
  bool is_evaluation = false;
};

std::optional<Line> parse(std::string_view line) {
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return std::nullopt;
  const auto found = json.find("iteration");
  if (found == json.end() || !found->is_number_integer()) return std::nullopt;
  return Line{found->get<std::int64_t>(), json.contains("eval")};
}

// The bytes of the lines to keep. Lines are in order of iteration, so these are the first ones.
std::size_t kept_bytes(std::string_view text, const std::string& path,
                       const MetricsPosition& last) {
  if (last.iteration == 0) return 0;
  std::size_t begin = 0;
  for (int number = 1; begin < text.size(); ++number) {
    const auto end = text.find('\n', begin);
    if (end == std::string_view::npos) break;  // torn
    const auto line = parse(text.substr(begin, end - begin));
    if (!line && end + 1 == text.size()) break;  // torn, and filled up by the file system
    if (!line) {
      throw DataError(
          "{}:{}: not a metrics line (a JSON object with an \"iteration\"); repair the line or "
          "move the file away to resume without it",
          path, number);
    }
    const bool comes_again =
        last.evaluates_again && line->iteration == last.iteration && line->is_evaluation;
    if (line->iteration > last.iteration || comes_again) break;
    begin = end + 1;
  }
  return begin;
}

}  // namespace

std::string metrics_key(std::string name) {
  std::ranges::replace(name, ' ', '_');
  return name;
}

std::string to_json_line(const IterationReport& report, double peak_flops) {
  const double tokens_per_second = static_cast<double>(report.tokens) / report.seconds;
  return fmt::format(
      R"({{"iteration": {}, "consumed_samples": {}, {}{}"learning_rate": {}, {})"
      R"("grad_norm": {}, "loss_scale": {}, "skipped": {}, "elapsed_s": {}, )"
      R"("tokens_per_second": {}, "model_flops_per_second": {}, "peak_bytes": {}, )"
      R"("rss_bytes": {}, "mfu": {}, "hfu": {}, "waited_for_data_s": {}, )"
      R"("waited_for_messages_s": {}, {}"saving_s": {}{}{}}})",
      report.iteration, report.consumed_samples, loss_fields(report.losses), expert_fields(report),
      number(report.learning_rate), decoupled_field(report), number(report.grad_norm),
      number(report.loss_scale), report.skipped, number(report.seconds), number(tokens_per_second),
      number(report.model_flops / report.seconds), report.peak_bytes, report.rss_bytes,
      number(report.model_flops / report.seconds / peak_flops),
      number(report.hardware_flops / report.seconds / peak_flops), number(report.data_seconds),
      number(report.message_seconds), file_field(report), number(report.saving_seconds),
      save_fields(report), prediction_fields(report));
}

std::string to_json_line(const EvaluationReport& report) {
  using nlohmann::json;
  const std::string set =
      report.set.empty()
          ? std::string()
          : fmt::format("\"set\": {}, ",
                        json(report.set).dump(-1, ' ', false, json::error_handler_t::replace));
  return fmt::format(
      R"({{"iteration": {}, "consumed_samples": {}, "eval": "{}", {}{}{}"ppl": {}}})",
      report.iteration, report.consumed_samples, report.split, set, loss_fields(report.losses),
      score_fields(report.scores),
      number(report.losses.empty() ? std::nan("") : perplexity(as_float(report.losses.front()))));
}

std::string to_json_line(const AnswersReport& report) {
  using Json = nlohmann::ordered_json;
  Json answers = Json::array();
  for (const AnswersReport::Answer& answer : report.answers) {
    Json messages = Json::array();
    for (const auto& [role, content] : answer.messages) {
      messages.push_back({{"role", role}, {"content", content}});
    }
    answers.push_back({{"messages", std::move(messages)},
                       {"expected", answer.expected},
                       {"answer", answer.text},
                       {"ended", answer.is_ended}});
  }
  const Json line = {{"iteration", report.iteration},
                     {"consumed_samples", report.consumed_samples},
                     {"eval", kAnswersSplit},
                     {"answers", std::move(answers)}};
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string metrics_after(const std::filesystem::path& path, const MetricsPosition& last) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return {};
  std::string text = read_file(path);
  text.erase(0, kept_bytes(text, path.string(), last));
  return text;
}

void cut_metrics(const std::filesystem::path& path, const MetricsPosition& last) {
  const std::string cut = metrics_after(path, last);
  if (cut.empty()) return;
  std::error_code gone;
  const auto kept = std::filesystem::file_size(path, gone) - cut.size();
  if (gone || ::truncate(path.c_str(), static_cast<off_t>(kept)) != 0) {
    throw OutputError("{}: cannot cut {} bytes off its end: {}", path.string(), cut.size(),
                      gone ? gone.message() : std::strerror(errno));
  }
}

// A run that was finished before evaluates again, but the file already has these lines.
void MetricsSink::begin(const RunBegin& begin) {
  peak_flops_ = begin.peak_flops;
  if (!begin.is_finished) file_.emplace(path_);
}

void MetricsSink::iteration(const IterationReport& report) {
  if (file_) file_->write(to_json_line(report, peak_flops_));
}

void MetricsSink::answers(const AnswersReport& report) {
  if (file_) file_->write(to_json_line(report));
}

void MetricsSink::evaluation(const EvaluationReport& report) {
  if (file_) file_->write(to_json_line(report));
}

}  // namespace phalanx
