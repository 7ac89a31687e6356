// Codecs: text as ids and back; pieces against SentencePiece's Python package (tests/golden/pieces.py).
#include "data/text/codec.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "data/text/sentence_pieces.h"
#include "files/base64.h"
#include "tests/support/errors.h"
#include "tests/support/paths.h"

using namespace tandem;
using namespace tandem::test;

using datasets::codecs;
using datasets::recall_codec;
using datasets::TextCodec;
using datasets::TextCodecPtr;
using Json = nlohmann::ordered_json;
using Ids = std::vector<std::int32_t>;

namespace {

const Json& golden() {
  static const Json file = Json::parse(std::ifstream(source_path("tests/golden/pieces.json")));
  return file;
}

TextCodecPtr learn(const std::string& name, const options::Given& options,
                   const std::vector<std::string>& texts) {
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  return codecs().make(name, options, {views, "train.txt"});
}

std::vector<std::string> pieces_of(const TextCodec& codec) {
  std::vector<std::string> pieces;
  for (Index id = 0; id < codec.size(); ++id) pieces.push_back(codec.piece(static_cast<std::int32_t>(id)));
  return pieces;
}

void check_alike(const TextCodec& codec, const Json& expected) {
  CHECK(pieces_of(codec) == expected.at("pieces").get<std::vector<std::string>>());
  for (const Json& probe : expected.at("probes")) {
    CAPTURE(probe.dump());
    const datasets::EncodedText encoded = codec.encode(probe.at("text").get<std::string>());
    CHECK(encoded.ids == probe.at("ids").get<Ids>());
    CHECK(encoded.unknown == std::ranges::count(encoded.ids, codec.unknown()));
    CHECK(codec.decode(encoded.ids) == probe.at("decoded").get<std::string>());
  }
}

}  // namespace

TEST_CASE("pieces of a kept model are those of SentencePiece", "[codec]") {
  for (const Json& expected : golden().at("cases")) {
    if (expected.at("model").is_null()) continue;
    const auto codec =
        recall_codec({{"name", expected.at("kind")}, {"model", expected.at("model")}}, "the weights");
    CHECK(codec->name() == expected.at("kind"));
    CHECK(codec->size() == expected.at("size"));
    CHECK(codec->description().at("model") == expected.at("model"));
    check_alike(*codec, expected);
  }
}

TEST_CASE("pieces that are learnt are those of SentencePiece, the same bytes each time", "[codec]") {
  const auto texts = golden().at("texts").get<std::vector<std::string>>();
  for (const Json& expected : golden().at("cases")) {
    const auto kind = expected.at("kind").get<std::string>();
    const options::Given options{{"size", expected.at("size").get<std::int64_t>()},
                                 {"coverage", 1.0},
                                 {"normalization", expected.at("normalization").get<std::string>()}};
    const TextCodecPtr codec = learn(kind, options, texts);
    check_alike(*codec, expected);
    const Json kept = codec->description();
    CHECK(learn(kind, options, texts)->description() == kept);
    check_alike(*recall_codec(Json::parse(kept.dump()), "the weights"), expected);
  }
}

TEST_CASE("begin and end are no text's, and no text", "[codec]") {
  const TextCodecPtr learnt = learn("bpe", {{"size", 90}, {"coverage", 1.0}}, golden().at("texts"));
  CHECK(learnt->begin() == 1);
  CHECK(learnt->end() == 2);
  const TextCodecPtr words = learn("spaces", {}, {"a b <end> a"});
  CHECK(words->begin() == words->end());
  for (const TextCodecPtr& codec : {learnt, words}) {
    CAPTURE(codec->name());
    const datasets::EncodedText marks = codec->encode("<s> </s> <end> <unk>");
    CHECK(std::ranges::count(marks.ids, codec->begin()) == 0);
    CHECK(std::ranges::count(marks.ids, codec->end()) == 0);
    CHECK(marks.unknown > 0);
    CHECK(codec->encode("").ids.empty());
    CHECK(codec->decode({}).empty());
    CHECK(codec->decode(Ids{codec->begin(), codec->end(), codec->end()}).empty());
  }
  CHECK(words->encode("b <end>").ids == Ids{3, 0});
  CHECK(words->decode(Ids{1, 2, 1, 3, 1}) == "a b");
}

TEST_CASE("codecs of a vocabulary, described and recalled", "[codec]") {
  const TextCodecPtr codec = learn("characters", {{"size", 5}}, {"anna", "banana"});
  CHECK(pieces_of(*codec) == std::vector<std::string>{"<unk>", "<end>", "a", "n", "b"});
  CHECK(codec->encode("nab").ids == Ids{3, 2, 4});
  const datasets::EncodedText unknown = codec->encode("Näb\xFF");
  CHECK(unknown.ids == Ids{0, 0, 4, 0});
  CHECK(unknown.unknown == 3);
  CHECK(codec->decode(Ids{4, 2, 3, 1}) == "ban");
  const TextCodecPtr recalled = recall_codec(Json::parse(codec->description().dump()), "the weights");
  CHECK(recalled->name() == "characters");
  CHECK(pieces_of(*recalled) == pieces_of(*codec));
  CHECK(recalled->encode("nab").ids == Ids{3, 2, 4});
  CHECK(recalled->description() == codec->description());
}

TEST_CASE("a byte that is no UTF-8 is unknown to learnt pieces, too", "[codec]") {
  const TextCodecPtr codec = learn("unigram", {{"size", 90}, {"coverage", 1.0}}, golden().at("texts"));
  CHECK(codec->encode("stalt\xFF").ids == codec->encode("stalt\xEF\xBF\xBD").ids);
  CHECK(codec->encode("stalt\xFF").unknown == 1);
}

TEST_CASE("codecs that are only described have sizes and marks, and do nothing", "[codec]") {
  const auto described = [](std::string_view name, const options::Given& options) {
    return datasets::described_codec(datasets::CodecChoice(name, options));
  };
  const TextCodecPtr bpe = described("bpe", {{"size", 500}}), words = described("words", {{"size", 40}});
  CHECK(bpe->size() == 500);
  CHECK(bpe->begin() == 1);
  CHECK(bpe->end() == 2);
  CHECK(words->size() == 40);
  CHECK(words->begin() == 1);
  CHECK(words->end() == 1);
  CHECK(described("words", {{"size", 0}}) == nullptr);
  CHECK(described("byte_bpe", {{"size", 300}})->keeps_line_ends());
  CHECK_FALSE(words->keeps_line_ends());
  CHECK_FAILS(InternalError, bpe->encode("a"), "bpe of 500 pieces is a description");
  CHECK_FAILS(InternalError, words->decode(Ids{2}), "is a description");
}

TEST_CASE("errors of codecs", "[codec]") {
  const std::vector<std::string> few{"a b", "b a"};
  CHECK_FAILS(UserError, learn("unigram", {{"size", 100}}, few), "train.txt] 100 pieces of kind unigram");
  CHECK_FAILS(UserError, learn("bpe", {{"size", 100}}, few), "Vocabulary size");
  CHECK_FAILS(UserError, learn("bpe", {{"size", 5}}, {"abcdefgh"}), "train.txt] 5 pieces of kind bpe");
  CHECK_FAILS(UserError, learn("unigram", {}, {"", " \t"}), "the 2 training texts have no piece");
  CHECK_FAILS(UserError, learn("words", {}, {"", "!!"}), "the 2 training texts have no piece (codec words)");
  CHECK_FAILS(UserError, learn("bpe", {{"size", 3}}, few), "size");
  CHECK_FAILS(UserError, learn("bpe", {{"coverage", 1.5}}, few), "coverage");
  CHECK_FAILS(UserError, learn("bpo", {}, few), "bpe");
  for (const TextCodecPtr& codec : {learn("spaces", {}, few), learn("bpe", {{"size", 7}}, few)}) {
    const auto none = static_cast<std::int32_t>(codec->size());
    CHECK_FAILS(UserError, codec->decode(Ids{none}), "there is no piece");
    CHECK_FAILS(UserError, codec->decode(Ids{-1}), "there is no piece -1");
    CHECK_FAILS(UserError, codec->piece(none), "there is no piece");
  }
}

TEST_CASE("damaged descriptions of codecs are refused", "[codec]") {
  const auto recall = [](const Json& description) { return recall_codec(description, "old.safetensors"); };
  CHECK_FAILS(UserError, recall({{"name", "bpe"}}), "old.safetensors] the description of a codec is damaged");
  CHECK_FAILS(UserError, recall(Json::array()), "is damaged");
  CHECK_FAILS(UserError, recall({{"name", "words"}, {"vocabulary", {"<unk>", "a", "b"}}}),
              "the vocabulary begins with");
  CHECK_FAILS(UserError, recall({{"name", "letters"}, {"vocabulary", Json::array()}}), "letters");
  CHECK_FAILS(UserError, recall({{"name", "bpe"}, {"model", "no base64"}}), "should be base64");
  CHECK_FAILS(UserError, recall({{"name", "bpe"}, {"model", files::base64("no model")}}),
              "old.safetensors] the model of pieces");
  CHECK_FAILS(UserError, recall({{"name", "bpe"}, {"model", ""}}), "the model of pieces");
}

TEST_CASE("codecs know whether they drop case", "[codec]") {
  const std::vector<std::string> texts(20, "The Cat sat ON the Mat and THE dog ran");
  const auto drops = [&](const std::string& name, const options::Given& options = {}) {
    return learn(name, options, texts)->drops_case();
  };
  CHECK(drops("words"));
  CHECK_FALSE(drops("spaces"));
  CHECK_FALSE(drops("characters"));
  CHECK_FALSE(drops("unigram", {{"size", 22}}));
  CHECK_FALSE(drops("unigram", {{"size", 22}, {"normalization", "nfkc"}}));
  CHECK(drops("unigram", {{"size", 17}, {"normalization", "nfkc_cf"}}));
  CHECK(drops("bpe", {{"size", 20}, {"normalization", "nmt_nfkc_cf"}}));
}
