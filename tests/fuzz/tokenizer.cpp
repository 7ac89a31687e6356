// Tokenizer files and descriptions of codecs with weights: the first byte selects the kind.
#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "data/text/byte_bpe.h"
#include "data/text/streamed_text.h"
#include "data/text/wordpiece.h"
#include "files/json_text.h"
#include "tests/fuzz/target.h"

namespace tandem::fuzz {

namespace {

constexpr std::string_view kProbe =
    "don't  Stalt\n\xC3\xBC"
    "12 \xE6\x97\xA5<|endoftext|>\xFF!";

std::string write_beside(const std::string& name, std::string_view text) {
  const std::string path = folder() + "/" + name;
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

datasets::TextCodecPtr codec_of(int kind, std::string_view text) {
  switch (kind) {
    case 0:
      return datasets::read_byte_bpe({.tokenizer = write_beside("tokenizer", text)});
    case 1: {
      // vocab.json, a NUL, merges.txt
      const std::size_t cut = std::min(text.find('\0'), text.size());
      return datasets::read_byte_bpe(
          {.vocab = write_beside("vocab.json", text.substr(0, cut)),
           .merges = write_beside("merges.txt", text.substr(std::min(cut + 1, text.size())))});
    }
    case 2:
      return datasets::read_wordpiece({.vocab = write_beside("vocab.txt", text)});
    default:
      return datasets::recall_codec(
          files::parse_json<nlohmann::ordered_json>(std::string(text), "input", "the description"), "input");
  }
}

void run(Bytes input) {
  if (input.empty()) return;
  const int kind = std::to_integer<int>(input[0]) % 4;
  const std::string_view text(reinterpret_cast<const char*>(input.data()) + 1, input.size() - 1);
  const datasets::TextCodecPtr codec = codec_of(kind, text);
  const datasets::EncodedText encoded = codec->encode(kProbe);
  datasets::StreamedText streamed(*codec);
  for (const std::int32_t id : encoded.ids) {
    expect(id >= 0 && id < codec->size(), "an id is beyond the pieces");
    streamed.add(id);
  }
  const std::string decoded = codec->decode(encoded.ids);
  if (codec->keeps_line_ends()) {
    const bool same = decoded == kProbe || decoded == " " + std::string(kProbe);
    expect(same || codec->description().at("special_tokens_in_text").get<bool>(), "the bytes are others");
  }
  if (codec->name() == "wordpiece")
    expect(datasets::encode_with_places(*codec, kProbe).ids == encoded.ids, "pieces with places are others");
  const auto again = datasets::recall_codec(codec->description(), "input");
  expect(again->encode(kProbe).ids == encoded.ids, "a recalled codec has other ids");
}

}  // namespace

TANDEM_FUZZ_TARGET("tokenizer", run)

}  // namespace tandem::fuzz
