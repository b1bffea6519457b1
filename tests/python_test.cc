// The Python package, by its own tests (python/tests), with the library and the program that were
// built.

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "phalanx/base/test_support.h"
#include "tests/paths.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;

int run(const std::string& command) {
  const int status = std::system(command.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Of the interpreters that are there one that has NumPy; empty if none is new enough.
std::string interpreter() {
  std::string any;
  for (const char* name : {"python3", "/usr/bin/python3"}) {
    const auto can = [&](const char* line) {
      return run(fmt::format("{} -c '{}' 2>/dev/null", name, line)) == 0;
    };
    if (!can("import sys; sys.exit(sys.version_info < (3, 9))")) continue;
    if (can("import numpy")) return name;
    if (any.empty()) any = name;
  }
  return any;
}

TEST(Python, ThePackagesTestsPass) {
  const std::string python = interpreter();
  if (python.empty()) GTEST_SKIP() << "there is no python3 of version 3.9 or newer";
  const TemporaryDirectory directory("python");
  const fs::path log = directory.path() / "log";
  const fs::path package = source_path("python");
  const int status = run(
      fmt::format("cd '{}' && env PYTHONPATH='{}' PHALANX_LIBRARY='{}' PYTHONDONTWRITEBYTECODE=1 "
                  "{} -m unittest discover -s '{}/tests' -t '{}' >'{}' 2>&1 </dev/null",
                  directory.path().string(), package.string(), build_path("libphalanx.so").string(),
                  python, package.string(), package.string(), log.string()));
  std::ifstream file(log);
  EXPECT_EQ(status, 0) << std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace
}  // namespace phalanx
