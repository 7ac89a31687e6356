// SentencePiece models as stored with weights.
#include "data/text/sentence_pieces.h"
#include "files/base64.h"
#include "tests/fuzz/target.h"

namespace tandem::fuzz {

namespace {

void run(Bytes input) {
  const std::string_view model(reinterpret_cast<const char*>(input.data()), input.size());
  const datasets::TextCodecPtr codec =
      datasets::recall_sentence_pieces("unigram", files::base64(model), "input");
  const datasets::EncodedText text = codec->encode("stalt prei, fl\xC3\xBCng");
  for (const std::int32_t id : text.ids) expect(id >= 0 && id < codec->size(), "an id is beyond the pieces");
  codec->decode(text.ids);
}

}  // namespace

TANDEM_FUZZ_TARGET("pieces", run)

}  // namespace tandem::fuzz
