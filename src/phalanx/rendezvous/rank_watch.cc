#include "phalanx/rendezvous/rank_watch.h"

namespace phalanx {
namespace {

class IdleWatch final : public RankWatch {
 public:
  explicit IdleWatch(Mailbox* mailbox) : mailbox_(mailbox) {}

  Mailbox* mailbox() noexcept override { return mailbox_; }
  void tick() noexcept override {}
  void begin_wait(const CommPlace& /*at*/, const std::vector<int>& /*missing*/) override {}
  void end_wait() noexcept override {}
  void waited(Clock::duration /*time*/) noexcept override {}
  void begin_busy(std::string /*what*/) override {}
  void end_busy() noexcept override {}
  std::string busy_ranks() const override { return {}; }
  void step(std::int64_t /*iteration*/) noexcept override {}
  void fail(std::string_view /*reason*/) noexcept override {}
  std::optional<RankFailure> failure() const override { return std::nullopt; }
  void on_failure(std::function<void()> /*wake*/) override {}

 private:
  Mailbox* mailbox_;
};

}  // namespace

std::unique_ptr<RankWatch> make_idle_watch(Mailbox* mailbox) {
  return std::make_unique<IdleWatch>(mailbox);
}

}  // namespace phalanx
