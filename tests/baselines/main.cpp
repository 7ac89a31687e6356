// kneser_ney: perplexity of an n-gram model on a text, as a baseline for neural language models.
//
//   kneser_ney [--train FILE [--validation FILE] [--test FILE]] [--vocabulary N] [--order N]... [--loose]
//
// Without a text: Debian's package descriptions, as fetched by `./run data`, split by source. --loose also
// trains on their validation part, with the words of all parts known: a bound for comparison with figures
// measured that way, not with a model.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <exception>

#include "core/error.h"
#include "data/text/text_file.h"
#include "samples/package_descriptions.h"
#include "tests/baselines/kneser_ney.h"

namespace {

using namespace tandem;
using namespace tandem::datasets;

struct Arguments {
  std::string train, validation, test;
  Index vocabulary = 10000;
  std::vector<int> orders{3, 5};
  bool loose = false;
};

TextCorpus loose_corpus(const VocabularyOptions& options) {
  const auto records = read_package_descriptions(fetched_package_descriptions());
  std::vector<std::string_view> train, test, all;
  for (const PackageDescription& record : records) {
    (record.split == TextSplit::test ? test : train).push_back(record.text);
    all.push_back(record.text);
  }
  const TokenizerPtr words = tokenizers().make("words", {});
  WordCounts counts;
  count_words(all, *words, counts);
  const Vocabulary vocabulary(counts, options);
  return {.vocabulary = vocabulary,
          .train = encode(train, *words, vocabulary),
          .validation = {},
          .test = encode(test, *words, vocabulary),
          .notes = {}};
}

TextCorpus open(const Arguments& arguments) {
  const CorpusOptions options{.tokenizer = {}, .vocabulary = {.size = arguments.vocabulary}};
  if (arguments.loose) return loose_corpus(options.vocabulary);
  if (arguments.train.empty()) return package_corpus(fetched_package_descriptions(), options);
  TextFileOptions files{.train = arguments.train};
  if (!arguments.validation.empty()) files.validation = arguments.validation;
  if (!arguments.test.empty()) files.test = arguments.test;
  return read_text_files(files, options);
}

void tell(const char* name, const PackedText& part) {
  if (part.ids.empty()) return;
  const auto size = static_cast<double>(part.ids.size());
  fmt::print("{}: {} words, {:.2f} % unknown\n", name, part.ids.size(),
             100.0 * static_cast<double>(part.unknown) / size);
}

void run(const Arguments& arguments) {
  const TextCorpus corpus = open(arguments);
  fmt::print("vocabulary: {} words\n", corpus.vocabulary.size());
  for (const std::string& note : corpus.notes) fmt::print("{}\n", note);
  tell("train", corpus.train);
  tell("validation", corpus.validation);
  tell("test", corpus.test);
  const std::vector<std::int32_t> train = corpus.train.ids.unpacked();
  for (const int order : arguments.orders) {
    const baselines::KneserNey model(train, corpus.vocabulary.size(), order);
    fmt::print("{}-gram: perplexity", order);
    if (!corpus.validation.ids.empty())
      fmt::print(" {:.2f} on validation", model.perplexity(corpus.validation.ids.unpacked()));
    if (!corpus.test.ids.empty()) fmt::print(" {:.2f} on test", model.perplexity(corpus.test.ids.unpacked()));
    fmt::print("\n");
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Perplexity of interpolated Kneser-Ney");
  Arguments arguments;
  app.add_option("--train", arguments.train, "text to count; by default the package descriptions");
  app.add_option("--validation", arguments.validation, "by default the last lines but those for test");
  app.add_option("--test", arguments.test, "by default the last lines");
  app.add_option("--vocabulary", arguments.vocabulary, "words, 0: all");
  app.add_option("--order", arguments.orders, "words of an n-gram, the one that is predicted included");
  app.add_flag("--loose", arguments.loose, "learn validation, too, and know the words of the test");
  CLI11_PARSE(app, argc, argv);
  try {
    run(arguments);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
  return 0;
}
