#include "phalanx/comm/work.h"

namespace phalanx {
namespace {

class RecordedWork final : public Work::State {
 public:
  RecordedWork(std::weak_ptr<Trace> trace, std::uint64_t number, Work work)
      : trace_(std::move(trace)), number_(number), work_(std::move(work)) {}

  void wait(Queue queue) override {
    note([&] { work_.wait(queue); });
  }
  void wait_host(Work::Clock::time_point deadline) override {
    note([&] { work_.wait_host(deadline); });
  }
  bool done() override { return work_.done(); }

 private:
  // The first wait.
  template <typename Wait>
  void note(const Wait& wait) {
    if (std::exchange(is_noted_, true)) return wait();
    const auto begin = Work::Clock::now();
    wait();
    const std::chrono::duration<double> waited = Work::Clock::now() - begin;
    if (const auto trace = trace_.lock()) {
      trace->emplace_back(Awaited{.work = number_, .seconds = waited.count()});
    }
  }

  std::weak_ptr<Trace> trace_;
  std::uint64_t number_;
  Work work_;
  bool is_noted_ = false;
};

}  // namespace

Work recorded(const Recorder* recorder, std::uint64_t number, Work work) {
  if (recorder == nullptr) return work;
  return Work(std::make_shared<RecordedWork>(recorder->trace(), number, std::move(work)));
}

}  // namespace phalanx
