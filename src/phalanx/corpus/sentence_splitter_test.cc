#include "phalanx/corpus/sentence_splitter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

namespace phalanx {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Language = SentenceLanguage;

// The sentences joined by '|'.
std::string cut(std::string_view text, Language language = Language::kAuto, bool keep = false) {
  std::string joined;
  for (const auto sentence : split_sentences(text, {language, keep})) {
    joined.append(joined.empty() ? "" : "|").append(sentence);
  }
  return joined;
}

// Each case is its own answer: '|' stands for the one blank between two sentences.
void expect_cuts(const std::vector<std::string>& cases, Language language) {
  for (const std::string& answer : cases) {
    std::string text = answer;
    std::replace(text.begin(), text.end(), '|', ' ');
    EXPECT_EQ(cut(text, language), answer);
  }
}

TEST(SentenceSplitter, English) {
  expect_cuts(
      {
          "",
          "One.",
          "No stop at the end",
          "One sentence.|Another one.|And a third",
          "Is it so?|It is!|Well then.",
          "Really?!|Yes.",
          // Titles, initials, abbreviations.
          "Mr. Smith met Dr. Jones and Mrs. Brown.|They talked.",
          "Gen. Lee and Capt. Kirk at St. Paul.|End.",
          "J. R. R. Tolkien wrote it.|C. S. Lewis did not.",
          "John F. Kennedy spoke.",
          "So did I.|Then he left.",
          "We lack vitamin C.|The cure is fruit.",
          "Henry I. Miller came.",
          "Apples, pears, etc. are fruit.|Eat them.",
          "He sold apples, pears, etc.|Then he left.",
          "Acme Inc. Chairman Bob spoke.|All heard.",
          "He works for Acme Inc.|He likes it.",
          "Smith et al. showed it.|Others agreed.",
          "It was Jan. 5, 2020.|Cold.",
          "Foo vs. Bar was the case.",
          // Acronyms and full stops inside words.
          "The U.S. Army came.|It left.",
          "He lives in the U.S.|She does not.",
          "At 5 p.m. Monday it rained.|It stopped.",
          "Fruit, e.g. apples, i.e. Malus.|Good.",
          "She has a Ph.D. from MIT.",
          "See example.com for more.|Thanks.",
          "Version 2.0 is out.|Get it.",
          // Numbers.
          "Pi is 3.14 or so.|Fine.",
          "It cost $3.50.|Cheap.",
          "In 1999.|Later 2000.",
          "See Fig. 3 and No. 7 on p. 12, Vol. 2.|Done.",
          "He said no.|Then he left.",
          "1. Introduction.",
          "It was 1984.|Nobody knew.",
          // Quotes and brackets.
          "\"Go.\"|He left.",
          "\"Stop!\" he said.|\"Why?\" she asked.",
          "He said \"Go.\"|\"Why?\"|Nobody knew.",
          "It rained (a lot.)|We left.",
          "It rained (really!) and stopped.",
          "(See p. 4.)|Then go.",
          "\xe2\x80\x9cGo.\xe2\x80\x9d|\xe2\x80\x9cNo.\xe2\x80\x9d",
          "One.|(Two.)|[Three.]",
          // Ellipses.
          "Well... maybe so.|Yes.",
          "He waited...|Then he left.",
          "He waited\xe2\x80\xa6|Then he left.",
          "So \xe2\x80\xa6 what.",
          "It took ... 5 days.",
          // What follows in lower case goes on.
          "It is approx. twenty.",
          "Yahoo! is a company.|It was big.",
          // Other letters.
          "Il est parti.|\xc3\x89lise est rest\xc3\xa9"
          "e.",
          "\xd0\x9e\xd0\xbd \xd1\x83\xd1\x88\xd1\x91\xd0\xbb.|\xd0\x9e\xd0\xbd\xd0\xb0 "
          "\xd0\xbd\xd0\xb5\xd1\x82.",
          "\xc2\xbfQu\xc3\xa9?|\xc2\xa1Nada!|\xc2\xbfY?",
      },
      Language::kEnglish);
}

TEST(SentenceSplitter, NumbersOfLists) {
  EXPECT_EQ(cut("1. Introduction. Text.\n2. Methods. More.\n10. End."),
            "1. Introduction.|Text.|2. Methods.|More.|10. End.");
}

TEST(SentenceSplitter, WhiteSpace) {
  EXPECT_EQ(cut("  One.  Two.\n Three. \n"), "One.|Two.|Three.");
  EXPECT_EQ(cut("A sentence over\ntwo lines. Next."), "A sentence over\ntwo lines.|Next.");
  // A blank line ends a sentence that has no stop.
  EXPECT_EQ(cut("A title\n\nThe text. \n \nof Mr.\n\nmore"), "A title|The text.|of Mr.|more");
  EXPECT_THAT(split_sentences(" \n\n \t"), IsEmpty());
  EXPECT_THAT(split_sentences(" \n", {Language::kAuto, true}), ElementsAre(" \n"));
  EXPECT_EQ(cut("\n\n Ab.  B.\n\nTitle\n\nC d. \n", Language::kAuto, true),
            "\n\n Ab.  |B.\n\n|Title\n\n|C d. \n");
}

TEST(SentenceSplitter, Chinese) {
  for (const char* answer : {
           "今天天气很好。|我们去公园吧！|你说呢？",
           "他说：“走吧！”|然后离开了。",
           "“走吧！”，他说。",
           "真的吗？！|真的。",
           "《你是谁？》是一本书。|很好看。",
           "他想了想……然后说：好。",
           "价格是3.14元。|不贵。",
           "真的吗?|我不信!|哈哈",
           "（他来了。）|我走了。",
           "我用iPhone。|He said no.|好。",
       }) {
    std::string text;
    for (const char c : std::string(answer)) {
      if (c != '|') text.push_back(c);
    }
    // Between English words the blank is needed.
    if (const auto he = text.find("He said no."); he != std::string::npos) {
      EXPECT_EQ(cut("我用iPhone。He said no. 好。", Language::kChinese), answer);
      continue;
    }
    EXPECT_EQ(cut(text, Language::kChinese), answer);
    EXPECT_EQ(cut(text), answer);
  }
}

TEST(SentenceSplitter, Japanese) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"今日は晴れです。公園に行きましょう！いいですか？",
       "今日は晴れです。|公園に行きましょう！|いいですか？"},
      {"「行こう！早く！」と言った。彼は走った。", "「行こう！早く！」と言った。|彼は走った。"},
      {"「行こう。」彼は走った。", "「行こう。」|彼は走った。"},
      {"これは（注。）です。次。", "これは（注。）です。|次。"},
      {"彼は『はい。うん。』、と答えた。終わり。", "彼は『はい。うん。』、と答えた。|終わり。"},
      {"「閉じない。\n次の行です。終わり。", "「閉じない。\n次の行です。|終わり。"},
      {"ホント？　うん。", "ホント？|うん。"},
  };
  for (const auto& [text, answer] : cases) {
    EXPECT_EQ(cut(text, Language::kJapanese), answer);
    EXPECT_EQ(cut(text), answer);
  }
}

TEST(SentenceSplitter, TheLanguageDecides) {
  EXPECT_EQ(cut("好。好。", Language::kEnglish), "好。好。");
  EXPECT_EQ(cut("「好。好。」好。", Language::kChinese), "「好。|好。」|好。");
  EXPECT_EQ(cut("「好。好。」好。", Language::kJapanese), "「好。好。」|好。");
}

// Any bytes: what is kept joins to the text, and without white space the same is left either way.
TEST(SentenceSplitter, NothingIsLost) {
  std::mt19937 random(15);
  const std::vector<std::string> pieces = {"a",  "B",  "Mr",   ".", ".", "!",    "?",  " ",  " ",
                                           "\n", "\"", ")",    "(", "1", "。",   "！", "「", "」",
                                           "の", "漢", "\xe3", "…", "é", "\xff", "　", "I",  "\r"};
  const auto squeezed = [](std::string_view text) {
    std::string kept;
    for (const char c : text) {
      if (std::string_view(" \n\r").find(c) == std::string_view::npos) kept.push_back(c);
    }
    return kept;
  };
  for (int i = 0; i < 4000; ++i) {
    std::string text;
    for (auto n = random() % 30; n > 0; --n) text += pieces[random() % pieces.size()];
    const auto language = static_cast<Language>(random() % 4);
    std::string joined, trimmed;
    for (const auto s : split_sentences(text, {language, true})) {
      EXPECT_FALSE(s.empty());
      joined += s;
    }
    for (const auto s : split_sentences(text, {language, false})) {
      EXPECT_FALSE(s.empty());
      trimmed += s;
    }
    EXPECT_EQ(joined, text);
    std::string bare = squeezed(text);
    for (auto at = bare.find("　"); at != std::string::npos; at = bare.find("　"))
      bare.erase(at, 3);
    std::string left = squeezed(trimmed);
    for (auto at = left.find("　"); at != std::string::npos; at = left.find("　"))
      left.erase(at, 3);
    EXPECT_EQ(left, bare);
  }
}

}  // namespace
}  // namespace phalanx
