#pragma once
// Reads TensorBoard's event files, for tests: by hand, bit by bit, so that it shares nothing with
// what writes them.

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/file.h"

namespace phalanx::test {

// A message of protobuf's wire format: the fields of a number, in order, as they lie there.
class WireMessage {
 public:
  explicit WireMessage(std::string_view bytes) {
    while (!bytes.empty()) {
      const std::uint64_t key = varint(bytes);
      const auto field = static_cast<int>(key >> 3);
      switch (key & 7) {
        case 0:
          fields_[field].push_back(std::to_string(varint(bytes)));
          break;
        case 1:
          fields_[field].push_back(take(bytes, 8));
          break;
        case 2:
          fields_[field].push_back(take(bytes, varint(bytes)));
          break;
        case 5:
          fields_[field].push_back(take(bytes, 4));
          break;
        default:
          throw std::runtime_error("a wire type that is not written");
      }
    }
  }

  bool has(int field) const { return fields_.contains(field); }
  std::string text(int field) const { return has(field) ? fields_.at(field).front() : ""; }
  std::int64_t integer(int field) const { return has(field) ? std::stoll(text(field)) : 0; }
  WireMessage message(int field) const { return WireMessage(fields_.at(field).front()); }
  template <typename Number>
  Number number(int field) const {
    Number value{};
    std::memcpy(&value, fields_.at(field).front().data(), sizeof(value));
    return value;
  }

 private:
  static std::uint64_t varint(std::string_view& bytes) {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes.at(0));
      bytes.remove_prefix(1);
      value |= std::uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) return value;
    }
  }
  static std::string take(std::string_view& bytes, std::uint64_t count) {
    if (count > bytes.size()) throw std::runtime_error("a field beyond the message's end");
    std::string taken(bytes.substr(0, count));
    bytes.remove_prefix(count);
    return taken;
  }

  std::map<int, std::vector<std::string>> fields_;
};

struct TensorBoardEvent {
  double wall_time = 0;
  std::int64_t step = 0;
  std::string version;
  bool restarts = false;
  std::string tag;
  float value = 0;   // of a scalar
  std::string text;  // of a text
};

// CRC-32C a bit at a time, masked.
inline std::uint32_t slow_masked_crc(std::string_view bytes) {
  std::uint32_t rest = 0xFFFFFFFF;
  for (const char c : bytes) {
    rest ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit)
      rest = (rest & 1U) != 0 ? (rest >> 1) ^ 0x82F63B78 : rest >> 1;
  }
  rest = ~rest;
  return ((rest >> 15) | (rest << 17)) + 0xA282EAD8U;
}

inline TensorBoardEvent event_of(const WireMessage& message) {
  TensorBoardEvent event{.wall_time = message.number<double>(1),
                         .step = message.integer(2),
                         .version = message.text(3),
                         .restarts = message.has(7) && message.message(7).integer(1) == 1,
                         .tag = {},
                         .value = 0,
                         .text = {}};
  if (!message.has(5)) return event;
  const WireMessage value = message.message(5).message(1);
  event.tag = value.text(1);
  if (value.has(2)) event.value = value.number<float>(2);
  if (!value.has(8)) return event;
  const WireMessage tensor = value.message(8);
  const bool is_text = value.message(9).message(1).text(1) == "text" && tensor.integer(1) == 7 &&
                       tensor.message(2).message(2).integer(1) == 1;
  if (!is_text) throw std::runtime_error("a tensor that is no text");
  event.text = tensor.text(8);
  return event;
}

// All events of a file; throws where a frame or a CRC is wrong.
inline std::vector<TensorBoardEvent> read_events(const std::filesystem::path& path) {
  const std::string file = read_file(path);
  std::string_view rest = file;
  std::vector<TensorBoardEvent> events;
  const auto crc = [&](std::size_t at) {
    std::uint32_t value = 0;
    std::memcpy(&value, rest.substr(at, 4).data(), 4);
    return value;
  };
  while (!rest.empty()) {
    std::uint64_t length = 0;
    if (rest.size() < 16) throw std::runtime_error("a torn frame");
    std::memcpy(&length, rest.data(), 8);
    if (crc(8) != slow_masked_crc(rest.substr(0, 8))) throw std::runtime_error("CRC of a length");
    if (rest.size() < 16 + length) throw std::runtime_error("a torn record");
    const std::string_view data = rest.substr(12, length);
    if (crc(12 + length) != slow_masked_crc(data)) throw std::runtime_error("CRC of a record");
    events.push_back(event_of(WireMessage(data)));
    rest.remove_prefix(16 + length);
  }
  return events;
}

inline std::vector<std::filesystem::path> event_files(const std::filesystem::path& directory) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.path().filename().string().starts_with("events.out.tfevents.")) {
      files.push_back(entry.path());
    }
  }
  return files;
}

}  // namespace phalanx::test
