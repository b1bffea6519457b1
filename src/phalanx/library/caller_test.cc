// The process and the thread of a caller are the same after a call as before it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <immintrin.h>
#include <pthread.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "phalanx/library/test_support.h"

namespace phalanx {
namespace {

std::string bytes_of(const void* data, std::size_t size) {
  return {static_cast<const char*>(data), size};
}

// What a library could leave changed, as texts.
struct CallerState {
  unsigned mxcsr = _mm_getcsr();
  std::string cores, mask, handlers, environment, streams;
  std::size_t threads = 0;

  CallerState() {
    cpu_set_t set;
    CPU_ZERO(&set);
    ::sched_getaffinity(0, sizeof set, &set);
    cores = bytes_of(&set, sizeof set);
    sigset_t blocked;
    ::sigemptyset(&blocked);
    ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    for (int signal = 1; signal < NSIG; ++signal) {
      struct sigaction action {};
      if (::sigaction(signal, nullptr, &action) != 0) continue;
      handlers += bytes_of(&action.sa_handler, sizeof action.sa_handler) +
                  std::to_string(action.sa_flags) + ";";
      mask += ::sigismember(&blocked, signal) == 1 ? "1" : "0";
    }
    for (char** variable = environ; *variable != nullptr; ++variable) {
      environment += std::string(*variable) + "\n";
    }
    for (const int descriptor : {0, 1, 2}) {
      struct stat file {};
      ::fstat(descriptor, &file);
      streams += std::to_string(file.st_dev) + ":" + std::to_string(file.st_ino) + " ";
    }
  }
  friend bool operator==(const CallerState&, const CallerState&) = default;
};

std::size_t threads_of_process() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<std::size_t>(std::distance(begin(tasks), end(tasks)));
}

// A thread is in this list for a moment after it was joined.
bool returns_to(std::size_t threads) {
  constexpr int kMostWaits = 5000;
  for (int i = 0; i < kMostWaits && threads_of_process() != threads; ++i) ::usleep(1000);
  return threads_of_process() == threads;
}

class Caller : public testing::Test {
 protected:
  Caller() {
    phalanx_set_log([](int, const char*, void*) {}, nullptr);
    // Flushes denormal numbers to zero, as some libraries set it, and rounds down.
    _mm_setcsr(mode_ | 0x8040U | 0x2000U);
  }
  ~Caller() override {
    _mm_setcsr(mode_);
    phalanx_set_log(nullptr, nullptr);
  }
  static int ignore(const char*, const char*, void*) { return 0; }

  const unsigned mode_ = _mm_getcsr();
  const TemporaryDirectory scratch_{"caller"};
};

TEST_F(Caller, IsUnchanged) {
  // The only rank takes all cores; two ranks are bound to theirs.
  const auto cores = std::max<long>(1, ::sysconf(_SC_NPROCESSORS_ONLN));
  Json alone = tiny_flags(write_tiny_data(scratch_.path()));
  alone.update({{"train-iters", 1}, {"eval-iters", 0}, {"threads-per-rank", cores}});
  Json pair = alone;
  alone.update({{"save", scratch_ / "run"}, {"save-interval", 1}});
  pair.update({{"nproc", 2}, {"threads-per-rank", std::max<long>(1, cores / 2)}});
  const auto text = [](const Json& request) { return request.dump(); };
  const Json load = {{"load", scratch_ / "run"}};
  Json prompts = load, texts = load;
  prompts["prompts"] = {"1 2 3"};
  prompts["flags"] = {{"max-tokens", 2}};
  texts["texts"] = {"1 2 3"};
  const std::vector<std::pair<std::string, std::function<phalanx_answer*()>>> calls = {
      {"plan", [&] { return phalanx_plan(request_of(tiny_shape()).c_str()); }},
      {"grid", [] { return phalanx_grid(R"({"flags": {"world-size": 2}})"); }},
      {"schedule",
       [] {
         return phalanx_schedule(
             R"({"flags": {"kind": "gpipe", "pipeline-size": 2, "microbatches": 2}})");
       }},
      {"run", [&] { return phalanx_run(request_of(alone).c_str(), ignore, nullptr, nullptr); }},
      {"run of two ranks",
       [&] { return phalanx_run(request_of(pair).c_str(), ignore, nullptr, nullptr); }},
      {"generate", [&] { return phalanx_generate(text(prompts).c_str()); }},
      {"score", [&] { return phalanx_score(text(texts).c_str()); }},
      {"report",
       [&] {
         return phalanx_report(text({{"directories", {scratch_ / "run"}}}).c_str());
       }},
      {"command", [&] { return phalanx_command(R"({"command": ["version"]})"); }},
      {"failing command", [&] { return phalanx_command(R"({"command": ["nothing"]})"); }},
      {"tokenizer",
       [&] {
         phalanx_tokenizer* tokenizer = nullptr;
         const Answer opened = phalanx_tokenizer_open(text(load).c_str(), &tokenizer);
         EXPECT_EQ(opened.code, 0) << opened.error;
         phalanx_answer* answer = phalanx_tokenize(tokenizer, R"({"texts": ["1 2"]})");
         phalanx_tokenizer_close(tokenizer);
         return answer;
       }},
      {"checkpoint", [&] {
         phalanx_checkpoint* checkpoint = nullptr;
         phalanx_answer* answer = phalanx_checkpoint_open((scratch_ / "run").c_str(), &checkpoint);
         phalanx_checkpoint_close(checkpoint);
         return answer;
       }}};
  for (const auto& [name, call] : calls) {
    SCOPED_TRACE(name);
    const CallerState before;
    const std::size_t threads = threads_of_process();
    const Answer answer = call();
    EXPECT_EQ(answer.code, name == "failing command" ? 64 : 0) << answer.error;
    const CallerState after;
    EXPECT_EQ(after.mxcsr, before.mxcsr);
    EXPECT_EQ(after.cores, before.cores);
    EXPECT_EQ(after.mask, before.mask);
    EXPECT_EQ(after.handlers, before.handlers);
    EXPECT_EQ(after.environment, before.environment);
    EXPECT_EQ(after.streams, before.streams);
    EXPECT_TRUE(returns_to(threads)) << "threads were left behind";
  }
}

}  // namespace
}  // namespace phalanx
