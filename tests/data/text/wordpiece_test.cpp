// WordPiece against the library tokenizers (tests/golden/subwords.py).
#include "data/text/wordpiece.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "data/text/unicode.h"
#include "tests/data/files.h"
#include "tests/support/errors.h"
#include "tests/support/paths.h"

using namespace tandem;
using namespace tandem::test;

using datasets::bert_words;
using datasets::recall_codec;
using datasets::TextCodec;
using datasets::TextCodecPtr;
using datasets::testing::TempFolder;
using Json = nlohmann::ordered_json;
using Ids = std::vector<std::int32_t>;
using Words = std::vector<std::string>;

namespace {

const Json& golden() {
  static const Json file = Json::parse(std::ifstream(source_path("tests/golden/subwords.json")));
  return file;
}

std::string lines_of(const Words& pieces) {
  std::string text;
  for (const std::string& piece : pieces) text += piece + "\n";
  return text;
}

TextCodecPtr read(const TempFolder& folder, const std::string& text, bool lower_case = true) {
  datasets::testing::write_file(folder / "vocab.txt", {text.begin(), text.end()});
  return datasets::read_wordpiece({.vocab = (folder / "vocab.txt").string(), .lower_case = lower_case});
}

TextCodecPtr learn(const options::Given& options, std::string_view text) {
  return datasets::codecs().make("wordpiece", options, {std::span(&text, 1), "train.txt"});
}

Words pieces_of(const TextCodec& codec, const Ids& ids) {
  Words pieces;
  for (const std::int32_t id : ids) pieces.push_back(codec.piece(id));
  return pieces;
}

}  // namespace

TEST_CASE("words of BERT's basic tokenization", "[wordpiece]") {
  CHECK(bert_words("UNwantéd,running", true) == Words{"unwanted", ",", "running"});
  CHECK(bert_words("UNwantéd,running", false) == Words{"UNwantéd", ",", "running"});
  CHECK(bert_words("naïve", true) == Words{"naive"});
  CHECK(bert_words("don't $50", true) == Words{"don", "'", "t", "$", "50"});
  CHECK(bert_words("a\u00adb\u200bc\u0085d\x0b"
                   "e",
                   true) == Words{"abcde"});
  CHECK(bert_words("日本テキ", true) == Words{"日", "本", "テキ"});
  CHECK(bert_words("İ I", true) == Words{"i", "i"});
  CHECK(bert_words("ﬁ ＡＢ，", true) == Words{"ﬁ", "ａｂ", "，"});
  CHECK(bert_words("ΑΣ", true) == Words{"ασ"});
  CHECK(bert_words("a\u2028b\u3000c\t", true) == Words{"a", "b", "c"});
  CHECK(bert_words("\u037e", true) == Words{";"});  // its decomposition
  // Marks of several classes, which the decomposition sorts.
  CHECK(datasets::decomposed(U"\u1e69\u0323") == U"s\u0323\u0323\u0307");
  for (const Json& kind : golden().at("bert"))
    for (const Json& one : kind.at("cases")) {
      CAPTURE(one.dump());
      CHECK(bert_words(one.at("text").get<std::string>(), kind.at("lower_case").get<bool>()) ==
            one.at("words").get<Words>());
    }
}

TEST_CASE("a vocabulary's longest pieces are those of the library tokenizers", "[wordpiece]") {
  const TempFolder folder;
  for (const Json& kind : golden().at("bert")) {
    const TextCodecPtr codec =
        read(folder, lines_of(golden().at("pieces").get<Words>()), kind.at("lower_case").get<bool>());
    const TextCodecPtr recalled = recall_codec(Json::parse(codec->description().dump()), "the weights");
    CHECK(recalled->description() == codec->description());
    CHECK(codec->drops_case() == kind.at("lower_case").get<bool>());
    CHECK(codec->description().at("unicode") == datasets::unicode_version());
    for (const Json& one : kind.at("cases")) {
      CAPTURE(one.dump());
      const auto text = one.at("text").get<std::string>();
      const datasets::EncodedText encoded = codec->encode(text);
      CHECK(encoded.ids == one.at("ids").get<Ids>());
      CHECK(encoded.unknown == std::ranges::count(encoded.ids, codec->unknown()));
      CHECK(recalled->encode(text).ids == encoded.ids);
    }
  }
  const TextCodecPtr codec = read(folder, lines_of(golden().at("pieces").get<Words>()));
  const Ids ids = codec->encode("UNwantéd,running").ids;
  CHECK(pieces_of(*codec, ids) == Words{"un", "##want", "##ed", ",", "runn", "##ing"});
  CHECK(codec->decode(ids) == "unwanted , running");
  CHECK(codec->decode(Ids{2, ids[0], 3}) == "un");
  CHECK(codec->begin() == 2);
  CHECK(codec->end() == 3);
  CHECK(codec->unknown() == 1);
  CHECK(datasets::wordpiece_marks(*codec).padding == 0);
  CHECK(datasets::wordpiece_marks(*codec).mask == 4);
  const Ids marks = codec->encode("[CLS] [SEP] [MASK]").ids;
  CHECK(std::ranges::none_of(marks, [](std::int32_t id) { return id == 2 || id == 3 || id == 4; }));
  CHECK(codec->encode(std::string(201, 'n')).ids == Ids{1});
  CHECK(codec->encode(std::string(200, 'n')).ids.size() == 200);
  CHECK_FAILS(UserError, codec->decode(Ids{static_cast<std::int32_t>(codec->size())}), "there is no piece");
}

TEST_CASE("training joins the most frequent characters of words", "[wordpiece]") {
  std::string text;
  for (const auto& [word, count] :
       std::vector<std::pair<std::string, int>>{{"low", 5}, {"lower", 2}, {"newest", 6}, {"widest", 3}})
    for (int i = 0; i < count; ++i) text += word + " ";
  const TextCodecPtr codec = learn({{"size", 24}}, text);
  // Special ones, the alphabet by bytes, then merges; ties go to the lower pair of ids.
  Words pieces;
  for (std::int32_t id = 0; id < codec->size(); ++id) pieces.push_back(codec->piece(id));
  CHECK(pieces == Words{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "##d", "##e",    "##i",
                        "##o",   "##r",   "##s",   "##t",   "##w",    "l",   "n",      "w",
                        "##es",  "##est", "##ow",  "low",   "##ew",   "new", "newest", "##dest"});
  CHECK(pieces_of(*codec, codec->encode("Lowest new").ids) == Words{"low", "##est", "new"});
  CHECK(recall_codec(Json::parse(codec->description().dump()), "the weights")->description() ==
        codec->description());
  CHECK(codec->begin() == datasets::kWordBegin);
  CHECK(codec->end() == datasets::kWordEnd);
  CHECK_FAILS(UserError, learn({{"size", 10}}, text), "set a size of at least 16");
  CHECK_FAILS(UserError, learn({{"size", 100}}, " \n"), "have no word");
}

TEST_CASE("bad vocabularies of WordPiece are named with the place and the way out", "[wordpiece]") {
  const TempFolder folder;
  CHECK_FAILS(UserError, read(folder, ""), "vocab.txt] is empty");
  CHECK_FAILS(UserError, read(folder, "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n"), "has no piece \"[MASK]\"");
  CHECK_FAILS(UserError, read(folder, "[PAD]\na\na\n"), "pieces 1 and 2 are both \"a\"");
  CHECK_FAILS(UserError, read(folder, "[PAD]\n\na\n"), "piece 1 is empty");
  CHECK_FAILS(UserError, read(folder, "[PAD]\na\xff\n"), "vocab.txt:2] byte 2 is 0xff");
  CHECK_FAILS(UserError, datasets::read_wordpiece({.vocab = (folder / "none").string()}), "none");
  CHECK_FAILS(UserError, learn({}, "a"), "set exactly one of these");
  CHECK_FAILS(UserError, learn({{"size", 30}, {"vocab", "x"}}, "a"), "set exactly one of these");
  const std::string_view text = "a b";
  CHECK_FAILS(InternalError,
              datasets::wordpiece_marks(*datasets::codecs().make("words", {}, {std::span(&text, 1), "t"})),
              "words has no mask");
}

// tests/golden/subwords.py writes the words.
TEST_CASE("basic tokenization of many words", "[.][gpt2]") {
  const char* const folder = std::getenv("TANDEM_GPT2");
  REQUIRE(folder != nullptr);
  const Json words = Json::parse(std::ifstream(std::string(folder) + "/words.json"));
  for (const Json& one : words.at("bert")) {
    CAPTURE(one.dump());
    CHECK(bert_words(one.at("text").get<std::string>(), one.at("lower_case").get<bool>()) ==
          one.at("words").get<Words>());
  }
}
