#include "phalanx/planner/exchange_log.h"

#include <utility>

#include "phalanx/comm/split_groups.h"

namespace phalanx {
namespace {

class NotedWork final : public Work::State {
 public:
  NotedWork(ExchangeLog& log, std::size_t exchange) : log_(log), exchange_(exchange) {}

  void wait(Queue /*queue*/) override { finish(); }
  void wait_host(Work::Clock::time_point /*deadline*/) override { finish(); }
  bool done() override { return true; }

 private:
  void finish() {
    if (!std::exchange(is_finished_, true)) log_.finish(exchange_);
  }

  ExchangeLog& log_;
  std::size_t exchange_;
  bool is_finished_ = false;
};

class NotingCommunicator final : public Communicator {
 public:
  NotingCommunicator(int rank, int size, std::string name, ExchangeLog& log)
      : Communicator(rank, size, std::move(name)), log_(log) {}

  std::unique_ptr<Communicator> split(std::span<const std::vector<int>> groups,
                                      std::string name) override {
    const auto found = find_membership(groups, rank(), size());
    if (!found) return nullptr;
    const int members = static_cast<int>(groups[found->group].size());
    return std::make_unique<NotingCommunicator>(found->rank, members, std::move(name), log_);
  }

  void abort(std::string_view /*reason*/) noexcept override {}

 protected:
  Work start_all_reduce(Context&, const Tensor& tensor, Reduction) override {
    return start("all_reduce", tensor);
  }
  Work start_reduce_scatter(Context&, const Tensor&, const Tensor& input, Reduction) override {
    return start("reduce_scatter", input);
  }
  Work start_all_gather(Context&, const Tensor&, const Tensor& input) override {
    return start("all_gather", input);
  }
  Work start_broadcast(Context&, const Tensor& tensor, int) override {
    return start("broadcast", tensor);
  }
  Work start_all_to_all(Context&, const Tensor&, std::span<const std::int64_t>, const Tensor& input,
                        std::span<const std::int64_t>) override {
    return start("all_to_all", input);
  }
  void start_barrier(Context&) override {}
  Work start_exchange(Context&, std::span<const PointToPoint> messages) override {
    NotedExchange noted{.group = name(), .op = "exchange", .rank = rank()};
    for (const PointToPoint& message : messages) {
      noted.kind = message_kind(message.key);
      if (message.direction == PointToPoint::Direction::kReceive) {
        noted.from = message.peer;
      } else {
        noted.to = message.peer;
        noted.bytes += message.tensor.bytes();
      }
    }
    return start(std::move(noted));
  }
  void begin_busy(std::string /*what*/) override {}
  void end_busy() noexcept override {}

 private:
  Work start(std::string_view op, const Tensor& contributed) {
    return start({.group = name(), .op = op, .rank = rank(), .bytes = contributed.bytes()});
  }
  Work start(NotedExchange exchange) {
    return Work(std::make_shared<NotedWork>(log_, log_.start(std::move(exchange))));
  }

  ExchangeLog& log_;
};

}  // namespace

std::size_t ExchangeLog::start(NotedExchange exchange) {
  exchanges_.push_back(std::move(exchange));
  events_.push_back({recorder_.records().size(), exchanges_.size() - 1, true});
  return exchanges_.size() - 1;
}

void ExchangeLog::finish(std::size_t exchange) {
  events_.push_back({recorder_.records().size(), exchange, false});
}

std::unique_ptr<Communicator> make_noting_world(int rank, int size, ExchangeLog& log) {
  PHALANX_CHECK(rank >= 0 && rank < size, "rank {} in a world of {}", rank, size);
  return std::make_unique<NotingCommunicator>(rank, size, "world", log);
}

}  // namespace phalanx
