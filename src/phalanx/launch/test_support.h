#pragma once
// For tests of the launcher: shell scripts as ranks, and the files that a run leaves.

#include <fcntl.h>
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/base/file_descriptor.h"
#include "phalanx/base/test_support.h"
#include "phalanx/checkpoint/checkpoint_directory.h"
#include "phalanx/launch/launcher.h"

namespace phalanx::launch {

// The manifest of a complete checkpoint.
inline std::string manifest_text(std::int64_t start, std::int64_t iteration) {
  Manifest manifest;
  manifest.run_id = std::string(32, 'a');
  manifest.start = start;
  manifest.iteration = iteration;
  manifest.files = {{.name = std::string(kModelFileName), .bytes = 1, .xxh3 = 1}};
  return manifest_to_json(manifest);
}

class LaunchTest : public testing::Test {
 protected:
  LaunchTest() {
    options_.log_directory = directory_ / "logs";
    options_.run_id = "run";
    options_.stop_signals = {SIGTERM, SIGINT};
  }

  // Every rank runs the script with sh; further words are $0, $1, ...
  int run(int ranks, const std::string& script, std::vector<std::string> words = {}) {
    options_.ranks = ranks;
    options_.command = {"-c", script};
    for (std::string& word : words) options_.command.push_back(std::move(word));
    return launch(options_, setup());
  }

  LaunchSetup setup() {
    LaunchSetup setup;
    setup.program = "/bin/sh";
    setup.host = "here";
    setup.grace = grace_;
    setup.kill_patience = kill_patience_;
    setup.make_group = [this](const std::string&, const std::function<void()>&) {
      return std::make_unique<NodeGroup>(NodeGroupParts{
          .verdicts = verdicts_, .server = nullptr, .endpoint = "unix:none", .gather = nullptr});
    };
    output_ = FileDescriptor(open_file("console.out"));
    error_ = FileDescriptor(open_file("console.err"));
    setup.output = output_.get();
    setup.error = error_.get();
    return setup;
  }
  int open_file(const std::string& name) const {
    return ::open((directory_ / name).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  }

  std::string read(const std::string& name) const {
    std::ifstream file(directory_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  nlohmann::json summary() const {
    return nlohmann::json::parse(read("logs/run/summary.json"), nullptr, false);
  }
  // The numbers in a file to which every rank writes a line, such as "pids".
  std::vector<int> numbers_in(const std::string& name) const {
    std::ifstream file(directory_ / name);
    std::vector<int> numbers;
    for (int number = 0; file >> number;) numbers.push_back(number);
    return numbers;
  }
  // The test's directory, for scripts.
  std::string here() const { return directory_.string(); }

  const TemporaryDirectory temporary_{"launch"};
  const std::filesystem::path directory_ = temporary_.path();
  LaunchOptions options_;
  std::chrono::milliseconds grace_{250};
  std::chrono::milliseconds kill_patience_ = std::chrono::seconds(10);
  std::shared_ptr<VerdictBox> verdicts_ = std::make_shared<VerdictBox>();
  FileDescriptor output_, error_;
};

}  // namespace phalanx::launch
