// Pair corpus of English words and their American pronunciations: CMUDICT 0.4 in Festival's format, from
// Debian's festlex-cmu. The source is the spelling, character by character. The targets are the
// pronunciations, as phonemes separated by spaces.
//
// The file starts with a line "MNCL". Each other line is one entry, ("word" part-of-speech (((phoneme …)
// stress) …)), with a list of syllables. The 40 phonemes are Festival's radio set (CMU's 39 in lower case,
// and "ax", the schwa). The reader drops syllables and stress: entries of a word that differ only there are
// one pronunciation. Words that are spelt letter by letter keep their upper case.
#pragma once

#include <filesystem>

#include "data/text/pair_registry.h"

namespace tandem::datasets {

// Vocabulary sizes of the training split of Debian's file, special pieces included: 50 of its 51 characters,
// and 40 phonemes.
inline constexpr Index kCmuCharacters = 52, kCmuPhonemes = 42;

std::filesystem::path installed_cmu_dictionary();

struct CmuDictionaryOptions {
  std::optional<std::string> path{};  // absent: the installed file
  static const options::Schema& schema();
};

// Words keep the order of the file. split_of assigns each word, with all of its pronunciations, to a split.
// Throws UserError when the file is missing or too large, when a split has no word, and, with the line, when
// a line is not UTF-8, is not an entry, or has an empty word or no phoneme.
PairTexts read_cmu_dictionary(const std::filesystem::path& path);
PairCorpusRegistry::Entry cmu_dictionary_entry();

}  // namespace tandem::datasets
