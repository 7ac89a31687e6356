// Files of a label, a tab and a text, and what is wrong with them.
#include "data/text/labelled_lines.h"

#include "data/text/labelled_registry.h"
#include "tests/support/temporary_files.h"

using namespace tandem;
using namespace tandem::test;

using Catch::Contains;
using datasets::LabelledCorpus;
using datasets::LabelledCorpusOptions;
using datasets::LabelledLinesOptions;
using testing::TemporaryDirectory;
using testing::user_error_of;

namespace {

constexpr const char* kTrain =
    "\xEF\xBB\xBFpets\tthe cat and the dog\r\ntools\tThe hammer.\npets\ta cat\tsleeps";

LabelledCorpus read(const TemporaryDirectory& folder, const LabelledCorpusOptions& options = {}) {
  return datasets::read_labelled_lines(
      {.train = (folder / "train.tsv").string(), .test = (folder / "test.tsv").string()}, options);
}

std::vector<std::string> words_of(const LabelledCorpus& corpus, const datasets::LabelledSequences& texts,
                                  std::size_t i) {
  const auto first = texts.ids.begin() + texts.begins[i], last = texts.ids.begin() + texts.begins[i + 1];
  return corpus.vocabulary.decode(std::vector<std::int32_t>(first, last));
}

// What is said of a training file, and of a test file beside a good training file.
std::string wrong_training(const std::string& text, Index max_line = 1 << 20) {
  const TemporaryDirectory folder;
  const LabelledLinesOptions files{.train = folder.write("train.tsv", text),
                                   .test = folder.write("test.tsv", "pets\ta cat\n"),
                                   .max_line = max_line};
  return user_error_of([&] { datasets::read_labelled_lines(files); });
}
std::string wrong_test(const std::string& text) {
  const TemporaryDirectory folder;
  folder.write("train.tsv", kTrain);
  folder.write("test.tsv", text);
  return user_error_of([&] { read(folder); });
}

}  // namespace

TEST_CASE("labelled lines become numbers of words and of classes", "[text]") {
  const TemporaryDirectory folder;
  folder.write("train.tsv", kTrain);
  folder.write("test.tsv", "tools\tThe cat's saw\n");
  const LabelledCorpus corpus = read(folder);
  CHECK(corpus.classes == std::vector<std::string>{"pets", "tools"});
  CHECK(corpus.train.labels == std::vector<std::int64_t>{0, 1, 0});
  CHECK(corpus.test.labels == std::vector<std::int64_t>{1});
  CHECK(corpus.validation.size() == 0);
  CHECK(words_of(corpus, corpus.train, 0) ==
        std::vector<std::string>{"the", "cat", "and", "the", "dog", "<end>"});
  CHECK(words_of(corpus, corpus.train, 1) == std::vector<std::string>{"the", "hammer", ".", "<end>"});
  CHECK(words_of(corpus, corpus.train, 2) == std::vector<std::string>{"a", "cat", "sleeps", "<end>"});
  CHECK(words_of(corpus, corpus.test, 0) == std::vector<std::string>{"the", "<unk>", "<unk>", "<end>"});
  CHECK(corpus.unknown == 0);
  CHECK(corpus.words == 11);
}

TEST_CASE("a text is read up to its last word that counts", "[text]") {
  const TemporaryDirectory folder;
  folder.write("train.tsv", kTrain);
  folder.write("test.tsv", "pets\tthe cat and the dog\n");
  const LabelledCorpus corpus = read(folder, {.tokenizer = {}, .vocabulary = {.size = 4}, .max_words = 2});
  // "the" and "cat" come twice among the first two words of a text.
  CHECK(corpus.vocabulary.words() == std::vector<std::string>{"<unk>", "<end>", "cat", "the"});
  CHECK(words_of(corpus, corpus.train, 2) == std::vector<std::string>{"<unk>", "cat", "<end>"});
  CHECK(words_of(corpus, corpus.test, 0) == std::vector<std::string>{"the", "cat", "<end>"});
  CHECK(corpus.unknown == 2);
  CHECK(corpus.words == 6);
}

TEST_CASE("what is wrong with labelled lines is said with file and line", "[text]") {
  CHECK_THAT(wrong_training("pets\ta cat\nno tab here\n"), Contains("train.tsv:2") && Contains("no tab"));
  CHECK_THAT(wrong_training("pets\ta cat\n\ntools\ta saw\n"), Contains("train.tsv:2") && Contains("no tab"));
  CHECK_THAT(wrong_training("\ta cat\n"), Contains("train.tsv:1") && Contains("no label"));
  CHECK_THAT(wrong_training("tools\ta saw\npets\t \t \n"),
             Contains("train.tsv:2") && Contains("no text behind the label \"pets\""));
  CHECK_THAT(wrong_training("pets\ta \xff cat\n"), Contains("train.tsv:1") && Contains("0xff"));
  CHECK_THAT(wrong_training("pets\ta cat\ntools\ta very long saw\n", 12),
             Contains("train.tsv:2") && Contains("21 bytes") && Contains("max_line"));
  CHECK_THAT(wrong_training(""), Contains("train.tsv") && Contains("empty"));
  CHECK_THAT(wrong_training("pets\ta cat\npets\ta dog\n"), Contains("the one label \"pets\""));
  CHECK_THAT(wrong_training("pets\t,\ntools\t;\n"), Contains("no word"));
  CHECK_THAT(wrong_test("pets\ta cat\ntool\ta saw\n"),
             Contains("test.tsv:2") && Contains("no label \"tool\"") && Contains("pets, tools") &&
                 Contains("did you mean \"tools\""));
  CHECK_THAT(wrong_test("pets a cat\n"), Contains("test.tsv:1") && Contains("no tab"));
  CHECK_THAT(wrong_test(""), Contains("test.tsv") && Contains("empty"));
  const TemporaryDirectory folder;
  folder.write("train.tsv", kTrain);
  CHECK_THAT(user_error_of([&] { read(folder); }), Contains("test.tsv"));
}

TEST_CASE("a corpus of labelled texts is opened by its name", "[text]") {
  using Corpus = options::Choice<datasets::labelled_corpora>;
  const TemporaryDirectory folder;
  const std::string train = folder.write("train.tsv", kTrain),
                    test = folder.write("test.tsv", "pets\ta dog\n");
  const datasets::LabelledTextOptions options{
      .corpus = Corpus("labelled_lines", {{"train", train}, {"test", test}, {"validation", test}}),
      .common = {}};
  CHECK(datasets::open_labelled_corpus(options).validation.size() == 1);
  CHECK(datasets::known_classes(options).empty());
  CHECK(datasets::known_classes({.corpus = Corpus("package_sections", {}), .common = {}}).size() == 39);
}
