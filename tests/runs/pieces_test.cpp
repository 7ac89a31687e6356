// SentencePiece, whose library includes one version of Protocol Buffers, and event files, which use another,
// in one program (cmake/tandem-protobuf.cmake).
#include <nlohmann/json.hpp>

#include "data/text/codec.h"
#include "runs/tensorboard/event_file.h"
#include "runs/tensorboard/record.h"
#include "tests/support/temporary_files.h"

using namespace tandem::testing;
using namespace tandem;

TEST_CASE("pieces are learnt and event files written by one program", "[tensorboard]") {
  const TemporaryDirectory folder;
  for (int round = 0; round < 2; ++round) {
    const std::vector<std::string_view> texts{"a rose is a rose", "is a rose"};
    const datasets::TextCodecPtr codec = datasets::codecs().make("unigram", {{"size", 10}}, {texts, "texts"});
    CHECK(codec->decode(codec->encode("is a rose").ids) == "is a rose");
    tensorboard::EventFile file(folder.path());
    file.scalars(1, {{"loss", 0.5}});
    CHECK(tensorboard::payloads(read_text(file.path())).size() == 2);
    const datasets::TextCodecPtr again = datasets::recall_codec(codec->description(), "here");
    CHECK(again->encode("a rose").ids == codec->encode("a rose").ids);
  }
}
