// Texts: the first byte selects the format and the codec.
#include <array>

#include "data/text/labelled_lines.h"
#include "data/text/text_file.h"
#include "samples/package_descriptions.h"
#include "samples/package_sections.h"
#include "tests/fuzz/target.h"

namespace tandem::fuzz {

namespace {

constexpr std::array kTokenizers{"words", "spaces", "characters"};

void expect_ids(std::span<const std::int32_t> ids, const datasets::Vocabulary& vocabulary) {
  for (const std::int32_t id : ids) expect(id >= 0 && id < vocabulary.size(), "an id is beyond the words");
  expect(!ids.empty() && ids.back() == datasets::Vocabulary::kEnd, "a text has no end");
}

// Without a bound every piece of the training text has a number, and characters give the text back.
void run_plain(Bytes input, const std::string& tokenizer) {
  const datasets::TextCorpus corpus = datasets::read_text_files(
      {.train = file_of(input), .validation_fraction = 0.0, .test_fraction = 0.0},
      {.tokenizer = options::Choice<datasets::tokenizers>(tokenizer, {}), .vocabulary = {.size = 0}});
  const std::vector<std::int32_t> ids = corpus.train.ids.unpacked();
  expect_ids(ids, corpus.vocabulary);
  if (tokenizer != "characters") return;
  expect(corpus.train.unknown == 0, "a character has no number");
  std::string written, read;
  for (const std::int32_t id : ids)
    written += id == datasets::Vocabulary::kEnd ? "\n" : corpus.vocabulary.word(id);
  std::string_view text(reinterpret_cast<const char*>(input.data()), input.size());
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  for (std::size_t i = 0; i < text.size(); ++i)
    if (text[i] != '\r' || (i + 1 < text.size() && text[i + 1] != '\n')) read += text[i];
  if (!text.ends_with('\n')) read += '\n';
  expect(written == read, "the characters are others");
}

void run_labelled(Bytes input, const std::string& tokenizer) {
  const std::string file = file_of(input);
  const datasets::LabelledCorpus corpus = datasets::read_labelled_lines(
      {.train = file, .test = file},
      {.tokenizer = options::Choice<datasets::tokenizers>(tokenizer, {}), .max_words = 5});
  expect(corpus.train.ids == corpus.test.ids && corpus.train.labels == corpus.test.labels,
         "one file is read in two ways");
  for (std::size_t i = 0; i < corpus.train.labels.size(); ++i) {
    const std::int64_t label = corpus.train.labels[i];
    expect(label >= 0 && label < static_cast<std::int64_t>(corpus.classes.size()), "a label is none");
    const Index begin = corpus.train.begins[i], length = corpus.train.begins[i + 1] - begin;
    expect(length <= 6, "a text is longer than it may be");
    expect_ids(std::span(corpus.train.ids)
                   .subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(length)),
               corpus.vocabulary);
  }
}

void run_descriptions(Bytes input) {
  for (const datasets::PackageDescription& one : datasets::read_package_descriptions(file_of(input))) {
    expect(!one.package.empty() && !one.source.empty() && !one.text.empty(), "a description lacks a part");
    expect(one.split == datasets::split_of(one.source), "a source is in two parts");
    expect(!datasets::class_of_section(one.section).empty(), "a section has no class");
  }
}

void run(Bytes input) {
  if (input.empty()) return;
  const int first = std::to_integer<int>(input[0]);
  const Bytes rest = input.subspan(1);
  const std::string tokenizer = kTokenizers[static_cast<std::size_t>(first / 3) % kTokenizers.size()];
  switch (first % 3) {
    case 0:
      return run_plain(rest, tokenizer);
    case 1:
      return run_labelled(rest, tokenizer);
    default:
      return run_descriptions(rest);
  }
}

}  // namespace

TANDEM_FUZZ_TARGET("texts", run)

}  // namespace tandem::fuzz
