#include "phalanx/metrics/run_sink.h"

#include <algorithm>
#include <exception>

#include "phalanx/base/log.h"

namespace phalanx {

void RunSinks::tell(const std::function<void(RunSink&)>& call) {
  for (auto& sink : sinks_) {
    std::string name;
    try {
      name = sink->name();
      call(*sink);
    } catch (const std::exception& error) {
      sink.reset();
      pause();
      log_warning("{}; the run goes on without {}", error.what(), name);
    }
  }
  std::erase(sinks_, nullptr);
}

void RunSinks::pause() {
  for (auto& sink : sinks_) {
    if (sink) sink->pause();
  }
}

void RunSinks::begin(const RunBegin& begin) {
  pause();
  tell([&](RunSink& sink) { sink.begin(begin); });
}

void RunSinks::iteration(const IterationReport& report) {
  if (report.is_logged) pause();
  tell([&](RunSink& sink) { sink.iteration(report); });
}

void RunSinks::evaluation(const EvaluationReport& report) {
  pause();
  tell([&](RunSink& sink) { sink.evaluation(report); });
}

void RunSinks::answers(const AnswersReport& report) {
  pause();
  tell([&](RunSink& sink) { sink.answers(report); });
}

void RunSinks::note(const RunNote& note) {
  pause();
  tell([&](RunSink& sink) { sink.note(note); });
}

void RunSinks::end(const RunEnding& ending) {
  pause();
  tell([&](RunSink& sink) { sink.end(ending); });
}

}  // namespace phalanx
