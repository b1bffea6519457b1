#include "phalanx/base/background_writer.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <utility>

#include "phalanx/base/file.h"
#include "phalanx/base/test_support.h"

namespace phalanx {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

constexpr auto kLong = std::chrono::seconds(30);

// A pipe that is read only when the test asks.
class UnreadPipe : public testing::Test {
 protected:
  UnreadPipe() { EXPECT_EQ(::pipe2(ends_.data(), O_CLOEXEC), 0); }
  ~UnreadPipe() override {
    for (const int end : ends_) {
      if (end >= 0) ::close(end);
    }
  }
  int input() const { return ends_[1]; }
  std::string read_some() const {
    std::string text(std::size_t{1} << 16, '\0');
    const auto got = ::read(ends_[0], text.data(), text.size());
    text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return text;
  }
  // Reads until a line ends with `end`.
  std::string read_until(const std::string& end) const {
    std::string text;
    while (!text.ends_with(end)) text += read_some();
    return text;
  }
  void close_reader() { ::close(std::exchange(ends_[0], -1)); }

 private:
  std::array<int, 2> ends_{-1, -1};
};

TEST_F(UnreadPipe, BytesThatFitAreWrittenAtOnce) {
  BackgroundWriter writer;
  const auto output = writer.add(input(), {}, /*at_once=*/true);
  output.write("a line\n");
  EXPECT_EQ(writer.waiting(), 0U);
  EXPECT_FALSE(output.is_behind());
  EXPECT_EQ(read_some(), "a line\n");
  // The pipe stays in blocking mode for other processes that share it.
  EXPECT_EQ(::fcntl(input(), F_GETFL) & O_NONBLOCK, 0);
}

TEST_F(UnreadPipe, NeverBlocksAndContinuesWithItsReader) {
  BackgroundWriter writer;
  const auto output =
      writer.add(input(), {.most_bytes = 100000, .reason = "nobody reads"}, /*at_once=*/true);
  for (int i = 0; i < 100000; ++i) output.write("a line that nobody reads\n");
  EXPECT_TRUE(output.is_behind());
  EXPECT_FALSE(writer.flush(std::chrono::milliseconds(1), kLong));
  const std::string text = read_until("nobody reads]\n");
  EXPECT_THAT(text, StartsWith("a line that nobody reads\na line"));
  EXPECT_THAT(text, HasSubstr("\n[... "));
  EXPECT_TRUE(writer.flush(kLong, kLong));
  output.write("read again\n");
  EXPECT_EQ(read_until("\n"), "read again\n");
}

// A disk that hangs blocks the thread, but not the callers and not their writes to other files.
TEST_F(UnreadPipe, AHangingDiskBlocksNoCaller) {
  BackgroundWriter writer;
  const auto hung = writer.add(input(), {.most_bytes = 200000}, /*at_once=*/false);
  std::array<int, 2> other{};
  ASSERT_EQ(::pipe2(other.data(), O_CLOEXEC), 0);
  const auto healthy = writer.add(other[1], {}, /*at_once=*/false);
  for (int i = 0; i < 100000; ++i) hung.write("a line that the disk does not take\n");
  healthy.write("a line\n");
  std::array<char, 100> bytes{};
  EXPECT_EQ(::read(other[0], bytes.data(), bytes.size()), 7);
  EXPECT_TRUE(hung.is_behind());
  EXPECT_FALSE(writer.flush(std::chrono::milliseconds(1), kLong));
  EXPECT_GT(hung.stuck_for(), BackgroundWriter::Clock::duration::zero());
  ::close(other[0]);
  ::close(other[1]);
}

TEST_F(UnreadPipe, AResultIsNeverCut) {
  BackgroundWriter writer;
  const auto output = writer.add(input(), {.most_bytes = 10}, /*at_once=*/true);
  const std::string result(300000, 'r');
  output.write_all(result + "\n");
  EXPECT_EQ(read_until("\n"), result + "\n");
}

TEST_F(UnreadPipe, AClosedReaderIsAFault) {
  ::signal(SIGPIPE, SIG_IGN);
  BackgroundWriter writer;
  const auto output = writer.add(input(), {}, /*at_once=*/true);
  output.write(std::string(200000, 'x') + "\n");
  EXPECT_GT(writer.waiting(), 0U);
  close_reader();
  EXPECT_TRUE(writer.flush(kLong, kLong));
  EXPECT_THAT(output.fault(), HasSubstr("Broken pipe"));
  output.write("no more\n");
  EXPECT_EQ(writer.waiting(), 0U);
}

// Ctrl-S stops the terminal.
TEST(HeldTerminal, BlocksNoCaller) {
  const int screen = ::posix_openpt(O_RDWR | O_NOCTTY);
  ASSERT_EQ(::grantpt(screen), 0);
  ASSERT_EQ(::unlockpt(screen), 0);
  const int terminal = ::open(::ptsname(screen), O_RDWR | O_NOCTTY);
  ASSERT_GE(terminal, 0);
  BackgroundWriter writer;
  const auto output = writer.add(terminal, {.most_bytes = 1000}, /*at_once=*/true);
  for (int i = 0; i < 10000; ++i) output.write("a line that nobody reads\n");
  EXPECT_GT(writer.waiting(), 0U);
  ::close(screen);
  ::close(terminal);
}

TEST(BackgroundWriter, WritesManyFiles) {
  const TemporaryDirectory directory;
  BackgroundWriter writer;
  std::array<BackgroundWriter::Output, 20> outputs;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const int file =
        ::open((directory / std::to_string(i)).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    outputs[i] = writer.add(file, {}, /*at_once=*/false);
    ::close(file);
  }
  for (int line = 0; line < 100; ++line) {
    for (const auto& output : outputs) output.write("line " + std::to_string(line) + "\n");
  }
  EXPECT_TRUE(writer.flush(kLong, kLong));
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::string text = read_file(directory / std::to_string(i));
    EXPECT_THAT(text, StartsWith("line 0\nline 1\n"));
    EXPECT_THAT(text, EndsWith("\nline 99\n"));
    EXPECT_EQ(text.size(), 790U);
  }
}

TEST(BackgroundWriter, AFullDiskIsAFault) {
  const int full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  BackgroundWriter writer;
  const auto output = writer.add(full, {}, /*at_once=*/false);
  ::close(full);
  output.write("a line\n");
  EXPECT_TRUE(writer.flush(kLong, kLong));
  EXPECT_THAT(output.fault(), HasSubstr("No space left"));
}

}  // namespace
}  // namespace phalanx
