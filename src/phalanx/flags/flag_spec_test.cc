#include "phalanx/flags/flag_spec.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace phalanx {
namespace {

TEST(FlagSpec, NamesHaveOneSpelling) {
  EXPECT_EQ(canonical_name("--num_layers"), "--num-layers");
  EXPECT_EQ(canonical_name("num_layers"), "--num-layers");
  EXPECT_EQ(canonical_name("--override-opt_param-scheduler"), "--override-opt-param-scheduler");
  EXPECT_EQ(canonical_name("--DDP-impl"), "--DDP-impl");
  EXPECT_EQ(canonical_name(""), "--");
  const FlagSpec spec{.name = "--a-b", .aliases = "--c --d_e", .old_names = "--f"};
  for (const char* name : {"--a_b", "--c", "--d-e", "--f"}) EXPECT_TRUE(answers_to(spec, name));
  EXPECT_FALSE(answers_to(spec, "--a"));
}

std::string fault(const FlagSpec& spec, FlagType type, std::string_view value) {
  return fault_of(spec, type, value).value_or("none");
}

TEST(FlagSpec, IntegersAreDecimal) {
  std::int64_t value = 0;
  EXPECT_FALSE(assign(&value, FlagType::kInteger, {"010"}));
  EXPECT_EQ(value, 10);
  EXPECT_FALSE(assign(&value, FlagType::kInteger, {"-9223372036854775808"}));
  EXPECT_EQ(value, std::numeric_limits<std::int64_t>::min());
  const FlagSpec any{.name = "--n"};
  for (const char* text : {"0x10", "1e3", "1.0", "1_000", "10 ", " 10", "ten", "+5", "--5"}) {
    EXPECT_EQ(fault(any, FlagType::kInteger, text), "is not a whole number") << text;
  }
  EXPECT_EQ(fault(any, FlagType::kInteger, "9223372036854775808"), "does not fit into 64 bits");
  EXPECT_EQ(fault(any, FlagType::kInteger, ""), "is empty: is a variable of the script not set?");
}

TEST(FlagSpec, ListsMayBeOfWholeNumbers) {
  std::vector<std::int64_t> values = {7};
  const FlagTarget target = &values;
  EXPECT_EQ(type_of(target, FlagType::kSwitch), FlagType::kList);
  EXPECT_EQ(assign(target, FlagType::kList, {"2", "4.5"}), "4.5 is not a whole number");
  EXPECT_EQ(text_of(target), "7");
  EXPECT_FALSE(assign(target, FlagType::kList, {"2", "010"}));
  EXPECT_EQ(values, (std::vector<std::int64_t>{2, 10}));
  EXPECT_EQ(text_of(target), "2 10");
  EXPECT_FALSE(assign(target, FlagType::kList, words_of_text(FlagType::kList, "3 5")));
  EXPECT_EQ(values, (std::vector<std::int64_t>{3, 5}));
}

TEST(FlagSpec, RealsAreFinite) {
  const FlagSpec any{.name = "--x"};
  for (const char* text : {"0", "-1.5e-3", ".5", "6.0e-5", "1e300"}) {
    EXPECT_EQ(fault(any, FlagType::kReal, text), "none") << text;
  }
  EXPECT_EQ(fault(any, FlagType::kReal, "nan"), "must be finite");
  EXPECT_EQ(fault(any, FlagType::kReal, "inf"), "must be finite");
  EXPECT_EQ(fault(any, FlagType::kReal, "1,5"), "is not a number");
}

TEST(FlagSpec, RangesAreToldInWords) {
  const auto in = [](const FlagRange& range, const char* value) {
    return fault({.name = "--x", .range = range}, FlagType::kReal, value);
  };
  EXPECT_EQ(in(at_least(1), "0.5"), "must be at least 1");
  EXPECT_EQ(in(at_least(1), "1"), "none");
  EXPECT_EQ(in(above(0), "0"), "must be above 0");
  EXPECT_EQ(in(from_to(1, 4096), "4097"), "must be from 1 to 4096");
  EXPECT_EQ(in(from_to(1, 4096), "4096"), "none");
  EXPECT_EQ(in(share_below_one(), "1"), "must be at least 0 and below 1");
  EXPECT_EQ(in(share_below_one(), "0"), "none");
}

TEST(FlagSpec, ChoicesAreListed) {
  const FlagSpec spec{.name = "--style", .choices = "linear cosine"};
  EXPECT_EQ(fault(spec, FlagType::kText, "cosine"), "none");
  EXPECT_EQ(fault(spec, FlagType::kText, "liner"), "choose one of linear, cosine");
}

TEST(FlagSpec, EqualValuesHaveEqualText) {
  EXPECT_EQ(canonical_value(FlagType::kNumbers, "90, 10,0"), "90,10,0");
  EXPECT_EQ(canonical_value(FlagType::kNumbers, "90/10/0.0"), "90,10,0");
  EXPECT_EQ(canonical_value(FlagType::kInteger, "007"), "7");
  EXPECT_EQ(canonical_value(FlagType::kReal, "1.50e-1"), "0.15");
  EXPECT_EQ(canonical_value(FlagType::kSwitch, "True"), "true");
  EXPECT_EQ(canonical_value(FlagType::kText, " as is "), " as is ");
  EXPECT_EQ(canonical_value(FlagType::kNumbers, "90,,0"), "90,,0");  // no value of the type
}

TEST(FlagSpec, ListsComeBackFromText) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{}, {"a", "b c", "", "d\"e\\f", "\t"}, {"\"", "\\", " "}}) {
    std::vector<std::string> list = words;
    EXPECT_EQ(words_of_text(FlagType::kList, text_of(&list)), words) << text_of(&list);
  }
}

}  // namespace
}  // namespace phalanx
