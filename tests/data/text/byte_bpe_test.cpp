// Byte-level BPE against the libraries tokenizers and tiktoken (tests/golden/subwords.py).
#include "data/text/byte_bpe.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "data/text/bpe_training.h"
#include "data/text/byte_names.h"
#include "data/text/gpt2_split.h"
#include "data/text/streamed_text.h"
#include "data/text/text_file.h"
#include "data/text/unicode.h"
#include "files/base64.h"
#include "tests/data/files.h"
#include "tests/support/errors.h"
#include "tests/support/paths.h"

using namespace tandem;
using namespace tandem::test;

using datasets::ByteBpeOptions;
using datasets::recall_codec;
using datasets::TextCodec;
using datasets::TextCodecPtr;
using datasets::testing::TempFolder;
using Json = nlohmann::ordered_json;
using Ids = std::vector<std::int32_t>;

namespace {

const Json& golden() {
  static const Json file = Json::parse(std::ifstream(source_path("tests/golden/subwords.json")));
  return file;
}

std::string write(const TempFolder& folder, const std::string& name, const std::string& text) {
  datasets::testing::write_file(folder / name, {text.begin(), text.end()});
  return (folder / name).string();
}

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> pieces;
  while (!text.empty()) {
    pieces.emplace_back(datasets::first_piece(text));
    text.remove_prefix(pieces.back().size());
  }
  return pieces;
}

TextCodecPtr learn(const options::Given& options, std::string_view text) {
  return datasets::codecs().make("byte_bpe", options, {std::span(&text, 1), "train.txt"});
}

void check_cases(const TextCodec& codec, const Json& cases) {
  for (const Json& one : cases) {
    const auto text = one.at("text").get<std::string>();
    CAPTURE(one.dump());
    const datasets::EncodedText encoded = codec.encode(text);
    CHECK(encoded.ids == one.at("ids").get<Ids>());
    CHECK(encoded.unknown == 0);
    CHECK(codec.decode(encoded.ids) == text);
  }
}

// The golden vocabulary as the parts of files.
struct Files {
  Json vocab = golden().at("vocab");
  std::vector<std::string> merges = [] {
    std::vector<std::string> lines;
    for (const Json& merge : golden().at("merges"))
      lines.push_back(merge[0].get<std::string>() + " " + merge[1].get<std::string>());
    return lines;
  }();

  Json tokenizer(const Json& merge_list) const {
    return {
        {"version", "1.0"},
        {"truncation", nullptr},
        {"padding", nullptr},
        {"added_tokens",
         {{{"id", vocab.size()},
           {"content", "<|endoftext|>"},
           {"single_word", false},
           {"lstrip", false},
           {"rstrip", false},
           {"normalized", false},
           {"special", true}}}},
        {"normalizer", nullptr},
        {"pre_tokenizer",
         {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}}},
        {"post_processor", nullptr},
        {"decoder", {{"type", "ByteLevel"}, {"add_prefix_space", true}}},
        {"model",
         {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", nullptr},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", false},
          {"byte_fallback", false},
          {"ignore_merges", false},
          {"vocab", vocab},
          {"merges", merge_list}}}};
  }
  std::string merges_text() const {
    std::string text = "#version: 0.2\n";
    for (const std::string& line : merges) text += line + "\n";
    return text;
  }
  Json vocab_with_end() const {
    Json all = vocab;
    all["<|endoftext|>"] = vocab.size();
    return all;
  }
  std::string tiktoken() const {
    std::vector<std::string> lines(vocab.size());
    for (const auto& [name, id] : vocab.items())
      lines.at(id.get<std::size_t>()) =
          files::base64(datasets::bytes_of_name(name).value()) + " " + std::to_string(id.get<int>()) + "\n";
    std::string text;
    for (const std::string& line : lines) text += line;
    return text;
  }
};

}  // namespace

TEST_CASE("names of bytes are those of the files", "[byte_bpe]") {
  CHECK(datasets::name_of_bytes(std::string_view("\0\n \x7f\xa0\xad!~\xff", 9)) == "ĀĊĠġłŃ!~ÿ");
  for (int byte = 0; byte < 256; ++byte) {
    const std::string one(1, static_cast<char>(byte));
    CHECK(datasets::bytes_of_name(datasets::name_of_bytes(one)) == one);
  }
  CHECK_FALSE(datasets::bytes_of_name("日"));
  CHECK_FALSE(datasets::bytes_of_name("a b"));
  const auto& order = datasets::bytes_by_name();
  CHECK(order[0] == '!');
  CHECK(order[93] == '~');
  CHECK(order[94] == 161);
  CHECK(order[187] == 255);
  CHECK(order[188] == 0);
  CHECK(order[220] == ' ');
  CHECK(order[255] == 173);
}

TEST_CASE("pieces of a text end where GPT-2's do", "[byte_bpe]") {
  using Pieces = std::vector<std::string>;
  CHECK(split(" Hello  world") == Pieces{" Hello", " ", " world"});
  CHECK(split("don't I'LL we've'so") == Pieces{"don", "'t", " I", "'", "LL", " we", "'ve", "'s", "o"});
  CHECK(split("\n\n  x\t\ty  ") == Pieces{"\n\n ", " x", "\t", "\t", "y", "  "});
  CHECK(split("ab12 34, '") == Pieces{"ab", "12", " 34", ",", " '"});
  CHECK(split("a\u00a0b \u2003 c") == Pieces{"a", "\u00a0", "b", " \u2003", " c"});
  CHECK(split("e\u0301\xff x") == Pieces{"e", "\u0301\xff", " x"});
  CHECK(split("").empty());
}

TEST_CASE("vocab.json with merges.txt, tokenizer.json of both kinds and tiktoken's file are one tokenizer",
          "[byte_bpe]") {
  const TempFolder folder;
  const Files parts;
  Json pairs = Json::array();
  for (const Json& merge : golden().at("merges")) pairs.push_back(merge);
  std::vector<TextCodecPtr> all{
      datasets::read_byte_bpe({.vocab = write(folder, "vocab.json", parts.vocab_with_end().dump()),
                               .merges = write(folder, "merges.txt", parts.merges_text())}),
      datasets::read_byte_bpe({.tokenizer = write(folder, "old.json", parts.tokenizer(parts.merges).dump())}),
      datasets::read_byte_bpe({.tokenizer = write(folder, "new.json", parts.tokenizer(pairs).dump())}),
      datasets::read_byte_bpe({.tokenizer = write(folder, "own.tiktoken", parts.tiktoken())})};
  all.push_back(recall_codec(Json::parse(all[0]->description().dump()), "the weights"));
  all.push_back(recall_codec(Json::parse(all[3]->description().dump()), "the weights"));
  for (const TextCodecPtr& codec : all) {
    CHECK(codec->name() == "byte_bpe");
    CHECK(codec->size() == 317);
    CHECK(codec->end() == 316);
    CHECK(codec->piece(316) == "<|endoftext|>");
    CHECK(codec->piece(220) == "Ġ");
    CHECK(codec->keeps_line_ends());
    check_cases(*codec, golden().at("cases"));
    // Again, from the cache.
    check_cases(*codec, golden().at("cases"));
  }
  CHECK(all[1]->description() == all[2]->description());
  CHECK(all[0]->description() == all[4]->description());
  CHECK(all[0]->description().at("unicode") == datasets::unicode_version());
}

TEST_CASE("a prefix space is that of the library tokenizers", "[byte_bpe]") {
  const TempFolder folder;
  const Files parts;
  Json file = parts.tokenizer(parts.merges);
  file["pre_tokenizer"]["add_prefix_space"] = true;
  const TextCodecPtr codec =
      datasets::read_byte_bpe({.tokenizer = write(folder, "tokenizer.json", file.dump())});
  const TextCodecPtr recalled = recall_codec(Json::parse(codec->description().dump()), "the weights");
  for (const Json& one : golden().at("prefixed")) {
    CAPTURE(one.dump());
    CHECK(codec->encode(one.at("text").get<std::string>()).ids == one.at("ids").get<Ids>());
    CHECK(recalled->encode(one.at("text").get<std::string>()).ids == one.at("ids").get<Ids>());
  }
}

TEST_CASE("training merges the pairs of the library tokenizers", "[byte_bpe]") {
  const Json& vector = golden().at("vector");
  const auto merges_of = [](const TextCodec& codec) { return codec.description().at("merges"); };
  const auto lines = [](const Json& merges) {
    Json list = Json::array();
    for (const Json& merge : merges)
      list.push_back(merge[0].get<std::string>() + " " + merge[1].get<std::string>());
    return list;
  };
  CHECK(merges_of(*learn({{"size", 269}, {"min_count", 1}}, vector.at("text").get<std::string>())) ==
        lines(vector.at("merges")));
  CHECK(vector.at("merges").size() == 12);
  const auto text = golden().at("text").get<std::string>();
  const TextCodecPtr codec = learn({{"size", 317}}, text);
  CHECK(codec->size() == 317);
  CHECK(codec->end() == 316);
  CHECK(merges_of(*codec) == lines(golden().at("merges")));
  check_cases(*codec, golden().at("cases"));
  check_cases(*recall_codec(Json::parse(codec->description().dump()), "the weights"), golden().at("cases"));
  // No pair is left that occurs twice.
  CHECK(learn({{"size", 300}}, "ab cd")->size() == 257);
  CHECK(learn({{"size", 300}, {"min_count", 1}}, "ab cd")->size() == 260);
  CHECK_FAILS(UserError, learn({{"size", 300}}, ""), "the 1 training texts have no piece");
}

TEST_CASE("overlapping pairs and pairs that a merge removes are counted exactly", "[byte_bpe]") {
  using Merge = datasets::BytePairs::Merge;
  // aaaa: (a, a) three times, then (aa, aa).
  const datasets::TrainedBpe same = datasets::train_bpe({"a"}, {{{0, 0, 0, 0}, 1}}, {.size = 9});
  CHECK(same.merges == std::vector<Merge>{{0, 0}, {1, 1}});
  CHECK(same.pieces == std::vector<std::string>{"a", "aa", "aaaa"});
  // Merging ab leaves (b, c) in the second word only.
  const datasets::TrainedBpe two =
      datasets::train_bpe({"a", "b", "c"}, {{{0, 1, 2}, 3}, {{1, 2}, 9}, {{0, 1}, 13}}, {.size = 9});
  CHECK(two.merges == std::vector<Merge>{{0, 1}, {1, 2}, {3, 2}});
  CHECK(two.pieces == std::vector<std::string>{"a", "b", "c", "ab", "bc", "abc"});
}

TEST_CASE("special tokens come from text only if the options allow it", "[byte_bpe]") {
  const TempFolder folder;
  const Files parts;
  Json vocab = parts.vocab_with_end();
  vocab["<|end|>"] = vocab.size();
  vocab["<|end|>more>"] = vocab.size();
  const ByteBpeOptions options{.vocab = write(folder, "vocab.json", vocab.dump()),
                               .merges = write(folder, "merges.txt", parts.merges_text())};
  const std::string text = "<|end|>a<|endoftext|><|end|>more>b<|endoftext|";
  const Ids plain = datasets::read_byte_bpe(options)->encode(text).ids;
  CHECK(std::ranges::max(plain) < 316);
  ByteBpeOptions allowing = options;
  allowing.special_tokens_in_text = true;
  const TextCodecPtr codec = datasets::read_byte_bpe(allowing);
  Ids expected{317, codec->encode("a").ids[0], 316, 318};
  std::ranges::copy(codec->encode("b<|endoftext|").ids, std::back_inserter(expected));
  CHECK(codec->encode(text).ids == expected);
  CHECK(recall_codec(codec->description(), "the weights")->encode(text).ids == expected);
  CHECK(codec->decode(expected) == "<|end|>a<|end|>more>b<|endoftext|");  // without the end
}

TEST_CASE("any bytes come back, and long runs take little time", "[byte_bpe]") {
  const TextCodecPtr codec = learn({{"size", 317}}, golden().at("text").get<std::string>());
  std::string bytes;
  for (int byte = 0; byte < 512; ++byte) bytes += static_cast<char>(byte * 7);
  CHECK(codec->decode(codec->encode(bytes).ids) == bytes);
  const std::string run(1 << 20, 'x');
  CHECK(codec->decode(codec->encode(run).ids) == run);
  CHECK_FAILS(UserError, codec->decode(Ids{317}), "there is no piece 317 among 317");
  CHECK_FAILS(UserError, codec->piece(-1), "there is no piece -1");
}

TEST_CASE("streamed text holds back the bytes of an unfinished character", "[byte_bpe]") {
  const TextCodecPtr codec = learn({{"size", 257}}, "a");
  const std::string text = "a \xf0\x9f\x99\x82\xc3\xa9";
  datasets::StreamedText streamed(*codec);
  std::vector<std::string> parts;
  for (const std::int32_t id : codec->encode(text).ids) parts.push_back(streamed.add(id));
  CHECK(parts == std::vector<std::string>{"a", " ", "", "", "", "\xf0\x9f\x99\x82", "", "\xc3\xa9"});
  CHECK(streamed.finish().empty());
  // Broken sequences: the bytes are replaced as soon as nothing can complete them.
  const auto add = [&](const char* byte) { return streamed.add(codec->encode(byte).ids[0]); };
  CHECK(add("\xe2").empty());
  CHECK(add("\x82").empty());
  CHECK(add("b") ==
        "\xef\xbf\xbd\xef\xbf\xbd"
        "b");
  CHECK(add("\x82") == "\xef\xbf\xbd");
  CHECK(add("\xc0") == "\xef\xbf\xbd");
  CHECK(add("\xf0").empty());
  CHECK(streamed.add(codec->end()).empty());
  CHECK(streamed.finish() == "\xef\xbf\xbd");
}

TEST_CASE("streamed words have the spaces of the whole text", "[byte_bpe]") {
  const std::string_view text = "one two. three";
  const TextCodecPtr codec = datasets::codecs().make("words", {}, {std::span(&text, 1), "train.txt"});
  datasets::StreamedText streamed(*codec);
  std::string written;
  for (const std::int32_t id : codec->encode(text).ids) written += streamed.add(id);
  for (const std::int32_t id : {codec->end(), codec->encode("two").ids[0]}) written += streamed.add(id);
  CHECK(written == "one two. three\ntwo");
}

TEST_CASE("a text file keeps its line ends, and each file ends with the end", "[byte_bpe]") {
  const TempFolder folder;
  using Paths = std::vector<std::string>;
  const Paths paths{write(folder, "a", "one\n\n two\r\n"), write(folder, "b", "three\nfour")};
  const datasets::CorpusOptions options{
      .tokenizer = {}, .vocabulary = {}, .codec = datasets::CodecChoice("byte_bpe", {{"size", 257}})};
  const datasets::TextCorpus corpus =
      datasets::read_text_files({.train = paths, .validation_fraction = 0.0, .test_fraction = 0.2}, options);
  const Ids ids = corpus.train.ids.unpacked();
  CHECK(corpus.codec->decode(ids) == "one\n\n two\r\nthree\n");
  CHECK(std::ranges::count(ids, corpus.codec->end()) == 2);
  CHECK(ids[11] == corpus.codec->end());
  CHECK(corpus.codec->decode(corpus.test.ids.unpacked()) == "four");
  CHECK(corpus.validation.size() == 0);
  datasets::CorpusOptions again = options;
  again.known_codec = corpus.codec;
  CHECK(datasets::read_text_files({.train = paths, .validation_fraction = 0.0, .test_fraction = 0.0}, again)
            .codec == corpus.codec);
}

TEST_CASE("bad files of a byte-level tokenizer are named with the place and the way out", "[byte_bpe]") {
  const TempFolder folder;
  const Files parts;
  const std::string merges = write(folder, "merges.txt", parts.merges_text());
  const auto vocab = [&](const Json& json) {
    return datasets::read_byte_bpe({.vocab = write(folder, "vocab.json", json.dump()), .merges = merges});
  };
  const auto with_merges = [&](const std::string& text) {
    return datasets::read_byte_bpe({.vocab = write(folder, "vocab.json", parts.vocab_with_end().dump()),
                                    .merges = write(folder, "other.txt", text)});
  };
  const auto tokenizer = [&](const Json& json) {
    return datasets::read_byte_bpe({.tokenizer = write(folder, "tokenizer.json", json.dump())});
  };
  const auto edited = [&](const char* pointer, const Json& value) {
    Json file = parts.tokenizer(parts.merges);
    file[Json::json_pointer(pointer)] = value;
    return file;
  };

  Json other = parts.vocab_with_end();
  other["two"] = 3;
  CHECK_FAILS(UserError, vocab(other), "both have the id 3");
  other = parts.vocab_with_end();
  other["zz"] = 317;
  CHECK_FAILS(UserError, vocab(other), "no merge makes token 317, \"zz\"");
  other["zz"] = 400;
  CHECK_FAILS(UserError, vocab(other), "has the id 400, expected 0 to 317");
  other["zz"] = "317";
  CHECK_FAILS(UserError, vocab(other), "no whole number");
  CHECK_FAILS(UserError, vocab(Json::object()), "vocab.json] the vocabulary is no object of tokens");
  CHECK_FAILS(UserError, vocab(Json::array()), "vocab.json] the vocabulary is no object of tokens");
  CHECK_FAILS(UserError, vocab({{"a", 0}, {"b", 1}}), "needs the token");
  other = parts.vocab_with_end();
  other["日"] = 317;
  CHECK_FAILS(UserError, vocab(other), "\"日\"");
  CHECK_FAILS(UserError, with_merges("q q q\n"), "other.txt:1] \"q q q\" is no pair");
  CHECK_FAILS(UserError, with_merges(parts.merges_text() + "q q\n"), "\"q q\", needs the token \"qq\"");
  CHECK_FAILS(UserError, with_merges(""), "no merge makes token 256");

  CHECK_FAILS(UserError, tokenizer(edited("/normalizer", {{"type", "NFC"}})),
              "\"normalizer\" is NFC, expected null");
  CHECK_FAILS(UserError, tokenizer(edited("/pre_tokenizer", {{"type", "Sequence"}})),
              "\"pre_tokenizer\" is Sequence, expected ByteLevel");
  CHECK_FAILS(UserError, tokenizer(edited("/pre_tokenizer/use_regex", false)),
              "\"pre_tokenizer.use_regex\" is false, expected true");
  CHECK_FAILS(UserError, tokenizer(edited("/post_processor", {{"type", "RobertaProcessing"}})),
              "RobertaProcessing");
  CHECK_FAILS(UserError, tokenizer(edited("/decoder", {{"type", "Metaspace"}})), "Metaspace");
  CHECK_FAILS(UserError, tokenizer(edited("/model/type", "WordPiece")),
              "\"model\" is WordPiece, expected BPE");
  CHECK_FAILS(UserError, tokenizer(edited("/model/dropout", 0.1)), "\"model.dropout\" is 0.1");
  CHECK_FAILS(UserError, tokenizer(edited("/model/byte_fallback", true)), "\"model.byte_fallback\" is true");
  CHECK_FAILS(UserError, tokenizer(edited("/model/ignore_merges", true)), "ignore_merges");
  CHECK_FAILS(UserError, tokenizer(edited("/model/new_part", 1)), "\"model.new_part\" is 1, expected none");
  CHECK_FAILS(UserError, tokenizer(edited("/new_part", 1)), "\"new_part\" is given, expected none");
  CHECK_FAILS(UserError, tokenizer(edited("/added_tokens/0/special", false)), "is not special");
  CHECK_FAILS(UserError, tokenizer(edited("/added_tokens/0/lstrip", true)), "lstrip");
  CHECK_FAILS(UserError, tokenizer(edited("/added_tokens/0/id", 500)), "has the id 500");
  CHECK_FAILS(UserError, tokenizer(edited("/added_tokens/0/content", "")), "has no text");
  CHECK_FAILS(UserError, tokenizer(edited("/added_tokens/0/content", "<s>")),
              "has no special token \"<|endoftext|>\"; set the codec's `end` to one that it has: <s>");
  CHECK_FAILS(UserError, tokenizer(edited("/model/merges/0", 5)), "merge 0 of \"model.merges\" is 5");
  CHECK_FAILS(UserError, tokenizer(edited("/model/merges", "none")), "is no list of pairs");
  CHECK_FAILS(UserError, tokenizer(edited("/model", nullptr)), "\"model\" is null");
  CHECK_FAILS(UserError, tokenizer(edited("/added_tokens/0", Json::object())), "the tokenizer is damaged");

  const auto ranks = [&](const std::string& text) {
    return datasets::read_byte_bpe({.tokenizer = write(folder, "own.tiktoken", text)});
  };
  CHECK_FAILS(UserError, ranks(""), "own.tiktoken] is empty");
  CHECK_FAILS(UserError, ranks("IQ== 0\nIg== 2\n"), "own.tiktoken:2] the id is 2, expected 1");
  CHECK_FAILS(UserError, ranks("IQ== 0\nIg==\n"),
              "own.tiktoken:2] \"Ig==\" is no token in base64 and its id");
  CHECK_FAILS(UserError, ranks("IQ== 0\n"), "no token is the byte 0x00 alone");
  CHECK_FAILS(UserError, datasets::read_byte_bpe({.tokenizer = (folder / "none").string()}), "none");
  CHECK_FAILS(UserError, learn({}, "a"), "size trains a tokenizer");
  CHECK_FAILS(UserError, learn({{"size", 300}, {"tokenizer", "x"}}, "a"), "set exactly one of these");
  CHECK_FAILS(UserError, learn({{"vocab", "x"}}, "a"), "vocab and merges come together");
}

// tests/golden/subwords.py names the files, which are too large for the tree.
TEST_CASE("GPT-2's tokenizer", "[.][gpt2]") {
  const char* const folder = std::getenv("TANDEM_GPT2");
  REQUIRE(folder != nullptr);
  const std::string path = folder;
  const TextCodecPtr pairs =
      datasets::read_byte_bpe({.vocab = path + "/vocab.json", .merges = path + "/merges.txt"});
  const TextCodecPtr ranks = datasets::read_byte_bpe({.tokenizer = path + "/gpt2.tiktoken"});
  const TextCodecPtr file = datasets::read_byte_bpe({.tokenizer = path + "/tokenizer.json"});
  const std::vector<std::pair<std::string, Ids>> vectors{
      {"Hello world", {15496, 995}},
      {" Hello  world", {18435, 220, 995}},
      {"don't I'LL we've", {9099, 470, 314, 6, 3069, 356, 1053}},
      {"1234567 3.14", {10163, 2231, 3134, 513, 13, 1415}},
      {"foo_bar--baz!!!", {21943, 62, 5657, 438, 65, 1031, 10185}},
      {"naïve café", {2616, 38776, 40304}},
      {"don’t", {9099, 447, 247, 83}},
      {"日本語 テキスト", {33768, 98, 17312, 105, 45739, 252, 14524, 228, 25084, 43302}},
      {"🙂👍🏽", {8582, 25081, 41840, 235, 8582, 237, 121}},
      {"\n\n  x\t\ty  ", {628, 220, 2124, 197, 197, 88, 220, 220}},
      {"\r\nA", {201, 198, 32}},
      {"   ", {220, 220, 220}},
      {"a\u00a0b\u2003c", {64, 1849, 65, 447, 225, 66}},
      {std::string("\0\x7f\xc2\x85\u2028z", 8), {188, 221, 126, 227, 447, 101, 89}},
      {"Ünïcödé ﬁ ½ ²", {127, 250, 77, 26884, 66, 9101, 67, 2634, 27332, 105, 223, 25208, 1587, 110}},
      {std::string(20, 'x'), {24223, 24223, 12343}},
      {"a<|endoftext|>b", {64, 27, 91, 437, 1659, 5239, 91, 29, 65}}};
  const Json words = Json::parse(std::ifstream(path + "/words.json"));
  for (const TextCodecPtr& codec : {pairs, ranks, file}) {
    CHECK(codec->size() == 50257);
    CHECK(codec->end() == 50256);
    CHECK(codec->piece(256) == "Ġt");
    CHECK(codec->piece(50255) == "Ġgazed");
    for (const auto& [text, ids] : vectors) {
      CAPTURE(text);
      CHECK(codec->encode(text).ids == ids);
      CHECK(codec->decode(ids) == text);
    }
    check_cases(*codec, words.at("cases"));
  }
  Json merges = Json::array();
  for (const Json& merge : words.at("trained"))
    merges.push_back(merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  CHECK(learn({{"size", 557}, {"min_count", 1}}, words.at("text").get<std::string>())
            ->description()
            .at("merges") == merges);
}
