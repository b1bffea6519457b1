#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "phalanx/drawing/markup.h"
#include "phalanx/timelines/timeline_drawing.h"
#include "phalanx/timelines/timeline_layout.h"

namespace phalanx {
namespace {

std::string_view category_of(ActionKind kind) {
  if (is_message(kind)) return "message";
  if (!is_pass(kind)) return "update";
  return kind == ActionKind::kForward ? "forward" : "backward";
}

class Trace {
 public:
  explicit Trace(double seconds_per_unit) : microseconds_per_unit_(1e6 * seconds_per_unit) {}

  void add(const TimelinePicture& picture, std::size_t process) {
    name("process_name", process, 0, picture.title);
    const double origin = earliest(picture);
    for (std::size_t rank = 0; rank < picture.timeline.size(); ++rank) {
      const Stack stack = stack_of(picture, rank);
      name("thread_name", process, rank,
           stack == Stack::kOnly ? fmt::format("rank {}", rank)
                                 : fmt::format("rank {} ({})", rank, name_of(stack)));
      for (const TimedAction& timed : picture.timeline[rank]) {
        add(picture, timed, process, rank, origin);
      }
      for (const HeldActivations& held : held_activations(picture.timeline[rank])) {
        begin_event();
        fmt::format_to(std::back_inserter(events_),
                       R"({{"name":"activations of rank {}","ph":"C","pid":{},"tid":{},"ts":{},)"
                       R"("args":{{"until b":{},"until w":{}}}}})",
                       rank, process, rank, microseconds(held.time - origin),
                       held.until_input_gradient,
                       held.until_weight_gradient - held.until_input_gradient);
      }
    }
  }

  std::string document() const {
    return "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[" + events_ + "\n]}\n";
  }

 private:
  static double earliest(const TimelinePicture& picture) {
    double first = 0.0;
    bool is_first = true;
    for (const double origin : row_origins(picture)) {
      first = is_first ? origin : std::min(first, origin);
      is_first = false;
    }
    return first;
  }

  void begin_event() { events_ += events_.empty() ? "\n" : ",\n"; }

  void name(std::string_view what, std::size_t process, std::size_t thread, std::string_view name) {
    begin_event();
    fmt::format_to(
        std::back_inserter(events_),
        R"({{"name":"{}","ph":"M","pid":{},"tid":{},"args":{{"name":{}}}}})", what, process, thread,
        nlohmann::json(name).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  }

  void add(const TimelinePicture& picture, const TimedAction& timed, std::size_t process,
           std::size_t rank, double origin) {
    const Action& action = timed.action;
    begin_event();
    fmt::format_to(
        std::back_inserter(events_),
        R"({{"name":"{}","cat":"{}","ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"args":{{)",
        is_pass(action.kind) ? pass_name(action, picture.placement) : to_string(action),
        category_of(action.kind), process, rank, microseconds(timed.begin - origin),
        microseconds(timed.end - timed.begin));
    if (is_pass(action.kind)) {
      fmt::format_to(std::back_inserter(events_),
                     R"("microbatch":{},"chunk":{},"stage":{},"version":{})", action.microbatch,
                     action.chunk, picture.placement.stage(static_cast<int>(rank), action.chunk),
                     action.version);
      const Stack stack = stack_of(picture, rank);
      if (stack != Stack::kOnly) {
        fmt::format_to(std::back_inserter(events_), R"(,"stack":"{}")", name_of(stack));
      }
    }
    events_ += "}}";
  }

  std::string microseconds(double time) const {
    return short_number(microseconds_per_unit_ * time, 3);
  }

  double microseconds_per_unit_;
  std::string events_;
};

}  // namespace

std::string to_chrome_trace(std::span<const TimelinePicture> pictures, double seconds_per_unit) {
  Trace trace(seconds_per_unit);
  for (std::size_t i = 0; i < pictures.size(); ++i) trace.add(pictures[i], i);
  return trace.document();
}

}  // namespace phalanx
