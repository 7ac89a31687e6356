// Plain text as a corpus.
#include "data/text/text_file.h"

#include "data/text/registry.h"
#include "tests/data/files.h"
#include "tests/support/errors.h"

using namespace tandem;
using namespace tandem::test;

using datasets::TextCorpus;
using datasets::testing::TempFolder;
using Ids = std::vector<std::int32_t>;

namespace {

std::string write(const TempFolder& folder, const std::string& name, const std::string& text) {
  datasets::testing::write_file(folder / name, {text.begin(), text.end()});
  return (folder / name).string();
}

std::string text_of(const TextCorpus& corpus, const datasets::PackedText& part) {
  std::string text;
  for (const std::string& word : corpus.vocabulary.decode(part.ids.unpacked()))
    text += (text.empty() ? "" : " ") + word;
  return text;
}

}  // namespace

TEST_CASE("files for each part: lines end with a word of their own", "[text]") {
  const TempFolder folder;
  const std::string train = write(folder, "train",
                                  "\xEF\xBB\xBF"
                                  "a b a\n\nA c\r\nb");
  const TextCorpus corpus = datasets::read_text_files({.train = train,
                                                       .validation = write(folder, "valid", "b new a\n"),
                                                       .test = write(folder, "test", "new new\nc\n")});
  CHECK(corpus.vocabulary.words() == std::vector<std::string>{"<unk>", "<end>", "a", "b", "c"});
  CHECK(corpus.train.ids.unpacked() == Ids{2, 3, 2, 1, 1, 2, 4, 1, 3, 1});
  CHECK(corpus.train.unknown == 0);
  CHECK(text_of(corpus, corpus.validation) == "b <unk> a <end>");
  CHECK(corpus.validation.unknown == 1);
  CHECK(text_of(corpus, corpus.test) == "<unk> <unk> <end> c <end>");
  CHECK(corpus.test.unknown == 2);
  REQUIRE(corpus.notes.size() == 1);
  CHECK(
      corpus.notes[0] ==
      "the vocabulary has 5 words, fewer than the 10000 asked for: the training text has no more that come 1 "
      "or more times");
}

TEST_CASE("several files and folders are one text, in the order in which they are named", "[text]") {
  const TempFolder folder;
  write(folder, "more/2.txt", "d\n");
  write(folder, "more/1.txt", "c\nb");
  const std::string first = write(folder, "z", "a\n"), last = write(folder, "y", "a e\n"),
                    more = (folder / "more").string(), nowhere = (folder / "nowhere").string();
  using Paths = std::vector<std::string>;
  const datasets::TextFileOptions files{
      .train = Paths{first, more, last}, .validation = Paths{last, first}, .test = more};
  const TextCorpus corpus = datasets::read_text_files(files);
  CHECK(text_of(corpus, corpus.train) == "a <end> c <end> b <end> d <end> a e <end>");
  CHECK(text_of(corpus, corpus.validation) == "a e <end> a <end>");
  CHECK(text_of(corpus, corpus.test) == "c <end> b <end> d <end>");
  // Lines that are set aside are those of the last files.
  const TextCorpus parted = datasets::read_text_files(
      {.train = Paths{first, more, last}, .validation_fraction = 0.0, .test_fraction = 0.2});
  CHECK(text_of(parted, parted.test) == "a <unk> <end>");
  CHECK_FAILS(UserError, datasets::read_text_files({.train = Paths{first, nowhere}}),
              "nowhere: there is no such text file");
  write(folder, "bad", "ok\nb\xe9\n");
  CHECK_FAILS(UserError, datasets::read_text_files({.train = Paths{first, (folder / "bad").string()}}),
              "bad:2] byte 2");
  CHECK_FAILS(UserError, datasets::read_text_files({.train = Paths{first, last}, .test_fraction = 0.4}),
              "z and 1 more] test_fraction of 0.4 of its 2 lines");
  CHECK_FAILS(UserError, datasets::open_corpus("text", {}, {{"train", Paths{}}}),
              "train: expected string, or list of string, got []");
  CHECK_FAILS(UserError, datasets::open_corpus("text", {}, {{"train", first}, {"test", std::vector{1}}}),
              "test.0: expected string, got 1");
  const options::Given given{
      {"train", Paths{first, more, last}}, {"test", Paths{more}}, {"validation_fraction", 0}};
  CHECK(datasets::open_corpus("text", {}, given).test.ids.size() == 6);
}

TEST_CASE("parts without a file are the last lines of the training file, in one piece", "[text]") {
  const TempFolder folder;
  std::string lines;
  for (int i = 0; i < 20; ++i) lines += "w" + std::to_string(i) + "\n";
  const std::string path = write(folder, "train", lines);
  const datasets::CorpusOptions all{.tokenizer = {}, .vocabulary = {.size = 0}};
  TextCorpus corpus =
      datasets::read_text_files({.train = path, .validation_fraction = 0.1, .test_fraction = 0.15}, all);
  CHECK(corpus.train.ids.size() == 30);  // 15 lines of a word and an end
  CHECK(corpus.vocabulary.has("w14"));
  CHECK_FALSE(corpus.vocabulary.has("w15"));  // nothing is known of what is not for training
  CHECK(corpus.validation.ids.unpacked() == Ids{0, 1, 0, 1});
  CHECK(corpus.test.ids.size() == 6);
  CHECK(corpus.notes.empty());

  const std::string valid = write(folder, "valid", "w19 w0\n");
  corpus = datasets::read_text_files({.train = path, .validation = valid, .test_fraction = 0.0}, all);
  CHECK(corpus.train.ids.size() == 40);
  CHECK(text_of(corpus, corpus.validation) == "w19 w0 <end>");
  CHECK(corpus.test.ids.empty());

  CHECK_FAILS(
      UserError, datasets::read_text_files({.train = path, .test_fraction = 0.04}, all),
      "train] test_fraction of 0.04 of its 20 lines leaves it without any; set a separate file, or 0");
  CHECK_FAILS(
      UserError,
      datasets::read_text_files({.train = path, .validation_fraction = 0.5, .test_fraction = 0.5}, all),
      "train] validation_fraction of 0.5 of its 20 lines leaves the training part without any");
  CHECK_FAILS(UserError, datasets::read_text_files({.train = path, .test_fraction = 1.0}, all),
              "[text] test_fraction must lie in [0, 1), is 1");
}

TEST_CASE("characters of a text, and pieces between spaces", "[text]") {
  const TempFolder folder;
  const std::string path = write(folder, "train", "ab\xc3\xa9\nb a\n");
  datasets::TextFileOptions whole{.train = path, .validation_fraction = 0.0, .test_fraction = 0.0};
  datasets::CorpusOptions options;
  options.tokenizer = options::Choice<datasets::tokenizers>("characters");
  TextCorpus corpus = datasets::read_text_files(whole, options);
  CHECK(corpus.vocabulary.words() == std::vector<std::string>{"<unk>", "<end>", "a", "b", " ", "\xc3\xa9"});
  CHECK(corpus.train.ids.unpacked() == Ids{2, 3, 5, 1, 3, 4, 2, 1});
  whole.train = write(folder, "pieces", "The <unk> , <unk>\n");
  options.tokenizer = options::Choice<datasets::tokenizers>("spaces");
  corpus = datasets::read_text_files(whole, options);
  CHECK(corpus.vocabulary.words() == std::vector<std::string>{"<unk>", "<end>", ",", "The"});
  CHECK(corpus.train.unknown == 2);
}

TEST_CASE("texts that cannot be read are told with file and line", "[text]") {
  const TempFolder folder;
  const auto read = [&](const std::string& text, Index max_line = 1 << 20) {
    datasets::read_text_files({.train = write(folder, "train", text),
                               .validation_fraction = 0.0,
                               .test_fraction = 0.0,
                               .max_line = max_line});
  };
  CHECK_FAILS(UserError, read(""), "train] is empty");
  CHECK_FAILS(UserError, read("\n\n ,\n"), "train] the training text has no word (3 texts, tokenizer words)");
  CHECK_FAILS(UserError,
              read("ok\nb\xe9"
                   "b\n"),
              "train:2] byte 2 is 0xe9, expected UTF-8");
  CHECK_NOTHROW(read("ok\nlonger\n", 6));
  CHECK_FAILS(UserError, read("ok\nlonger\n", 5),
              "train:2] a line of 6 bytes, at most 5 are allowed (max_line); break it into sentences");
  CHECK_FAILS(UserError, datasets::read_text_files({.train = (folder / "nowhere").string()}), "nowhere");
}

TEST_CASE("a corpus is opened by name", "[text]") {
  const TempFolder folder;
  const std::string path = write(folder, "train", "a b a\n");
  const options::Given whole = {{"train", path}, {"validation_fraction", 0.0}, {"test_fraction", 0.0}};
  CHECK(datasets::open_corpus("text", {}, whole).train.ids.unpacked() == Ids{2, 3, 2, 1});
  CHECK_FAILS(UserError, datasets::open_corpus("text"), "train");
  CHECK_FAILS(UserError, datasets::open_corpus("txt", {}, whole), "text");
}
