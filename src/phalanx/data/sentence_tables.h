#pragma once
// The words that the rules of sentence_splitter.h know, in lower case without their last full stop.

#include <array>
#include <string_view>

namespace phalanx {

// Before a name: no sentence ends with them.
inline constexpr auto kTitleWords = std::to_array<std::string_view>(
    {"adm", "brig", "capt", "cdr",  "cmdr", "col",    "cpl",  "dr",  "fr", "ft",  "gen",
     "gov", "hon",  "insp", "lt",   "maj",  "messrs", "mlle", "mme", "mr", "mrs", "ms",
     "mt",  "pfc",  "pres", "prof", "rep",  "rev",    "sen",  "sgt", "sr", "st",  "supt"});

// Before a number they are abbreviations; otherwise words, or abbreviations like those below.
inline constexpr auto kNumberedWords = std::to_array<std::string_view>(
    {"app", "art", "ch",   "chap", "cl", "eq",  "eqs", "ex",   "fig", "figs",
     "ln",  "no",  "nos",  "nr",   "op", "p",   "par", "para", "pp",  "pt",
     "ref", "sec", "sect", "tab",  "v",  "ver", "vol", "vols"});

// Words that are abbreviations wherever a full stop follows them: a sentence ends with one only
// where the next word is one of kOpeningWords.
inline constexpr auto kAbbreviations = std::to_array<std::string_view>(
    {"abbr", "acad", "al",   "approx", "apr", "apt",  "assn", "assoc", "asst", "aug",  "ave",
     "bldg", "blvd", "bros", "ca",     "cf",  "chap", "co",   "corp",  "ct",   "dec",  "dept",
     "dist", "div",  "ed",   "eds",    "eq",  "esp",  "esq",  "est",   "etc",  "ext",  "feb",
     "fig",  "figs", "fri",  "gmbh",   "hwy", "ibid", "inc",  "incl",  "inst", "intl", "jan",
     "jr",   "jul",  "jun",  "lat",    "ltd", "mfg",  "mgr",  "misc",  "mon",  "natl", "nov",
     "oct",  "op",   "orig", "pl",     "pp",  "pty",  "publ", "pvt",   "rd",   "ret",  "sat",
     "sep",  "sept", "seq",  "sq",     "sun", "tel",  "thu",  "thurs", "tue",  "tues", "univ",
     "viz",  "vol",  "vols", "vs",     "wed", "wk",   "yr",   "yrs"});

// Words with full stops inside that always go on.
inline constexpr auto kInnerAcronyms =
    std::to_array<std::string_view>({"c.f", "e.g", "i.e", "n.b", "v.s"});

// Words that begin a sentence more often than a name does, as they are written there.
inline constexpr auto kOpeningWords = std::to_array<std::string_view>(
    {"After", "All",     "Although", "An",      "And",   "As",      "At",    "Because", "Before",
     "But",   "By",      "Did",      "Do",      "Does",  "During",  "Each",  "Even",    "Every",
     "For",   "From",    "Had",      "Has",     "Have",  "He",      "Her",   "Here",    "His",
     "How",   "However", "I",        "If",      "In",    "Is",      "It",    "Its",     "Later",
     "Many",  "Most",    "My",       "No",      "Not",   "Now",     "Of",    "On",      "Once",
     "One",   "Only",    "Or",       "Our",     "Over",  "She",     "Since", "So",      "Some",
     "Still", "Such",    "That",     "The",     "Their", "Then",    "There", "These",   "They",
     "This",  "Those",   "Though",   "Thus",    "To",    "Today",   "Under", "Until",   "Was",
     "We",    "Were",    "What",     "When",    "Where", "Whether", "Which", "While",   "Who",
     "Why",   "Will",    "With",     "Without", "Would", "Yet",     "You",   "Your"});

}  // namespace phalanx
