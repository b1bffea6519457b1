#pragma once
// The input and the output of a command in memory, for a process that is not the command's own.

#include <string>
#include <string_view>
#include <utility>

#include "phalanx/cli/command_io.h"

namespace phalanx {

class MemoryIo final : public CommandIo {
 public:
  explicit MemoryIo(std::string input = {}) : input_(std::move(input)) {}

  bool read_more(std::string& text) override {
    text += input_;
    return !std::exchange(input_, {}).empty();
  }
  void put(std::string_view text) override { output_ += text; }
  void flush() override {}
  bool is_typed() const override { return false; }
  bool is_dialogue() const override { return false; }
  std::unique_ptr<StopRequests> listen(const char* /*line*/) override {
    return std::make_unique<NoRequests>();
  }
  bool owns_process() const override { return false; }

  // What was printed.
  std::string& output() { return output_; }

 private:
  // The signals of the process are its program's.
  class NoRequests final : public StopRequests {
   public:
    int received() const override { return 0; }
  };

  std::string input_;
  std::string output_;
};

}  // namespace phalanx
