#include "samples/cmu_dictionary.h"

#include <fmt/core.h>

#include <algorithm>

#include "core/error.h"
#include "core/printable.h"
#include "data/text/corpus.h"
#include "data/text/text_lines.h"
#include "files/input.h"
#include "files/not_there.h"
#include "samples/split.h"

namespace tandem::datasets {

namespace {

constexpr Index kMaxLine = 1 << 16;  // bytes
constexpr std::string_view kBlank = " \t";

// Cursor over one entry, read from left to right.
class EntryReader {
 public:
  EntryReader(std::string_view line, std::string where)
      : line_(line), left_(line), where_(std::move(where)) {}

  void expect(char c) {
    skip();
    if (left_.empty() || left_.front() != c) fail();
    left_.remove_prefix(1);
  }
  bool next_is(char c) {
    skip();
    return !left_.empty() && left_.front() == c;
  }
  // The text between quotes.
  std::string_view quoted() {
    expect('"');
    const std::size_t end = left_.find('"');
    if (end == std::string_view::npos || end == 0) fail();
    return take(end, 1);
  }
  // The text up to white space or a parenthesis.
  std::string_view word() {
    skip();
    const std::size_t end = std::min(left_.find_first_of(" \t()"), left_.size());
    if (end == 0) fail();
    return take(end, 0);
  }
  void finish() {
    skip();
    if (!left_.empty()) fail();
  }
  [[noreturn]] void fail() const {
    throw UserError(where_, fmt::format("\"{}\" does not have the form (\"word\" nil (((w er d) 1)))",
                                        shortened(printable(line_), 100)));
  }

 private:
  void skip() { left_.remove_prefix(std::min(left_.find_first_not_of(kBlank), left_.size())); }
  std::string_view take(std::size_t size, std::size_t behind) {
    const std::string_view taken = left_.substr(0, size);
    left_.remove_prefix(size + behind);
    return taken;
  }

  std::string_view line_, left_;
  std::string where_;
};

struct Entry {
  std::string word, phonemes;
};

Entry entry_of(std::string_view line, std::string where) {
  EntryReader reader(line, std::move(where));
  Entry entry;
  reader.expect('(');
  entry.word = reader.quoted();
  reader.word();  // part of speech
  reader.expect('(');
  while (reader.next_is('(')) {
    reader.expect('(');
    reader.expect('(');
    while (!reader.next_is(')')) {
      if (!entry.phonemes.empty()) entry.phonemes += ' ';
      entry.phonemes += reader.word();
    }
    reader.expect(')');
    reader.word();  // stress
    reader.expect(')');
  }
  reader.expect(')');
  reader.expect(')');
  reader.finish();
  if (entry.phonemes.empty()) reader.fail();
  return entry;
}

}  // namespace

std::filesystem::path installed_cmu_dictionary() { return "/usr/share/festival/dicts/cmu/cmudict-0.4.out"; }

PairTexts read_cmu_dictionary(const std::filesystem::path& path) {
  files::require_there(files::kind_of(path) != files::Kind::absent, path.string(),
                       "is missing; install the dictionary with `apt install festlex-cmu`");
  const std::string text = files::read_text(path, kMaxCorpusBytes);
  std::vector<TextPair> words;
  TextMap<std::size_t> known;
  std::size_t number = 0;
  for (const std::string_view line : lines_of(text, path.string(), kMaxLine)) {
    ++number;
    if (number == 1 && line == "MNCL") continue;
    Entry entry = entry_of(line, fmt::format("{}:{}", path.string(), number));
    const auto [found, fresh] = known.emplace(entry.word, words.size());
    if (fresh) words.push_back({std::move(entry.word), {}});
    std::vector<std::string>& pronunciations = words[found->second].targets;
    if (std::ranges::find(pronunciations, entry.phonemes) == pronunciations.end())
      pronunciations.push_back(std::move(entry.phonemes));
  }
  PairTexts texts{.train = {}, .validation = {}, .test = {}, .where = path.string(), .notes = {}};
  for (TextPair& word : words) {
    const TextSplit split = split_of(word.source);
    (split == TextSplit::train        ? texts.train
     : split == TextSplit::validation ? texts.validation
                                      : texts.test)
        .push_back(std::move(word));
  }
  require(!texts.train.empty() && !texts.validation.empty() && !texts.test.empty(), path.string(),
          "gives {} words for training, {} for validation and {} for test; each split needs at least one",
          texts.train.size(), texts.validation.size(), texts.test.size());
  return texts;
}

const options::Schema& CmuDictionaryOptions::schema() {
  static const options::Schema schema = options::Describe<CmuDictionaryOptions>().key(
      "path", &CmuDictionaryOptions::path,
      "dictionary file in Festival's format; null: the installed file of Debian's festlex-cmu");
  return schema;
}

PairCorpusRegistry::Entry cmu_dictionary_entry() {
  return PairCorpusRegistry::entry<CmuDictionaryOptions>(
      "cmu_dictionary", "words and their pronunciations, split by word", CmuDictionaryOptions::schema(),
      [](const CmuDictionaryOptions& options) {
        return PairReader{
            std::bind_front(read_cmu_dictionary,
                            options.path ? std::filesystem::path(*options.path) : installed_cmu_dictionary()),
            {.source_codec = CodecChoice("characters", {{"size", kCmuCharacters}}),
             .target_codec = CodecChoice("spaces", {{"size", kCmuPhonemes}})}};
      });
}

}  // namespace tandem::datasets
