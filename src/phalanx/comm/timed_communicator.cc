#include "phalanx/comm/timed_communicator.h"

#include <utility>

namespace phalanx {
namespace {

class TimedWork final : public Work::State {
 public:
  TimedWork(Work work, StepTimers& timers) : work_(std::move(work)), timers_(timers) {}

  void wait(Queue queue) override {
    const TimerScope time(&timers_, StepTimer::kMessages);
    work_.wait(queue);
  }
  void wait_host(Work::Clock::time_point deadline) override {
    const TimerScope time(&timers_, StepTimer::kMessages);
    work_.wait_host(deadline);
  }
  bool done() override { return work_.done(); }

 private:
  Work work_;
  StepTimers& timers_;
};

class TimedCommunicator final : public Communicator {
 public:
  TimedCommunicator(Communicator& inner, StepTimers& timers)
      : Communicator(inner.rank(), inner.group()), inner_(inner), timers_(timers) {}
  TimedCommunicator(std::unique_ptr<Communicator> inner, StepTimers& timers)
      : TimedCommunicator(*inner, timers) {
    owned_ = std::move(inner);
  }

  std::unique_ptr<Communicator> split(std::span<const std::vector<int>> groups,
                                      std::string name) override {
    return timed(inner_.split(groups, std::move(name)), timers_);
  }
  void abort(std::string_view reason) noexcept override { inner_.abort(reason); }

 protected:
  Work start_all_reduce(Context& context, const Tensor& tensor, Reduction reduction) override {
    Context silent = unrecorded(context);
    return timed_work(inner_.all_reduce(silent, tensor, reduction));
  }
  Work start_reduce_scatter(Context& context, const Tensor& output, const Tensor& input,
                            Reduction reduction) override {
    Context silent = unrecorded(context);
    return timed_work(inner_.reduce_scatter(silent, output, input, reduction));
  }
  Work start_all_gather(Context& context, const Tensor& output, const Tensor& input) override {
    Context silent = unrecorded(context);
    return timed_work(inner_.all_gather(silent, output, input));
  }
  Work start_broadcast(Context& context, const Tensor& tensor, int root) override {
    Context silent = unrecorded(context);
    return timed_work(inner_.broadcast(silent, tensor, root));
  }
  Work start_all_to_all(Context& context, const Tensor& output, std::span<const std::int64_t> from,
                        const Tensor& input, std::span<const std::int64_t> to) override {
    Context silent = unrecorded(context);
    return timed_work(inner_.all_to_all(silent, output, from, input, to));
  }
  void start_barrier(Context& context) override {
    Context silent = unrecorded(context);
    const TimerScope time(&timers_, StepTimer::kMessages);
    inner_.barrier(silent);
  }
  Work start_exchange(Context& context, std::span<const PointToPoint> messages) override {
    Context silent = unrecorded(context);
    return timed_work(inner_.exchange(silent, messages));
  }
  void begin_busy(std::string what) override { busy_.push_back(inner_.busy(std::move(what))); }
  void end_busy() noexcept override { busy_.pop_back(); }

 private:
  // The call has been recorded on its way here.
  static Context unrecorded(const Context& context) {
    return {.backend = context.backend,
            .workspace = context.workspace,
            .queue = context.queue,
            .recorder = nullptr};
  }
  Work timed_work(Work work) { return Work(std::make_shared<TimedWork>(std::move(work), timers_)); }

  Communicator& inner_;
  std::unique_ptr<Communicator> owned_;
  StepTimers& timers_;
  std::vector<Busy> busy_;
};

}  // namespace

std::unique_ptr<Communicator> timed(Communicator& inner, StepTimers& timers) {
  return std::make_unique<TimedCommunicator>(inner, timers);
}

std::unique_ptr<Communicator> timed(std::unique_ptr<Communicator> inner, StepTimers& timers) {
  if (!inner) return nullptr;
  return std::make_unique<TimedCommunicator>(std::move(inner), timers);
}

}  // namespace phalanx
