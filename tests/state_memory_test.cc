// A model whose states are larger than the memory that a run may have trains with the states in
// files, with the bits of a run in memory; and what a run is told that has less than it planned.
// With PHALANX_NIGHTLY=1 states of 8 GiB in 3 GiB.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <linux/magic.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/vfs.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include "phalanx/base/control_groups.h"
#include "phalanx/base/file_lock.h"
#include "program_test.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

// A control group below the test's own, for a command that may have so much memory and no swap.
class MemoryGroup {
 public:
  // Null where none can be made.
  static std::unique_ptr<MemoryGroup> make(std::int64_t bytes) {
    const auto groups = control_groups("memory");
    if (groups.empty()) return nullptr;
    const bool is_old = groups.front().version == 1;
    const fs::path parent = groups.front().directory;
    // Refused where the kernel wants processes in leaves alone.
    if (!is_old) put(parent / "cgroup.subtree_control", "+memory");
    auto group =
        std::make_unique<MemoryGroup>(parent / fmt::format("phalanx-test-{}", ::getpid()), is_old);
    if (!group->limit(bytes)) return nullptr;
    // Not everywhere is swap counted, or there.
    put(group->path_ / (is_old ? "memory.memsw.limit_in_bytes" : "memory.swap.max"),
        is_old ? std::to_string(bytes) : "0");
    return group;
  }
  MemoryGroup(fs::path path, bool is_old) : path_(std::move(path)), is_old_(is_old) {
    std::error_code error;
    fs::create_directory(path_, error);
  }
  MemoryGroup(const MemoryGroup&) = delete;
  MemoryGroup& operator=(const MemoryGroup&) = delete;
  // What was in it may take a moment to go.
  ~MemoryGroup() {
    std::error_code error;
    for (int i = 0; i < 200 && fs::exists(path_, error) && !fs::remove(path_, error); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }

  // False where it cannot be so little.
  bool limit(std::int64_t bytes) const {
    return put(path_ / (is_old_ ? "memory.limit_in_bytes" : "memory.max"), std::to_string(bytes));
  }
  // A command for the shell that goes on in the group.
  std::string enter() const { return fmt::format("echo $$ >'{}/cgroup.procs'", path_.string()); }
  // What was in memory for it, files that are cached included; 0: unknown.
  std::int64_t peak() const {
    std::int64_t bytes = 0;
    std::ifstream(path_ / (is_old_ ? "memory.max_usage_in_bytes" : "memory.peak")) >> bytes;
    return bytes;
  }

 private:
  static bool put(const fs::path& file, const std::string& text) {
    std::error_code error;
    if (!fs::exists(file, error)) return false;
    std::ofstream out(file);
    out << text << std::flush;
    return out.good();
  }

  fs::path path_;
  bool is_old_;
};

struct LargeModel {
  std::string flags;
  std::int64_t limit = 0;  // bytes; 0: what the plan says that the run needs
  std::int64_t least_states = 0;
};

class StateMemory : public ProgramTest {
 protected:
  static std::string words(const std::string& command, const LargeModel& model,
                           const std::string& more) {
    return fmt::format(
        "{} gpt --mock-data --micro-batch-size 1 --global-batch-size 2 --lr 1e-4 --bf16 "
        "--tokenizer-type NullTokenizer --threads-per-rank 2 --eval-iters 0 {} {}",
        command, model.flags, more);
  }
  // Why the disk is none that this can be shown on; empty where it is.
  std::string unfit_disk(std::int64_t bytes) const {
    struct statfs system {};
    if (::statfs(directory_.c_str(), &system) != 0) return "the disk is unknown";
    if (system.f_type == TMPFS_MAGIC) return "files of the test lie in memory";
    if (static_cast<std::int64_t>(system.f_bavail) * system.f_bsize < bytes) {
      return fmt::format("the disk has not {} bytes", bytes);
    }
    return "";
  }

  static std::string training(const LargeModel& model, const std::string& save,
                              const std::string& more) {
    return words("pretrain", model, more + " --save-interval 100 --no-save-optim --save " + save);
  }

  // In files with a limit, in memory without, where microbatches are summed likewise.
  void expect_the_same_run(const LargeModel& model) const {
    const std::string files =
        "--offload-optimizer-to disk --offload-parameters-to disk --zero-persistence-threshold 0 ";
    const std::string memory = "--zero-stage 2 ";
    const Json plan = run_json(words("plan", model, files + "--json")).at("ranks").at(0);
    const Json in_memory =
        run_json(words("plan", model, memory + "--json")).at("ranks").at(0).at("bytes");
    const std::int64_t states = plan.at("file_bytes");
    const std::int64_t needed = plan.at("bytes").at("total").get<std::int64_t>() +
                                plan.at("bytes").at("library_bound").get<std::int64_t>();
    const std::int64_t limit = model.limit > 0 ? model.limit : needed + (16 << 20);
    ASSERT_GE(states, model.least_states);
    ASSERT_GE(limit, needed);
    ASSERT_LT(limit, in_memory.at("total").get<std::int64_t>());
    if (const std::string reason = unfit_disk(2 * states); !reason.empty()) GTEST_SKIP() << reason;

    const auto group = MemoryGroup::make(limit);
    if (group) {
      const ProgramOutput refused =
          run_between(group->enter(), training(model, "memory", memory), "");
      EXPECT_EQ(refused.status, 78);
      EXPECT_THAT(refused.err, HasSubstr("does not fit into this machine's memory"));
    }
    const ProgramOutput limited =
        run_between(group ? group->enter() : "", training(model, "files", files), "");
    ASSERT_EQ(limited.status, 0) << limited.err;
    const auto found = metrics("files");
    for (const Json& line : found) {
      EXPECT_LE(line.at("rss_bytes").get<std::int64_t>(), needed);
    }
    if (group) {
      RecordProperty("peak_bytes", std::to_string(group->peak()));
      EXPECT_LE(group->peak(), limit);
    }
    const std::string digest = run("checkpoint digest files").out;
    fs::remove_all(directory_ / "files");

    const ProgramOutput whole = run(training(model, "memory", memory));
    ASSERT_EQ(whole.status, 0) << whole.err;
    const auto expected = metrics("memory");
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].at("lm_loss"), expected[i].at("lm_loss")) << i;
      EXPECT_EQ(found[i].at("grad_norm"), expected[i].at("grad_norm")) << i;
    }
    EXPECT_EQ(digest, run("checkpoint digest memory").out);
    if (!group)
      GTEST_SKIP() << "no control group with a limit of memory can be made: the resident "
                      "size was compared alone";
  }
};

TEST_F(StateMemory, StatesThatAreLargerThanMemoryTrainAsInMemory) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's shadow memory is not in the plan";
#endif
  expect_the_same_run({.flags = "--num-layers 30 --hidden-size 256 --num-attention-heads 4 "
                                "--seq-length 32 --max-position-embeddings 32 --vocab-size 2000 "
                                "--train-iters 3 --lr-decay-iters 3",
                       .least_states = 380 << 20});
}

// After the plan and before the arenas a run waits for its directory of files, whose lock somebody
// has; meanwhile its control group gets less.
TEST_F(StateMemory, MemoryThatIsGoneSinceThePlanEndsTheRunBeforeTheKernelDoes) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's shadow memory is not in the plan";
#endif
  const LargeModel model{.flags =
                             "--num-layers 8 --hidden-size 512 --num-attention-heads 4 "
                             "--seq-length 32 --max-position-embeddings 32 "
                             "--vocab-size 2000 --train-iters 2 --lr-decay-iters 2"};
  const std::string files = "--offload-optimizer-to disk ";
  const Json bytes = run_json(words("plan", model, files + "--json")).at("ranks").at(0).at("bytes");
  const auto total = bytes.at("total").get<std::int64_t>();
  ASSERT_GT(total, 128 << 20);
  const auto group =
      MemoryGroup::make(total + bytes.at("library_bound").get<std::int64_t>() + (16 << 20));
  if (!group) GTEST_SKIP() << "no control group with a limit of memory can be made";

  fs::create_directories(directory_ / "disk");
  const fs::path guard = directory_ / "disk" / ".phalanx-storage";
  const int lock = ::open(guard.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  ASSERT_EQ(try_lock(lock, 0), FileLock::kTaken);
  pollfd opened{.fd = ::inotify_init1(IN_CLOEXEC), .events = POLLIN, .revents = 0};
  ::inotify_add_watch(opened.fd, guard.c_str(), IN_OPEN);
  bool is_less = false;
  std::thread others([&] {
    constexpr int kPatienceMs = 120000;
    is_less = ::poll(&opened, 1, kPatienceMs) == 1 && group->limit(total);
    ::close(lock);
  });
  const ProgramOutput output = run_between(group->enter(), words("pretrain", model, files), "");
  others.join();
  ::close(opened.fd);
  ASSERT_TRUE(is_less) << output.err;
  EXPECT_EQ(output.status, 71) << output.err;
  EXPECT_THAT(output.err, AllOf(HasSubstr("still to be taken"),
                                HasSubstr(" are available (memory."), HasSubstr(" of cgroup ")));
}

TEST_F(StateMemory, EightGibibytesTrainInThree) {
  if (std::getenv("PHALANX_NIGHTLY") == nullptr) GTEST_SKIP() << "takes minutes: ./test --nightly";
  expect_the_same_run({.flags = "--num-layers 17 --hidden-size 1536 --num-attention-heads 12 "
                                "--seq-length 64 --max-position-embeddings 64 --vocab-size 8000 "
                                "--train-iters 10 --lr-decay-iters 10",
                       .limit = std::int64_t{3} << 30,
                       .least_states = std::int64_t{8} << 30});
}

}  // namespace
}  // namespace phalanx
