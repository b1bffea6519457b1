// SIGKILL at random moments of starting, loading and saving, under every kind of layout: whatever
// is there is whole and has the bits of an undisturbed run, the next start goes on from it, and
// nothing is left over.

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <random>
#include <thread>

#include "processes_test.h"

namespace phalanx::processes {
namespace {

namespace fs = std::filesystem;

struct Scene {
  const char* name;
  const char* flags;
  const char* places = "";  // not of the undisturbed run
};

// A line for each; what saves in another way belongs here.
constexpr Scene kScenes[] = {
    {"One", "--nproc 1"},
    {"Data2", "--nproc 2"},
    {"Data2Parts", "--nproc 2 --ckpt-fully-parallel-save"},
    {"Stage1", "--nproc 2 --use-distributed-optimizer"},
    {"Stage2Parts", "--nproc 2 --zero-stage 2 --ckpt-fully-parallel-save"},
    {"Stage3Parts",
     "--nproc 2 --zero-stage 3 --zero-persistence-threshold 100 --ckpt-fully-parallel-save"},
    {"Tensor2Parts", "--nproc 2 --tensor-model-parallel-size 2 --ckpt-fully-parallel-save"},
    {"Pipeline2", "--nproc 2 --pipeline-model-parallel-size 2 --keep-last 1"},
    {"Tensor2Data2Bf16Parts",
     "--nproc 4 --tensor-model-parallel-size 2 --zero-stage 1 --bf16 --matmul-precision fp32 "
     "--micro-batch-size 1 --ckpt-fully-parallel-save"},
    {"Data2Async", "--nproc 2 --async-save"},
    {"Stage3Async", "--nproc 2 --zero-stage 3 --async-save --snapshot-fraction 0"},
    {"Places", "--nproc 2",
     "--save-interval 4 --non-persistent-save-interval 1 --non-persistent-ckpt-type global "
     "--save-copy copy --save-copy-interval 3"},
};

int kills_of_a_scene() {
  const char* const nightly = std::getenv("PHALANX_NIGHTLY");
  return nightly != nullptr && std::string_view(nightly) == "1" ? 100 : 2;
}

class Kills : public ProcessesTest, public testing::WithParamInterface<std::size_t> {
 protected:
  static constexpr int kIterations = 12;

  static const Scene& scene() { return kScenes[GetParam()]; }
  static std::string common() {
    return fmt::format(
        "{} --train-iters {} --lr-decay-iters {} --eval-iters 0 --save-interval 1 {}", model(),
        kIterations, kIterations, scene().flags);
  }
  ChildProcess start_again(int number) const {
    return start(fmt::format("run_{}", number),
                 fmt::format("pretrain gpt {} {} --save run --load run", common(), scene().places));
  }

  std::vector<fs::path> names_in(const std::string& directory) const {
    std::vector<fs::path> names;
    std::error_code error;
    for (fs::directory_iterator entry(directory_ / directory, error), end; !error && entry != end;
         entry.increment(error)) {
      names.push_back(entry->path().filename());
    }
    std::ranges::sort(names);
    return names;
  }
  bool saves_now() const {
    for (const char* place : {"run", "run/non_persistent", "copy"}) {
      for (const fs::path& name : names_in(place)) {
        if (name.string().starts_with("iter_") && name.string().find(".tmp") != std::string::npos) {
          return true;
        }
      }
    }
    return false;
  }
  // Half of the kills come in a save, the others from the first moment on.
  void kill_somewhere(ChildProcess& process, std::mt19937& random) const {
    const auto up_to = [&](unsigned microseconds) {
      return std::chrono::microseconds(random() % microseconds);
    };
    if (random() % 2 == 0) {
      std::this_thread::sleep_for(up_to(600'000));
    } else {
      const unsigned saves = random() % 4;
      for (unsigned save = 0; save <= saves; ++save) {
        eventually(std::chrono::seconds(2), [&] { return !saves_now(); });
        eventually(std::chrono::seconds(2), [&] { return saves_now(); });
      }
      std::this_thread::sleep_for(up_to(20'000));
    }
    process.signal(SIGKILL);
    process.wait(kLimit);
  }

  // Every checkpoint that is there has the undisturbed run's bits of its iteration.
  void expect_whole(const std::string& place) const {
    for (const fs::path& name : names_in(place)) {
      const std::string text = name.string();
      if (!text.starts_with("iter_") || text.find('.') != std::string::npos) continue;
      const std::string checkpoint = place + "/" + text;
      EXPECT_EQ(run("checkpoint verify " + checkpoint).status, 0) << checkpoint;
      EXPECT_EQ(digest(checkpoint), digest("undisturbed/" + text)) << checkpoint;
    }
  }
  void expect_tidy(const std::string& place) const {
    for (const auto& entry : fs::recursive_directory_iterator(directory_ / place)) {
      const std::string name = entry.path().filename().string();
      EXPECT_EQ(name.find(".tmp"), std::string::npos) << entry.path();
      EXPECT_EQ(name.find(".old"), std::string::npos) << entry.path();
    }
  }
};

TEST_P(Kills, LeaveWhatWasSaved) {
  prepare();
  // All of its checkpoints stay.
  const ProgramOutput undisturbed =
      run(fmt::format("pretrain gpt {} --save undisturbed --keep-last 100", common()));
  ASSERT_EQ(undisturbed.status, 0) << undisturbed.err;
  std::mt19937 random(20261126);
  const int kills = kills_of_a_scene();
  for (int number = 0; number < kills && !HasFailure(); ++number) {
    SCOPED_TRACE(number);
    {
      ChildProcess process = start_again(number);
      kill_somewhere(process, random);
    }
    for (const char* place : {"run", "run/non_persistent", "copy"}) expect_whole(place);
    // Where it had ended by itself it begins anew.
    if (fs::exists(directory_ / fmt::format("run/iter_{:07d}", kIterations))) {
      fs::remove_all(directory_ / "run");
      fs::remove_all(directory_ / "copy");
    }
  }
  ChildProcess last = start_again(kills);
  expect_end(last, 0);
  EXPECT_EQ(digest("run"), digest("undisturbed"));
  EXPECT_EQ(results("run"), results("undisturbed"));
  expect_tidy("run");
  if (fs::exists(directory_ / "copy")) expect_tidy("copy");
}

INSTANTIATE_TEST_SUITE_P(Layouts, Kills, testing::Range(std::size_t{0}, std::size(kScenes)),
                         [](const auto& number) {
                           return std::string(kScenes[number.param].name);
                         });

}  // namespace
}  // namespace phalanx::processes
