// libphalanx.so exports the functions of its header and nothing else.

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "phalanx/library/test_support.h"

namespace phalanx {
namespace {

// The table of dynamic symbols of a shared object.
class DynamicSymbols {
 public:
  explicit DynamicSymbols(const std::filesystem::path& path) : bytes_(contents_of(path)) {
    const auto header = read<Elf64_Ehdr>(0, 1).at(0);
    sections_ = read<Elf64_Shdr>(header.e_shoff, header.e_shnum);
    for (const Elf64_Shdr& section : sections_) {
      if (section.sh_type == SHT_DYNSYM) {
        symbols_ = read<Elf64_Sym>(section.sh_offset, section.sh_size / sizeof(Elf64_Sym));
        names_ = sections_.at(section.sh_link).sh_offset;
      } else if (section.sh_type == SHT_DYNAMIC) {
        entries_ = read<Elf64_Dyn>(section.sh_offset, section.sh_size / sizeof(Elf64_Dyn));
      }
    }
  }

  // Functions and data that others may use; not the names of versions.
  std::set<std::string> exported() const {
    std::set<std::string> names;
    for (const Elf64_Sym& symbol : symbols_) {
      const bool is_own = symbol.st_shndx != SHN_UNDEF && symbol.st_shndx != SHN_ABS;
      const bool is_seen = ELF64_ST_BIND(symbol.st_info) != STB_LOCAL;
      if (is_own && is_seen) names.insert(bytes_.c_str() + names_ + symbol.st_name);
    }
    return names;
  }
  std::string soname() const {
    for (const Elf64_Dyn& entry : entries_) {
      if (entry.d_tag == DT_SONAME) return bytes_.c_str() + names_ + entry.d_un.d_val;
    }
    return {};
  }

 private:
  template <typename T>
  std::vector<T> read(std::size_t offset, std::size_t count) const {
    std::vector<T> values(count);
    if (offset + count * sizeof(T) > bytes_.size()) return {};
    std::memcpy(values.data(), bytes_.data() + offset, count * sizeof(T));
    return values;
  }

  std::string bytes_;
  std::vector<Elf64_Shdr> sections_;
  std::vector<Elf64_Sym> symbols_;
  std::vector<Elf64_Dyn> entries_;
  std::size_t names_ = 0;
};

std::set<std::string> functions_of_header() {
  const std::string header = contents_of(source_path("src/phalanx/library/phalanx.h"));
  std::set<std::string> names;
  // A declaration begins a line; the types of functions have their names between brackets.
  static const std::regex declaration(R"((?:^|\n)[a-z][a-z_ ]*[ *]+(phalanx_\w+)\()");
  for (auto found = std::sregex_iterator(header.begin(), header.end(), declaration);
       found != std::sregex_iterator(); ++found) {
    names.insert((*found)[1]);
  }
  return names;
}

TEST(Exports, AreTheFunctionsOfTheHeader) {
  const auto functions = functions_of_header();
  EXPECT_GE(functions.size(), 28U);
  auto exported = DynamicSymbols(build_path("libphalanx.so")).exported();
  // Sanitizers mark the variables that they watch.
  std::erase_if(exported, [](const std::string& name) { return name.starts_with("__"); });
  EXPECT_EQ(exported, functions);
}

TEST(Exports, HaveAVersion) {
  EXPECT_EQ(DynamicSymbols(build_path("libphalanx.so")).soname(), "libphalanx.so.0");
  EXPECT_EQ(phalanx_interface_version(), PHALANX_INTERFACE_VERSION);
  EXPECT_STREQ(phalanx_version(), PHALANX_VERSION);
}

// It was compiled as C99, with all warnings as errors.
TEST(Exports, AreCalledByCPrograms) {
  const TemporaryDirectory scratch("c_interface");
  const std::string log = scratch / "log";
  const int status = std::system(
      fmt::format("'{}' >'{}' 2>&1", build_path("tests/c_interface_example").string(), log)
          .c_str());
  const std::string printed = contents_of(log);
  EXPECT_EQ(WEXITSTATUS(status), 0) << printed;
  EXPECT_THAT(printed, testing::HasSubstr("Phalanx " PHALANX_VERSION "\nplan {"));
  EXPECT_THAT(printed, testing::HasSubstr("\niteration {\"iteration\": 3, "));
  EXPECT_THAT(printed, testing::HasSubstr("\nrun {\"end\":\"finished\",\"iteration\":3,"));
}

}  // namespace
}  // namespace phalanx
