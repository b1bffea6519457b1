#include "phalanx/start/process_runner.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <string_view>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/base/memory_limits.h"
#include "phalanx/base/parse_number.h"
#include "phalanx/base/progress.h"
#include "phalanx/base/stack_dump.h"
#include "phalanx/base/threads.h"
#include "phalanx/base/unique_name.h"
#include "phalanx/comm/ucx/ucx_world.h"
#include "phalanx/rendezvous/coordinator.h"
#include "phalanx/rendezvous/member.h"
#include "phalanx/rendezvous/munge.h"
#include "phalanx/rendezvous/part_of_mailbox.h"
#include "phalanx/start/agreement.h"

namespace phalanx {
namespace {

class ProcessRunner final : public RankRunner {
 public:
  ProcessRunner(std::unique_ptr<Coordinator> coordinator, std::unique_ptr<Member> member, int rank)
      : RankRunner(member->places()),
        coordinator_(std::move(coordinator)),
        member_(std::move(member)),
        rank_(rank),
        agreement_(
            {.gather = [this](std::string mine) { return member_->gather(std::move(mine)); },
             .broadcast = [this](std::string text) { return member_->broadcast(std::move(text)); },
             .is_over = [this] { return member_->failure().has_value(); }},
            places()) {}
  ~ProcessRunner() override {
    // The others would wait for this rank.
    if (std::uncaught_exceptions() > exceptions_at_birth_ && !is_agreed_) {
      member_->fail("it ended with an error");
    }
    member_->leave();
  }

  std::vector<int> own_ranks() const override { return {rank_}; }
  std::string broadcast(std::string of_first) override {
    return agreement_.broadcast(std::move(of_first));
  }
  std::vector<std::string> gather(std::string mine) override {
    return agreement_.gather(std::move(mine));
  }
  void prepare(const std::function<void()>& preparation) override {
    member_->begin_busy("preparing the run");
    try {
      agreement_.prepare(preparation);
    } catch (const StoppedEarly&) {
      is_agreed_ = true;
      throw;
    } catch (const Error&) {
      is_agreed_ = true;  // all have heard of it
      throw;
    } catch (const std::exception& error) {
      member_->fail(text_of(error));
      throw;
    }
    member_->end_busy();
  }

  void run(const RankOptions& options, const Body& body) override {
    try {
      // Each world has its own texts.
      PartOfMailbox mailbox(*member_, worlds_ == 0 ? "" : fmt::format("world-{}/", worlds_));
      ++worlds_;
      expect_threads(options.threads_per_rank - 1);
      const auto world = make_ucx_world(rank_, places(),
                                        {.threads_per_rank = options.threads_per_rank,
                                         .sum_block = options.sum_block,
                                         .timeout = options.timeout,
                                         .network_device = member_->network_device(),
                                         .summing = options.summing},
                                        *member_, mailbox);
      body(*world, *member_);
    } catch (const StoppedEarly&) {
      member_->fail("it was stopped before its first step");
      throw;
    } catch (const std::exception& error) {
      member_->fail(text_of(error));
      throw;
    }
  }
  MessageMemory message_memory(int sum_block, std::span<const int> summing) const override {
    const UcxMemory memory = ucx_memory(rank_, places(), sum_block, summing);
    return {memory.bytes, memory.shared};
  }

 private:
  std::unique_ptr<Coordinator> coordinator_;  // of the first rank, where no launcher has one
  std::unique_ptr<Member> member_;
  const ProgressScope progress_{member_->progress()};  // of the thread that makes and destroys this
  int rank_;
  int worlds_ = 0;  // that were made so far
  const int exceptions_at_birth_ = std::uncaught_exceptions();
  bool is_agreed_ = false;  // the preparation has ended in the same way in all processes
  Agreement agreement_;
};

const char* variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

// PHALANX_RDZV_INSECURE=1 is --rdzv-insecure, which our launcher passes on.
bool is_insecure(const RunConfig& run) {
  const char* const value = variable("PHALANX_RDZV_INSECURE");
  if (value == nullptr) return run.rdzv_insecure;
  const std::string_view text = value;
  if (text != "0" && text != "1") {
    throw UsageError("PHALANX_RDZV_INSECURE={}: 1 (as --rdzv-insecure) or 0", text.substr(0, 80));
  }
  return run.rdzv_insecure || text == "1";
}

// The secret from the user or the launcher.
Secret given_secret(const RunConfig& run) {
  if (!run.rdzv_secret_file.empty()) {
    return read_secret_file(run.rdzv_secret_file, "--rdzv-secret-file");
  }
  if (const char* descriptor = variable("PHALANX_RDZV_SECRET_FD")) {
    const auto number = parse_number<int>(descriptor);
    if (!number || *number < 0) {
      throw UsageError(
          "PHALANX_RDZV_SECRET_FD={}: not the number of a descriptor, which phalanx launch passes "
          "on: unset it",
          std::string_view(descriptor).substr(0, 80));
    }
    return inherited_secret(*number);
  }
  if (const char* path = variable("PHALANX_RDZV_SECRET_FILE")) {
    return read_secret_file(path, "PHALANX_RDZV_SECRET_FILE");
  }
  return {};
}

bool needs_secret(const LaunchEnvironment& environment, const RunConfig& run) {
  return environment.endpoint.kind == Endpoint::Kind::kTcp && !is_insecure(run);
}

}  // namespace

void end_stuck_rank(const RankFailure& failure) {
  log_line(LogLevel::kError,
           fmt::format("this rank does not leave, though {}: it is ended", failure.reason));
  dump_stacks();
  flush_log();  // the reader of a full pipe gets the line, too
  ::_exit(static_cast<int>(failure.code));
}

std::unique_ptr<RankRunner> make_process_runner(const LaunchEnvironment& environment,
                                                const RunConfig& run,
                                                std::chrono::milliseconds timeout,
                                                const std::function<void()>& poll) {
  Secret secret = given_secret(run);
  const bool has_none = secret.empty() && needs_secret(environment, run);
  const bool with_munge = has_none && environment.source == "Slurm" && rendezvous::has_munge();
  if (has_none && !with_munge) {
    throw PermissionError(
        "the ranks are on several hosts and have no secret to know each other by: give "
        "--rdzv-secret-file FILE (the same 32 random bytes on every host), or --rdzv-insecure "
        "where nobody else reaches {}",
        environment.endpoint.to_text());
  }
  std::unique_ptr<Coordinator> coordinator;
  Endpoint endpoint = environment.endpoint;
  if (environment.hosts_coordinator) {
    if (with_munge) secret = make_secret();
    // A name of its own, because several such processes may have the same environment.
    if (environment.world_size == 1)
      endpoint.name = "phalanx-alone-" + random_digits(kUniqueDigits);
    CoordinatorOptions options;
    options.endpoint = endpoint;
    options.bind_any = run.rdzv_bind_any;
    options.secret = secret;
    options.with_munge = with_munge;
    options.run_id = environment.run_id;
    options.world_size = environment.world_size;
    options.epoch = environment.attempt;
    options.join_timeout = timeout;
    options.on_verdict = [](const Verdict& verdict) {
      if (!verdict.report.empty()) log_line(LogLevel::kError, verdict.report);
    };
    coordinator = std::make_unique<Coordinator>(options);
  }
  MemberOptions options;
  options.environment = environment;
  options.environment.endpoint = endpoint;
  options.secret = secret;
  options.with_munge = with_munge && !environment.hosts_coordinator;
  options.join_timeout = timeout;
  options.silence_limit = run.silence_timeout_s;
  options.still_limit = run.hang_timeout_s;
  options.poll = poll;
  options.on_hang = [] { dump_stacks(); };
  options.on_stuck = end_stuck_rank;
  auto member = Member::join(options);
  return std::make_unique<ProcessRunner>(std::move(coordinator), std::move(member),
                                         environment.rank);
}

}  // namespace phalanx
