// Ids of words in the smallest integers.
#include "data/text/packed_ids.h"

#include "data/text/text_file.h"
#include "files/text_view.h"
#include "tests/support/temporary_files.h"

using namespace tandem;
using datasets::PackedIds;
using Ids = std::vector<std::int32_t>;

TEST_CASE("ids take as many bytes as the largest of their vocabulary needs", "[text]") {
  for (const auto& [vocabulary, bytes] :
       {std::pair<Index, std::size_t>{256, 1}, {257, 2}, {65536, 2}, {65537, 4}, {1 << 24, 4}}) {
    CAPTURE(vocabulary);
    const Ids ids{0, static_cast<std::int32_t>(vocabulary) - 1, 7};
    PackedIds packed(vocabulary);
    packed.append(ids);
    CHECK(packed.bytes() == 3 * bytes);
    CHECK(packed.unpacked() == ids);
    CHECK(packed[1] == ids[1]);
    CHECK(packed.first(2).unpacked() == Ids{ids[0], ids[1]});
    CHECK(packed.first(9).size() == 3);
    CHECK(PackedIds(ids).bytes() == packed.bytes());
  }
  CHECK(PackedIds(Ids{}).empty());
}

TEST_CASE("a long file of text is mapped, and reads as it does otherwise", "[text]") {
  const testing::TemporaryDirectory folder;
  std::string text;
  while (text.size() < files::TextView::kMapped) text += "A line of b\u00E9t\u00E9s.\n";
  const std::string path = folder.write("train.txt", text);
  const files::TextView view(path, 1 << 30);
  CHECK(view.mapped());
  CHECK(view.text() == text);
  CHECK_THAT(testing::user_error_of([&] { files::TextView(path, 1000); }), Catch::Contains("at most 1000"));
  datasets::CorpusOptions options;
  options.tokenizer = options::Choice<datasets::tokenizers>("characters");
  const auto corpus = datasets::read_text_files({.train = path}, options);
  CHECK(corpus.train.ids.bytes() == corpus.train.ids.size());
  CHECK(corpus.train.ids.size() > text.size() * 8 / 10);
}
