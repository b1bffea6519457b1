#include "phalanx/rendezvous/frame.h"

#include <gtest/gtest.h>

#include "phalanx/base/error.h"
#include "phalanx/base/philox.h"
#include "phalanx/rendezvous/wire.h"

namespace phalanx::rendezvous {
namespace {

constexpr std::size_t kLongest = std::size_t{1} << 20;

Key key_of(int number) {
  Digest bytes{};
  bytes[0] = static_cast<std::byte>(number);
  return Key(bytes);
}

std::vector<std::string> open_all(FrameOpener& opener, std::string_view bytes) {
  std::vector<std::string> messages;
  opener.feed(bytes);
  while (const auto message = opener.next()) messages.push_back(message->text);
  return messages;
}

TEST(Frame, CarriesMessagesOfAnySize) {
  for (const std::size_t size : {0UL, 1UL, 1000UL, kLongestPart - 1, kLongestPart, kLongestPart + 1,
                                 3 * kLongestPart, kLongest}) {
    FrameSealer sealer(key_of(1));
    FrameOpener opener(key_of(1), kLongest);
    const std::string message(size, 'x');
    EXPECT_EQ(open_all(opener, sealer.seal_all(message)), std::vector{message});
    EXPECT_EQ(open_all(opener, sealer.seal_all("next")), std::vector<std::string>{"next"});
  }
}

TEST(Frame, CarriesTheNumbersOfItsMessage) {
  FrameSealer sealer(key_of(1));
  FrameOpener opener(key_of(1), kLongest);
  opener.feed(sealer.seal_all(std::string(kLongestPart + 1, 'x'), {7, std::uint64_t{1} << 40}));
  opener.feed(sealer.seal_all("heartbeat"));
  const auto numbered = opener.next();
  ASSERT_TRUE(numbered);
  EXPECT_EQ(numbered->numbers.number, 7U);
  EXPECT_EQ(numbered->numbers.last_received, std::uint64_t{1} << 40);
  const auto other = opener.next();
  ASSERT_TRUE(other);
  EXPECT_EQ(other->numbers.number, 0U);
}

TEST(Frame, ArrivesByteByByte) {
  FrameSealer sealer(key_of(1));
  FrameOpener opener(key_of(1), kLongest);
  std::string bytes = sealer.seal_all("one");
  bytes += sealer.seal_all("two");
  std::vector<std::string> messages;
  for (const char byte : bytes) {
    for (std::string& message : open_all(opener, {&byte, 1})) messages.push_back(message);
  }
  EXPECT_EQ(messages, (std::vector<std::string>{"one", "two"}));
}

TEST(Frame, EveryFlippedBitIsSeen) {
  FrameSealer sealer(key_of(1));
  const std::string bytes = sealer.seal_all("heartbeat");
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    FrameOpener opener(key_of(1), kLongest);
    // With a larger length the opener waits for bytes that never come, and returns no message.
    try {
      EXPECT_TRUE(open_all(opener, flipped).empty()) << bit;
    } catch (const UnavailableError&) {
    }
  }
}

TEST(Frame, ThatIsRepeatedLeftOutOrTurnedBackIsRefused) {
  FrameSealer sealer(key_of(1));
  const std::string first = sealer.seal_all("first");
  const std::string second = sealer.seal_all("second");
  {
    FrameOpener opener(key_of(1), kLongest);
    open_all(opener, first);
    EXPECT_THROW(open_all(opener, first), UnavailableError);
  }
  {
    FrameOpener opener(key_of(1), kLongest);
    EXPECT_THROW(open_all(opener, second), UnavailableError);
  }
  {
    FrameOpener of_other_direction(key_of(2), kLongest);
    EXPECT_THROW(open_all(of_other_direction, first), UnavailableError);
  }
}

TEST(Frame, OfAGigabyteIsRefusedByItsLength) {
  std::string header;
  append_number(header, std::uint64_t{1} << 30, 4);
  append_number(header, 0, 8);
  FrameOpener opener(key_of(1), kLongest);
  EXPECT_THROW(open_all(opener, header), UnavailableError);
}

TEST(Frame, OfAMessageThatGrowsTooLongIsRefused) {
  FrameSealer sealer(key_of(1));
  FrameOpener opener(key_of(1), 100);
  EXPECT_THROW(open_all(opener, sealer.seal_all(std::string(101, 'x'))), UnavailableError);
}

TEST(Frame, AnyBytesAreRefusedOrWaitedFor) {
  for (std::uint32_t round = 0; round < 2000; ++round) {
    std::string bytes;
    for (std::uint32_t at = 0; at < 1 + round % 97; ++at) {
      bytes.push_back(static_cast<char>(philox4x32({1, 2}, {round, at, 0, 0})[0]));
    }
    FrameOpener opener(key_of(1), kLongest);
    try {
      EXPECT_TRUE(open_all(opener, bytes).empty());
    } catch (const UnavailableError&) {
    }
  }
}

}  // namespace
}  // namespace phalanx::rendezvous
