#pragma once
// Communicators that note when a rank starts each message and when it waits for it, among the ops
// of its recorder. No data moves.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/comm/communicator.h"
#include "phalanx/tensor/recorder.h"

namespace phalanx {

struct NotedExchange {
  std::string group;    // "cp"
  std::string_view op;  // "all_gather"; of messages to and from one rank "exchange"
  int rank = 0;         // of the group
  MessageKind kind = MessageKind::kOther;  // of an exchange
  int to = -1, from = -1;                  // of an exchange: ranks of the group
  std::int64_t bytes = 0;                  // that the rank contributes
};

class ExchangeLog {
 public:
  // A message starts (`is_start`) or has been waited for, after so many ops.
  struct Event {
    std::size_t ops = 0;
    std::size_t exchange = 0;
    bool is_start = false;
  };

  explicit ExchangeLog(const Recorder& recorder) : recorder_(recorder) {}

  std::size_t start(NotedExchange exchange);
  void finish(std::size_t exchange);

  const std::vector<NotedExchange>& exchanges() const { return exchanges_; }
  const std::vector<Event>& events() const { return events_; }

 private:
  const Recorder& recorder_;
  std::vector<NotedExchange> exchanges_;
  std::vector<Event> events_;
};

// The end of `rank` in a world of `size`. `log` must outlive it, its splits and its works.
std::unique_ptr<Communicator> make_noting_world(int rank, int size, ExchangeLog& log);

}  // namespace phalanx
