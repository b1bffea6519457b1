// What packages are made of: the components of an installation. tests/packages/run installs whole
// packages in bare systems.

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string>

#include "phalanx/base/test_support.h"
#include "tests/paths.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::Contains;
using testing::IsEmpty;
using testing::Not;

// The files and links of a component as they are installed, below its prefix.
class Installed {
 public:
  explicit Installed(const std::string& component) {
    const int status = std::system(
        fmt::format("cmake --install '{}' --component {} --prefix '{}' >'{}' 2>&1 </dev/null",
                    build_path(".").string(), component, root().string(), log().string())
            .c_str());
    EXPECT_EQ(status, 0) << std::ifstream(log()).rdbuf();
    if (!fs::exists(root())) return;
    for (const auto& entry : fs::recursive_directory_iterator(root())) {
      if (!entry.is_directory()) files_.insert(entry.path().lexically_relative(root()).string());
    }
  }

  fs::path root() const { return temporary_.path() / "prefix"; }
  const std::set<std::string>& files() const { return files_; }
  // Takes out those that match, and returns them.
  std::set<std::string> take(const std::string& pattern) {
    std::set<std::string> taken;
    for (const std::string& file : files_) {
      if (std::regex_match(file, std::regex(pattern))) taken.insert(file);
    }
    for (const std::string& file : taken) files_.erase(file);
    return taken;
  }

 private:
  fs::path log() const { return temporary_.path() / "log"; }

  const TemporaryDirectory temporary_{"installed"};
  std::set<std::string> files_;
};

TEST(Packages, TheProgramComesWithItsLibrariesPagesCompletionAndDocumentation) {
  Installed program("program");
  EXPECT_THAT(program.files(),
              AllOf(Contains("share/doc/phalanx/README.md"), Contains("share/doc/phalanx/LICENSE"),
                    Contains("share/doc/phalanx/docs/flags.md"),
                    Contains("share/doc/phalanx/examples/own-model/main.cc")));
  EXPECT_EQ(
      fs::status(program.root() / "share/doc/phalanx/examples/cluster/slurm.sh").permissions(),
      fs::perms(0755));
  program.take("share/doc/phalanx/(docs|examples)/.*");
  const auto pages = program.take("share/man/man1/phalanx(-[a-z0-9-]+)?\\.1\\.gz");
  EXPECT_GT(pages.size(), 40U);
  EXPECT_THAT(pages, Contains("share/man/man1/phalanx-dataset-info.1.gz"));
  EXPECT_EQ(program.take("lib(/[a-z0-9_-]+)?/libphalanx\\.so\\.0(\\.[0-9.]+)?").size(), 2U);
  EXPECT_EQ(
      program.files(),
      (std::set<std::string>{
          "bin/phalanx", "lib/phalanx/libphalanx_ucx.so",
          "share/bash-completion/completions/phalanx", "share/doc/phalanx/LICENSE",
          "share/doc/phalanx/README.md", "share/doc/phalanx/SECURITY.md",
          "share/doc/phalanx/changelog.gz", "share/doc/phalanx/copyright",
          "share/fish/vendor_completions.d/phalanx.fish", "share/zsh/site-functions/_phalanx"}));
  // It finds what lies beside it, wherever that is.
  EXPECT_EQ(
      std::system(
          fmt::format("'{}/bin/phalanx' version >/dev/null", program.root().string()).c_str()),
      0);
}

TEST(Packages, TheCInterfaceIsAHeaderALinkAndAFileOfPkgConfig) {
  Installed interface("c_interface");
  EXPECT_EQ(interface.take("lib(/[a-z0-9_-]+)?/libphalanx\\.so").size(), 1U);
  EXPECT_EQ(interface.take("lib(/[a-z0-9_-]+)?/pkgconfig/phalanx\\.pc").size(), 1U);
  EXPECT_EQ(interface.files(), (std::set<std::string>{"include/phalanx/library/phalanx.h",
                                                      "share/doc/phalanx-dev/copyright"}));
}

// The part for NVIDIA GPUs is where nvcc has made it, and nothing else is with it.
TEST(Packages, TheKernelsForCudaAreAComponentOfTheirOwn) {
  const Installed cuda("cuda");
  std::set<std::string> expected;
  if (fs::exists(build_path("libphalanx_cuda.so"))) {
    expected.insert("lib/phalanx/libphalanx_cuda.so");
  }
  EXPECT_EQ(cuda.files(), expected);
}

TEST(Packages, FamiliesAreBuiltWithTheListedHeaders) {
  Installed families("families");
  EXPECT_GT(families.take("lib(/[a-z0-9_-]+)?/phalanx/libphalanx_[a-z_]+\\.a").size(), 30U);
  for (const std::string& file : families.take("lib(/[a-z0-9_-]+)?/cmake/phalanx/.*")) {
    // Nothing of the machine that built it, but where the libraries of the system are.
    std::ifstream text(families.root() / file);
    for (std::string line; std::getline(text, line);) {
      EXPECT_EQ(line.find(source_path("").string()), line.npos) << file << ": " << line;
      EXPECT_EQ(line.find("nlohmann"), line.npos) << file << ": " << line;
    }
  }
  std::set<std::string> listed;
  std::ifstream list(source_path("cmake/installed_headers.txt"));
  for (std::string line; std::getline(list, line);) {
    if (!line.starts_with('#')) listed.insert("include/" + line);
  }
  EXPECT_EQ(families.files(), listed);
}

}  // namespace
}  // namespace phalanx
