#include "phalanx/base/stack_dump.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "phalanx/base/error.h"

// A dump must show these names, so they are not in an unnamed namespace.
namespace phalanx::stack_dump_test {

struct Gate {
  std::mutex mutex;
  std::condition_variable opened;
  std::atomic<bool> is_open{false};
  std::atomic<int> arrived{0};

  void open() {
    const std::lock_guard lock(mutex);
    is_open = true;
    opened.notify_all();
  }
};

__attribute__((noinline)) int waits_for_a_condition(Gate& gate) {
  std::unique_lock lock(gate.mutex);
  ++gate.arrived;
  gate.opened.wait(lock, [&] { return gate.is_open.load(); });
  return gate.arrived;
}

__attribute__((noinline)) int waits_in_poll(Gate& gate) {
  ++gate.arrived;
  while (!gate.is_open) ::poll(nullptr, 0, 50);
  return gate.arrived;
}

__attribute__((noinline)) int computes(Gate& gate) {
  ++gate.arrived;
  std::int64_t rounds = 0;
  while (!gate.is_open) ++rounds;
  return gate.arrived + static_cast<int>(rounds & 1);
}

__attribute__((noinline)) int hears_no_signals(Gate& gate) {
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
  return waits_in_poll(gate);
}

}  // namespace phalanx::stack_dump_test

namespace phalanx {
namespace {

using stack_dump_test::Gate;
using testing::HasSubstr;
using testing::Not;

class StackDumpTest : public testing::Test {
 protected:
  StackDumpTest() : file_(std::tmpfile()) {
    PHALANX_CHECK(file_ != nullptr, "no temporary file");
    install_stack_dump(::fileno(file_), 3);
  }
  ~StackDumpTest() override {
    gate_.open();
    for (std::thread& thread : threads_) thread.join();
    install_stack_dump(-1, -1, 0);
    std::signal(SIGQUIT, SIG_DFL);
    std::fclose(file_);
  }

  void start(int (*body)(Gate&), const char* name) {
    threads_.emplace_back([this, body] { sum_ += body(gate_); });
    ::pthread_setname_np(threads_.back().native_handle(), name);
    while (gate_.arrived < static_cast<int>(threads_.size())) std::this_thread::yield();
  }

  // The text that was written since the last call.
  std::string written() {
    std::string text;
    char buffer[4096];
    ssize_t count = 0;
    while ((count = ::pread(::fileno(file_), buffer, sizeof buffer, read_)) > 0) {
      text.append(buffer, static_cast<std::size_t>(count));
      read_ += count;
    }
    return text;
  }

  static std::vector<std::string> lines_with(const std::string& text, const std::string& part) {
    std::istringstream stream(text);
    std::vector<std::string> lines;
    for (std::string line; std::getline(stream, line);)
      if (line.find(part) != std::string::npos) lines.push_back(line);
    return lines;
  }

  Gate gate_;

 private:
  std::FILE* file_;
  off_t read_ = 0;
  std::atomic<int> sum_{0};
  std::vector<std::thread> threads_;
};

TEST_F(StackDumpTest, ShowsTheStacksOfAllThreads) {
  start(stack_dump_test::waits_for_a_condition, "waiter");
  start(stack_dump_test::waits_in_poll, "poller");
  start(stack_dump_test::computes, "worker");
  for (int times = 0; times < 3; ++times) {
    ASSERT_TRUE(dump_stacks());
    const std::string text = written();
    EXPECT_EQ(lines_with(text, "rank 3 ").size(), lines_with(text, "").size()) << text;
    EXPECT_THAT(text, HasSubstr("rank 3 stacks of process " + std::to_string(::getpid())));
    EXPECT_THAT(text, HasSubstr("rank 3 end of the stacks of "));
    EXPECT_THAT(text, Not(HasSubstr("answer")));
    const auto waiter = lines_with(text, "waits_for_a_condition");
    ASSERT_FALSE(waiter.empty()) << text;
    EXPECT_THAT(waiter[0], testing::MatchesRegex("rank 3 thread [0-9]+ waiter: .*base_test\\(.*"));
    const auto worker = lines_with(text, "computes");
    ASSERT_FALSE(worker.empty()) << text;
    EXPECT_THAT(worker[0], HasSubstr(" worker: "));
    EXPECT_FALSE(lines_with(text, "waits_in_poll").empty()) << text;
    const std::string self = "thread " + std::to_string(::getpid()) + " base_test: ";
    EXPECT_GE(lines_with(text, self).size(), 4U) << "the thread that dumps: " << text;
  }
}

TEST_F(StackDumpTest, TheProcessContinuesAfterTheSignal) {
  start(stack_dump_test::waits_for_a_condition, "waiter");
  for (int times = 0; times < 2; ++times) {
    ::raise(SIGQUIT);
    EXPECT_THAT(written(), HasSubstr("waits_for_a_condition"));
  }
}

TEST_F(StackDumpTest, NamesAThreadThatDoesNotAnswer) {
  start(stack_dump_test::hears_no_signals, "deaf");
  start(stack_dump_test::waits_in_poll, "poller");
  ASSERT_TRUE(dump_stacks());
  const std::string text = written();
  EXPECT_EQ(lines_with(text, " deaf: does not answer").size(), 1U) << text;
  EXPECT_FALSE(lines_with(text, "waits_in_poll").empty()) << text;
}

TEST_F(StackDumpTest, DoesNotInterruptARead) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  std::atomic<ssize_t> got{-2};
  std::atomic<int> thread{0};
  std::thread reader([&] {
    char byte = 0;
    thread = ::gettid();
    got = ::read(ends[0], &byte, 1);
  });
  while (thread == 0) std::this_thread::yield();
  for (int times = 0; times < 5; ++times) EXPECT_TRUE(dump_stacks());
  EXPECT_EQ(got, -2);
  EXPECT_EQ(::write(ends[1], "x", 1), 1);
  reader.join();
  EXPECT_EQ(got, 1);
  EXPECT_THAT(written(), HasSubstr("thread " + std::to_string(thread) + " "));
  ::close(ends[0]);
  ::close(ends[1]);
}

// A dump must not hang if nobody reads it.
TEST_F(StackDumpTest, DoesNotHangOnAnUnreadPipe) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_NONBLOCK), 0);
  const std::string filling(4096, 'x');
  while (::write(ends[1], filling.data(), filling.size()) > 0) {
  }
  ASSERT_EQ(::fcntl(ends[1], F_SETFL, 0), 0);
  start(stack_dump_test::waits_in_poll, "poller");
  install_stack_dump(ends[1], 3);
  EXPECT_TRUE(dump_stacks());
  ::close(ends[0]);
  EXPECT_TRUE(dump_stacks()) << "and no SIGPIPE";
  ::close(ends[1]);
}

// Threads start, end, allocate and throw meanwhile, and two dumps run at once.
TEST_F(StackDumpTest, WorksWhileThreadsStartAndEnd) {
  std::vector<std::thread> churn;
  for (int i = 0; i < 3; ++i)
    churn.emplace_back([this] {
      ++gate_.arrived;
      while (!gate_.is_open) {
        std::thread([] { std::vector<std::string> words(100, std::string(50, 'x')); }).join();
        try {
          throw std::runtime_error("x");
        } catch (const std::runtime_error&) {
        }
      }
    });
  while (gate_.arrived < 3) std::this_thread::yield();
  std::atomic<int> dumps{0};
  std::thread other([&] {
    for (int times = 0; times < 20; ++times) dumps += dump_stacks() ? 1 : 0;
  });
  for (int times = 0; times < 20; ++times) dumps += dump_stacks() ? 1 : 0;
  other.join();
  gate_.open();
  for (std::thread& thread : churn) thread.join();
  const std::string text = written();
  EXPECT_EQ(lines_with(text, "stacks of process").size(), static_cast<std::size_t>(dumps));
  EXPECT_EQ(lines_with(text, "end of the stacks").size(), static_cast<std::size_t>(dumps));
  EXPECT_GE(dumps, 1);
}

TEST_F(StackDumpTest, WritesNothingWithoutInstallation) {
  install_stack_dump(-1, -1, 0);
  EXPECT_FALSE(dump_stacks());
}

}  // namespace
}  // namespace phalanx
