// Files of labelled texts, and their errors.
#include "data/text/labelled_lines.h"

#include <fmt/core.h>

#include <filesystem>

#include "data/text/labelled_registry.h"
#include "data/text/labelled_rows.h"
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
    "\xEF\xBB\xBFpets\tthe cat and the dog\r\ntools\tThe hammer.\npets\ta cat, sleeps";

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

TEST_CASE("errors of labelled lines name file and line", "[text]") {
  CHECK_THAT(wrong_training("pets\ta cat\nno tab here\n"), Contains("train.tsv:2") && Contains("has no tab"));
  CHECK_THAT(wrong_training("a cat\npets\ta cat\n"), Contains("train.tsv:1") && Contains("has no tab"));
  CHECK_THAT(wrong_training("pets\ta\tcat\n"),
             Contains("train.tsv:1") && Contains("3 columns") && Contains("label_column and text_column"));
  CHECK_THAT(wrong_training("pets\ta cat\ntools\ta\tsaw\n"),
             Contains("train.tsv:2") && Contains("3 columns"));
  CHECK_THAT(wrong_training("pets\ta cat\n\ntools\ta saw\n"),
             Contains("train.tsv:2") && Contains("is empty"));
  CHECK_THAT(wrong_training("\ta cat\n"), Contains("train.tsv:1") && Contains("no label"));
  CHECK_THAT(wrong_training("tools\ta saw\npets\t  \n"),
             Contains("train.tsv:2") && Contains("no text after the label \"pets\""));
  CHECK_THAT(wrong_training("pets\ta \xff cat\n"), Contains("train.tsv:1") && Contains("0xff"));
  CHECK_THAT(wrong_training("pets\ta cat\ntools\ta very long saw\n", 12),
             Contains("train.tsv:2") && Contains("21 bytes") && Contains("max_line"));
  CHECK_THAT(wrong_training(""), Contains("train.tsv") && Contains("empty"));
  CHECK_THAT(wrong_training("pets\ta cat\npets\ta dog\n"), Contains("only the label \"pets\""));
  CHECK_THAT(wrong_training("pets\t,\ntools\t;\n"), Contains("no word"));
  CHECK_THAT(wrong_test("pets\ta cat\ntool\ta saw\n"),
             Contains("test.tsv:2") && Contains("no label \"tool\"") && Contains("pets, tools") &&
                 Contains("did you mean \"tools\""));
  CHECK_THAT(wrong_test("pets a cat\n"), Contains("test.tsv:1") && Contains("has no tab"));
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
      .set = Corpus("labelled_lines", {{"train", train}, {"test", test}, {"validation", test}}),
      .common = {}};
  CHECK(datasets::open_labelled_corpus(options).validation.size() == 1);
  CHECK(datasets::known_classes(options).empty());
}

namespace {

using Labels = std::vector<std::int64_t>;

LabelledCorpus of_file(const TemporaryDirectory& folder, const std::string& name, const std::string& text) {
  return datasets::read_labelled_lines({.train = folder.write(name, text), .test_fraction = 0.5});
}

// "label: text" of every text to train on.
std::string rows_of(const std::string& name, const std::string& text,
                    const datasets::LabelledColumns& columns = {}) {
  const TemporaryDirectory folder;
  std::string rows;
  for (const datasets::LabelledRow& row :
       datasets::read_labelled_rows(folder.write(name, text), columns).rows)
    rows += row.label + ": " + row.text + "|";
  return rows;
}

std::string wrong_rows(const std::string& name, const std::string& text,
                       const datasets::LabelledColumns& columns = {}) {
  return user_error_of([&] { rows_of(name, text, columns); });
}

}  // namespace

TEST_CASE("a header names the columns and is no class", "[text]") {
  CHECK(rows_of("a.tsv", "label\ttext\npets\ta cat\n") == "pets: a cat|");
  CHECK(rows_of("a.tsv", "id\tReview\tSentiment\n7\tgood, that\tpositive\n") == "positive: good, that|");
  CHECK(rows_of("a.csv", "\xEF\xBB\xBFtitle,text,label\r\nx,\"one, \"\"two\"\"\nthree\",y\r\n") ==
        "y: one, \"two\"\nthree|");
  CHECK(rows_of("a.csv", "pets,a cat\ntools,\"a saw\"\n") == "pets: a cat|tools: a saw|");
  CHECK(rows_of("a.csv", "art,satz\npets,a cat\n", {.label = "art", .text = "satz"}) == "pets: a cat|");
  CHECK_THAT(wrong_rows("a.csv", "art,satz\npets,a cat\n", {.label = "Art", .text = "satz"}),
             Contains("a.csv:1") && Contains("no header with the columns \"Art\" and \"satz\"") &&
                 Contains("it has art, satz"));
  CHECK_THAT(wrong_rows("a.csv", "label,text\n"), Contains("no row below its header"));
  CHECK_THAT(wrong_rows("a.csv", "label,text\n\na,\"b\n"), Contains("a.csv:3") && Contains("not closed"));
  CHECK_THAT(wrong_rows("a.csv", "label,text\na,\"b\"c\n"),
             Contains("a.csv:2") && Contains("follows a field"));
  CHECK_THAT(wrong_rows("a.csv", "label,text\na,\"b\nc\"\na\n"),
             Contains("a.csv:4") && Contains("has no comma"));
  CHECK_THAT(wrong_rows("a.csv", ""), Contains("is empty"));
  // A header of other words is a class, which is said.
  std::string lines = "etikett\tsatz\n";
  for (int i = 0; i < 10; ++i) lines += fmt::format("{}\ta text of words\n", i % 2 == 0 ? "pets" : "tools");
  const TemporaryDirectory folder;
  const LabelledCorpus corpus = of_file(folder, "a.tsv", lines);
  REQUIRE(corpus.notes.size() >= 1);
  CHECK_THAT(corpus.notes.back(), Contains("a.tsv:1: the label \"etikett\" occurs only in this line"));
}

TEST_CASE("labelled texts as objects of JSON", "[text]") {
  CHECK(rows_of("a.jsonl",
                "{\"text\": \"a cat\", \"label\": 1, \"id\": 4}\n\n{\"label\": true, \"text\": \"b\"}\n") ==
        "1: a cat|true: b|");
  CHECK(rows_of("a.ndjson", "{\"s\": \"a cat\", \"of\": \"pets\"}\n", {.label = "of", .text = "s"}) ==
        "pets: a cat|");
  CHECK_THAT(wrong_rows("a.jsonl", "{\"text\": \"a\", \"label\": 1}\n{\"text\": \"a\"}\n"),
             Contains("a.jsonl:2") && Contains("has no \"label\"; its keys are text"));
  CHECK_THAT(wrong_rows("a.jsonl", "{\"text\": [], \"label\": 1}\n"),
             Contains("a.jsonl:1") && Contains("neither"));
  CHECK_THAT(wrong_rows("a.jsonl", "[1]\n"), Contains("a.jsonl:1") && Contains("no JSON object"));
}

TEST_CASE("a folder of labelled texts has a folder for each class", "[text]") {
  const TemporaryDirectory folder;
  for (const char* name : {"good", "bad", ".cache"}) std::filesystem::create_directories(folder / name);
  folder.write("good/1.txt", "a fine\nday.\n");
  folder.write("good/._1.txt", "x");
  folder.write("bad/2.txt", "rain");
  folder.write("bad/notes.md", "x");
  folder.write("readme.txt", "x");
  const datasets::LabelledRows read = datasets::read_labelled_rows(folder.path().string(), {});
  REQUIRE(read.rows.size() == 2);
  CHECK(read.rows[0].label == "bad");
  CHECK(read.rows[1].text == "a fine\nday.\n");
  REQUIRE(read.notes.size() == 1);
  CHECK_THAT(read.notes[0], Contains("4 entries are ignored"));
  CHECK_THAT(user_error_of([&] { datasets::read_labelled_rows((folder / "good").string(), {}); }),
             Contains("good") && Contains("has no text"));
}

TEST_CASE("texts to test on come from every class where there is no such file", "[text]") {
  std::string lines;
  for (int i = 0; i < 20; ++i) lines += fmt::format("{}\tword{}\n", i < 15 ? "a" : "b", i);
  const TemporaryDirectory folder;
  const std::string path = folder.write("a.tsv", lines);
  LabelledCorpus corpus = datasets::read_labelled_lines({.train = path});
  CHECK(corpus.train.size() == 16);
  CHECK(corpus.test.labels == Labels{0, 0, 0, 1});
  CHECK(corpus.validation.size() == 0);
  corpus = datasets::read_labelled_lines({.train = path, .test_fraction = 0.4, .validation_fraction = 0.34});
  CHECK(corpus.test.labels == Labels{0, 0, 0, 0, 0, 0, 1, 1});
  CHECK(corpus.validation.labels == Labels{0, 0, 0, 1});
  CHECK(corpus.train.size() == 8);
  CHECK_THAT(user_error_of([&] { datasets::read_labelled_lines({.train = path, .test_fraction = 0.01}); }),
             Contains("test_fraction of 0.01 of each class takes none of its 20 texts"));
}
