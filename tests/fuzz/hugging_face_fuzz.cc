// Any texts as a folder of Hugging Face's: it is refused with a reason, or every tensor of the
// model that its config.json describes has all its values in the files.
//
// An input is config.json, generation_config.json, the header of a file of weights, and, where the
// weights are in two files, the header of the second and the index, with lines "===" between them.
// The files have as much data behind their headers as these ask for, up to a limit.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "memory_file.h"
#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/hugging_face/import.h"
#include "phalanx/hugging_face/tensor_stream.h"
#include "require.h"

namespace phalanx::hugging_face {
namespace {

constexpr std::size_t kMostData = 65536;

// The largest number behind a comma that a ']' ends: an end of data_offsets.
std::size_t data_bytes(std::string_view header) {
  std::size_t most = 0;
  for (std::size_t end = header.find(']'); end != std::string_view::npos;
       end = header.find(']', end + 1)) {
    std::size_t digits = end;
    while (digits > 0 && header[digits - 1] >= '0' && header[digits - 1] <= '9') --digits;
    std::size_t number = 0;
    for (const char digit : header.substr(digits, std::min<std::size_t>(end - digits, 9))) {
      number = number * 10 + static_cast<std::size_t>(digit - '0');
    }
    if (digits > 0 && header[digits - 1] == ',') most = std::max(most, number);
  }
  return std::min(most, kMostData);
}

std::string weights_file(std::string_view header) {
  const std::uint64_t length = header.size();
  std::string file(sizeof(length), '\0');
  std::memcpy(file.data(), &length, sizeof(length));
  file += header;
  for (std::size_t i = data_bytes(header); i > 0; --i) file += static_cast<char>(i % 61);
  return file;
}

class AnyFolder {
 public:
  AnyFolder() {
    set_log_level(LogLevel::kError);
    for (const NameDirectory* directory : {&single_, &sharded_}) {
      directory->add("config.json", config_);
      directory->add("generation_config.json", generation_);
    }
    single_.add("model.safetensors", first_);
    sharded_.add("a.safetensors", first_);
    sharded_.add("b.safetensors", second_);
    sharded_.add("model.safetensors.index.json", index_);
  }

  // The directory that holds the parts.
  std::string write(const std::array<std::string_view, 5>& parts) const {
    config_.write(parts[0]);
    generation_.write(parts[1].empty() ? "{}" : parts[1]);
    first_.write(weights_file(parts[2]));
    second_.write(weights_file(parts[3]));
    index_.write(parts[4]);
    return (parts[4].empty() ? single_ : sharded_) / "";
  }

 private:
  MemoryFile config_, generation_, first_, second_, index_;
  NameDirectory single_, sharded_;
};

void read_all(const Import& model) {
  std::int64_t values = 0;
  for (std::size_t i = 0; i < model.table().rows.size(); ++i) {
    const TensorRow& row = model.table().rows[i];
    std::int64_t bytes = 0;
    visit_ours(row, model.parts(i), model.dtype(i),
               [&](std::span<const std::byte> piece) { bytes += std::ssize(piece); });
    require(bytes == row.shape.count() * size_of(model.dtype(i)), "{} bytes of {}", bytes,
            row.name);
    values += row.shape.count();
  }
  require(values == model.parameters(), "{} values of {}", values, model.parameters());
}

}  // namespace
}  // namespace phalanx::hugging_face

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace phalanx::hugging_face;
  constexpr std::string_view kSeparator = "\n===\n";
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  std::array<std::string_view, 5> parts;
  for (std::string_view& part : parts) {
    const std::size_t end = std::min(rest.find(kSeparator), rest.size());
    part = rest.substr(0, end);
    rest.remove_prefix(std::min(end + kSeparator.size(), rest.size()));
  }
  static const AnyFolder folder;
  const std::string directory = folder.write(parts);
  for (const bool ignore_unexpected : {false, true}) {
    try {
      read_all(Import(directory, ignore_unexpected));
      break;
    } catch (const phalanx::InternalError&) {
      throw;
    } catch (const phalanx::Error& error) {
      phalanx::require(std::strlen(error.what()) > 0, "a fault without a reason");
    }
  }
  return 0;
}
