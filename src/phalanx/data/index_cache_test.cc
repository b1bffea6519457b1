#include "phalanx/data/index_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>
#include <thread>

#include "phalanx/base/failing_calls.h"
#include "phalanx/base/file.h"
#include "phalanx/data/build_lock.h"
#include "phalanx/data/gpt_index.h"
#include "phalanx/data/test_files.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing_support::FailingCalls;

constexpr std::int64_t kBytes = 1000;

IndexRequest request(const std::string& description = "made of nothing\n") {
  return {.name = "some", .description = description, .bytes = kBytes};
}

IndexBlock make_bytes(int first, std::int64_t bytes = kBytes) {
  const std::shared_ptr<std::byte[]> memory(new std::byte[static_cast<std::size_t>(bytes)]);
  for (int i = 0; i < bytes; ++i) memory[i] = static_cast<std::byte>(first + i);
  return IndexBlock::in_memory(memory, bytes);
}

std::string text_of(const IndexBlock& block) {
  return {reinterpret_cast<const char*>(block.bytes.data()), block.bytes.size()};
}

class IndexCacheTest : public ::testing::Test {
 protected:
  IndexBlock get(const std::string& description = "made of nothing\n") {
    return cache_.get(request(description), [&] {
      ++builds_;
      return make_bytes(7);
    });
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(directory_ / "cache", none)) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }
  std::string file() const { return cache_.path_of(request()).string(); }

  TemporaryDirectory directory_;
  const IndexCache cache_{directory_ / "cache"};
  int builds_ = 0;
};

TEST_F(IndexCacheTest, IsBuiltOnceAndMapped) {
  const auto made = get();
  EXPECT_EQ(made.file, file());
  const auto found = IndexCache(directory_ / "cache").get(request(), [] {
    ADD_FAILURE() << "built again";
    return make_bytes(7);
  });
  EXPECT_EQ(builds_, 1);
  EXPECT_EQ(found.file, file());
  EXPECT_EQ(text_of(found), text_of(made));
  EXPECT_EQ(found.bytes[5], std::byte{12});
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(found.bytes.data()) % 64, 0U);
  EXPECT_THAT(names(), ElementsAre(fs::path(file()).filename().string()));
}

// A block whose size only its builder knows has the size of what is in the file.
TEST_F(IndexCacheTest, ASizeThatNobodyAskedFor) {
  const IndexRequest any{.name = "some", .description = "made of nothing\n", .bytes = {}};
  const auto made = cache_.get(any, [] { return make_bytes(7, 5); });
  EXPECT_EQ(made.file, file());
  const auto found = cache_.find(any);
  ASSERT_TRUE(found);
  EXPECT_EQ(text_of(*found), "\7\10\11\12\13");
  // Who asks for a size gets that one.
  EXPECT_FALSE(cache_.find(request()));
  cache_.put(any, get().bytes);
  EXPECT_TRUE(cache_.find(request()));
}

TEST_F(IndexCacheTest, AnotherDescriptionIsAnotherFile) {
  get();
  get("made of something\n");
  EXPECT_EQ(builds_, 2);
  EXPECT_EQ(names().size(), 2U);
}

TEST_F(IndexCacheTest, EveryBitThatFlipsIsFoundAndMadeAnew) {
  const std::string good = text_of(get());
  const std::string whole = read_file(file());
  for (std::size_t byte = 0; byte < whole.size(); byte += byte < 128 ? 1 : 41) {
    for (const int bit : {0, 7}) {
      std::string damaged = whole;
      damaged[byte] = static_cast<char>(damaged[byte] ^ 1 << bit);
      const auto bytes = std::as_bytes(std::span(damaged));
      error_of(ErrorCode::kBadData, [&] { IndexCache::parse(bytes, request(), "it"); });
    }
  }
  for (std::size_t size = 0; size < whole.size(); size += size < 128 ? 1 : 41) {
    const auto bytes = std::as_bytes(std::span(whole).first(size));
    error_of(ErrorCode::kBadData, [&] { IndexCache::parse(bytes, request(), "it"); });
  }
  std::string longer = whole + "x";
  error_of(ErrorCode::kBadData,
           [&] { IndexCache::parse(std::as_bytes(std::span(longer)), request(), "it"); });
  longer = whole;
  longer[500] = static_cast<char>(longer[500] + 1);
  put_file(file(), longer);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(text_of(get()), good);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("the arrays are damaged (their digest differs): it is made anew"));
  EXPECT_EQ(builds_, 2);
  EXPECT_EQ(read_file(file()), whole);
}

TEST_F(IndexCacheTest, AForeignFileIsMadeAnew) {
  get("made of something\n");
  fs::rename(cache_.path_of(request("made of something\n")), file());
  ::testing::internal::CaptureStderr();
  get();
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("was made from something else"));
  EXPECT_EQ(builds_, 2);
  get();
  EXPECT_EQ(builds_, 2);
}

TEST_F(IndexCacheTest, WhatBuildingThrowsIsPassedOnAndLeavesNothing) {
  EXPECT_THROW(cache_.get(request(), []() -> IndexBlock { throw 1; }), int);
  EXPECT_THAT(names(), IsEmpty());
  EXPECT_THROW(cache_.get(
                   request(), [] { return make_bytes(7); }, [] { throw 1; }),
               int);
  EXPECT_THAT(names(), IsEmpty());
  get();
  EXPECT_EQ(builds_, 1);
}

// Whatever call fails, there is a block, one warning, and no half file.
TEST_F(IndexCacheTest, ADiskThatFailsLeavesItInMemory) {
  const std::string good = text_of(get());
  for (int at = 0;; ++at) {
    fs::remove_all(directory_ / "cache");
    const IndexCache cache(directory_ / "cache");
    ::testing::internal::CaptureStderr();
    FailingCalls calls(FailingCalls::What::kStayFull, at);
    const auto block = cache.get(request(), [] { return make_bytes(7); });
    cache.get(request(), [] { return make_bytes(7); });
    const std::string said = ::testing::internal::GetCapturedStderr();
    if (calls.count() <= at) break;
    SCOPED_TRACE(calls.names().at(static_cast<std::size_t>(at)));
    EXPECT_EQ(text_of(block), good);
    for (const auto& name : names()) EXPECT_THAT(name, Not(HasSubstr("tmp")));
    EXPECT_LE(std::ranges::count(said, '\n'), 1) << said;
  }
}

TEST_F(IndexCacheTest, ADirectoryThatCannotBeMadeIsOneWarning) {
  put_file(directory_ / "cache", "a file");
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(get().file, "");
  get();
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("--data-cache-path"));
  EXPECT_EQ(std::ranges::count(said, '\n'), 1) << said;
  EXPECT_EQ(builds_, 2);
}

// At every call that changes the file system a builder dies; the next one finishes.
TEST_F(IndexCacheTest, ABuilderThatIsKilledAnywhereIsSucceeded) {
  const std::string good = text_of(get());
  int deaths = 0;
  for (int at = 0;; ++at) {
    fs::remove_all(directory_ / "cache");
    const pid_t child = ::fork();
    if (child == 0) {
      FailingCalls calls(FailingCalls::What::kDie, at);
      cache_.get(request(), [] { return make_bytes(7); });
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    if (WEXITSTATUS(status) == 0) break;
    ++deaths;
    EXPECT_EQ(text_of(get()), good) << at;
    // The lock file of one that had put its block in place may stay.
    for (const auto& name : names()) EXPECT_THAT(name, Not(HasSubstr("tmp"))) << at;
  }
  EXPECT_GE(deaths, 6);
}

// A child that builds until it is told to go on, or killed.
class Builder {
 public:
  explicit Builder(const IndexCache& cache) {
    PHALANX_CHECK(::pipe(ready_.data()) == 0 && ::pipe(go_.data()) == 0, "no pipes");
    child_ = ::fork();
    if (child_ == 0) {
      cache.get(request(), [&] {
        char c = 'r';
        PHALANX_CHECK(::write(ready_[1], &c, 1) == 1 && ::read(go_[0], &c, 1) == 1, "pipe");
        return make_bytes(7);
      });
      ::_exit(0);
    }
    char c = 0;
    PHALANX_CHECK(::read(ready_[0], &c, 1) == 1, "no builder");
  }
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;
  ~Builder() {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
    for (const int end : {ready_[0], ready_[1], go_[0], go_[1]}) ::close(end);
  }
  pid_t pid() const { return child_; }
  void go_on() { PHALANX_CHECK(::write(go_[1], "g", 1) == 1, "pipe"); }
  void kill() { ::kill(child_, SIGKILL); }

 private:
  std::array<int, 2> ready_{};
  std::array<int, 2> go_{};
  pid_t child_ = 0;
};

TEST_F(IndexCacheTest, OthersWaitForTheBuilder) {
  Builder builder(cache_);
  EXPECT_THAT(BuildLock::holder(file()),
              HasSubstr("process " + std::to_string(builder.pid()) + " on host "));
  int polls = 0;
  const auto block = cache_.get(
      request(),
      [] {
        ADD_FAILURE() << "built twice";
        return make_bytes(7);
      },
      [&] {
        if (++polls == 2) builder.go_on();
      });
  EXPECT_GE(polls, 2);
  EXPECT_EQ(block.file, file());
  EXPECT_THAT(names(), ElementsAre(fs::path(file()).filename().string()));
}

TEST_F(IndexCacheTest, TheNextBuildsWhereTheBuilderIsKilled) {
  Builder builder(cache_);
  int polls = 0;
  const auto block = cache_.get(
      request(),
      [&] {
        ++builds_;
        return make_bytes(7);
      },
      [&] {
        if (++polls == 2) builder.kill();
      });
  EXPECT_EQ(builds_, 1);
  EXPECT_EQ(block.file, file());
  EXPECT_THAT(names(), ElementsAre(fs::path(file()).filename().string()));
}

TEST_F(IndexCacheTest, WaitingEndsWithWhatPollThrows) {
  const Builder builder(cache_);
  EXPECT_THROW(cache_.get(
                   request(), [] { return make_bytes(7); }, [] { throw 1; }),
               int);
}

TEST_F(IndexCacheTest, ManyThreadsBuildOnce) {
  std::atomic<int> builds = 0;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      const IndexCache cache(directory_ / "cache");
      cache.get(request(), [&] {
        ++builds;
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        return make_bytes(7);
      });
    });
  }
  threads.clear();
  EXPECT_EQ(builds, 1);
  EXPECT_EQ(names().size(), 1U);
}

TEST_F(IndexCacheTest, AGptIndexIsTheSameFromItsFile) {
  std::vector<std::int32_t> lengths = testing::kGoldenLengths;
  const auto same = [](const GptIndex& a, const GptIndex& b) {
    const auto equal = [](const IndexArray& x, const IndexArray& y) {
      if (x.size() != y.size()) return false;
      for (std::int64_t i = 0; i < x.size(); ++i) {
        if (x[i] != y[i]) return false;
      }
      return true;
    };
    return a.epochs == b.epochs && equal(a.documents, b.documents) && equal(a.starts, b.starts) &&
           equal(a.shuffle, b.shuffle);
  };
  std::size_t files = 0;
  const auto check = [&](const GptIndexOptions& options) {
    for (int start = 0; start < 2; ++start) {
      const auto cached = cached_gpt_index(SequenceLengths(lengths), options, cache_);
      EXPECT_TRUE(same(cached, build_gpt_index(lengths, options)));
      EXPECT_NE(cached.file, "");
    }
    ++files;
    EXPECT_EQ(names().size(), files);
  };
  // Everything that decides the order has a file of its own.
  check({.sequence_length = 8, .samples = 20});
  check({.sequence_length = 8, .samples = 21});
  check({.sequence_length = 8});
  check({.sequence_length = 9, .samples = 20});
  check({.sequence_length = 8, .samples = 20, .seed = 1});
  check({.sequence_length = 8, .samples = 20, .keep_partial_tail = true});
  check({.sequence_length = 8, .samples = 20, .order = DataOrder::kSequential});
  check({.sequence_length = 8, .samples = 20, .largest_narrow = 3});
  std::swap(lengths[0], lengths[1]);
  check({.sequence_length = 8, .samples = 20});
}

}  // namespace
}  // namespace phalanx
