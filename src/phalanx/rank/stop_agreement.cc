#include "phalanx/rank/stop_agreement.h"

#include <span>
#include <utility>

namespace phalanx {

StopAgreement::StopAgreement(Communicator& world, const Tensor& slots,
                             const std::function<bool()>& is_asked)
    : world_(world), slots_(slots), is_asked_(is_asked) {
  if (world.size() > 1) under_way_.resize(static_cast<std::size_t>(slots.count()));
}

bool StopAgreement::is_given_up(Context& context, int microbatch) {
  const auto delay = static_cast<int>(under_way_.size());
  while (!stopped_ && said_ <= microbatch) {
    if (delay == 0) {
      stopped_ = is_asked_();
      if (!stopped_) ++said_;
      continue;
    }
    if (said_ - heard_ == delay) stopped_ = hear(context);
    if (!stopped_) say(context, is_asked_());
  }
  return stopped_ && microbatch >= said_;
}

bool StopAgreement::end(Context& context) {
  // Also what was said after the stop: all ranks have said as much.
  while (!under_way_.empty() && heard_ < said_) {
    const bool stop = hear(context);
    stopped_ = stopped_ || stop;
  }
  return stopped_;
}

void StopAgreement::say(Context& context, bool stop) {
  const auto index = static_cast<std::size_t>(said_++) % under_way_.size();
  const Tensor slot = slots_.slice(0, static_cast<std::int64_t>(index), 1);
  const std::int32_t value = stop ? 1 : 0;
  context.backend.upload(context.queue, slot, std::as_bytes(std::span(&value, 1)));
  under_way_[index] = world_.all_reduce(context, slot, Reduction::kMax);
}

bool StopAgreement::hear(Context& context) {
  const auto index = static_cast<std::size_t>(heard_++) % under_way_.size();
  std::exchange(under_way_[index], Work{}).wait(context.queue);
  std::int32_t value = 0;
  context.backend.read_back(context.queue, slots_.slice(0, static_cast<std::int64_t>(index), 1),
                            std::as_writable_bytes(std::span(&value, 1)));
  return value != 0;
}

}  // namespace phalanx
