#include "phalanx/metrics/progress.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

namespace phalanx {
namespace {

TEST(Duration, HasTwoUnits) {
  EXPECT_EQ(format_duration(0.4), "0s");
  EXPECT_EQ(format_duration(59.4), "59s");
  EXPECT_EQ(format_duration(144), "2m 24s");
  EXPECT_EQ(format_duration(3599.9), "1h 00m");
  EXPECT_EQ(format_duration(11220), "3h 07m");
  EXPECT_EQ(format_duration(187200), "2d 04h");
  EXPECT_EQ(format_duration(1e300), format_duration(1e12));
}

TEST(ProgressText, FillsTheLineAndShrinks) {
  const ProgressLine progress{.iteration = 420,
                              .total = 1000,
                              .loss = 3.21449,
                              .tokens_per_second = 4012.3,
                              .seconds_left = 144};
  EXPECT_EQ(format_progress(progress, 76),
            " 42% [======>        ] 420/1000 | loss 3.2145 | 4,012 tokens/s | 2m 24s left");
  EXPECT_EQ(format_progress(progress, 62),
            " 42% 420/1000 | loss 3.2145 | 4,012 tokens/s | 2m 24s left");
  EXPECT_EQ(format_progress(progress, 20), " 42% 420/1000");
  EXPECT_EQ(format_progress(progress, 7), " 42% 42");
  EXPECT_EQ(format_progress(progress, 0), "");
  EXPECT_EQ(format_progress(progress, 500).size(), 99U);
}

TEST(ProgressText, BeginsAndEnds) {
  EXPECT_EQ(format_progress({.total = 10, .seconds_left = -1}, 58),
            "  0% [>                  ] 0/10 | loss 0.0000 | 0 tokens/s");
  EXPECT_EQ(format_progress({.iteration = 10, .total = 10, .seconds_left = -1}, 49),
            "100% [=========] 10/10 | loss 0.0000 | 0 tokens/s");
  EXPECT_EQ(format_progress({.seconds_left = -1}, 39), "  0% 0/0 | loss 0.0000 | 0 tokens/s");
}

// A pseudo-terminal that is one column too narrow for the time left: output to `terminal` is read
// from `screen`.
class ProgressOnTerminal : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("TERM", "xterm", 1);
    screen_ = ::posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
    ASSERT_GE(screen_, 0);
    ASSERT_EQ(::grantpt(screen_), 0);
    ASSERT_EQ(::unlockpt(screen_), 0);
    terminal_ = ::open(::ptsname(screen_), O_RDWR | O_NOCTTY);
    ASSERT_GE(terminal_, 0);
    const winsize size{.ws_row = 25, .ws_col = 47, .ws_xpixel = 0, .ws_ypixel = 0};
    ASSERT_EQ(::ioctl(terminal_, TIOCSWINSZ, &size), 0);
  }
  void TearDown() override {
    ::close(terminal_);
    ::close(screen_);
  }
  int terminal() const { return terminal_; }
  std::string written() const {
    std::array<char, 4096> buffer{};
    const auto got = ::read(screen_, buffer.data(), buffer.size());
    return {buffer.data(), got > 0 ? static_cast<std::size_t>(got) : 0};
  }

 private:
  int screen_ = -1;
  int terminal_ = -1;
};

TEST_F(ProgressOnTerminal, RedrawsInPlaceAndErases) {
  const ProgressBar::Clock::time_point start{std::chrono::hours(1)};
  ProgressBar bar(8, terminal());
  ASSERT_TRUE(bar.is_active());
  bar.advance(1, 2.0, 100, 0.5, start);
  EXPECT_EQ(written(), "\r\x1b[K 12% 1/8 | loss 2.0000 | 200 tokens/s");
  bar.advance(2, 2.0, 100, 0.5, start + std::chrono::milliseconds(50));
  EXPECT_EQ(written(), "") << "too early";
  bar.advance(3, 2.0, 100, 0.5, start + std::chrono::milliseconds(100));
  EXPECT_EQ(written(), "\r\x1b[K 37% 3/8 | loss 2.0000 | 200 tokens/s");
  bar.clear();
  bar.clear();
  EXPECT_EQ(written(), "\r\x1b[K") << "erased once";
  bar.advance(4, 2.0, 100, 0.5, start + std::chrono::milliseconds(110));
  EXPECT_EQ(written(), "\r\x1b[K 50% 4/8 | loss 2.0000 | 200 tokens/s") << "drawn again at once";
}

TEST_F(ProgressOnTerminal, IsSilentOnADumbTerminal) {
  ::setenv("TERM", "dumb", 1);
  ProgressBar bar(8, terminal());
  EXPECT_FALSE(bar.is_active());
  bar.advance(1, 2.0, 100, 0.5);
  EXPECT_EQ(written(), "");
}

TEST(ProgressInAFile, IsSilent) {
  ::setenv("TERM", "xterm", 1);
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_NONBLOCK), 0);
  {
    ProgressBar bar(8, ends[1]);
    bar.advance(1, 2.0, 100, 0.5);
  }
  char byte = 0;
  EXPECT_LT(::read(ends[0], &byte, 1), 0) << "nothing was written";
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace
}  // namespace phalanx
