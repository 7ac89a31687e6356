// The Jargon File as a corpus, from a small file in its place.
#include "samples/jargon.h"

#include "files/not_there.h"
#include "tests/data/files.h"
#include "tests/support/errors.h"

using namespace tandem;
using namespace tandem::test;

TEST_CASE("the lines of the Jargon File are split in their order", "[corpus]") {
  const datasets::testing::TempFolder folder;
  std::string text;
  for (int i = 0; i < 40; ++i) text += "entry" + std::to_string(i) + "\n";
  datasets::testing::write_file(folder / "jargon.txt", {text.begin(), text.end()});
  const datasets::TextCorpus corpus = datasets::jargon_corpus(folder / "jargon.txt");
  // A word and the end of each line.
  CHECK(corpus.train.size() == 2 * 36);
  CHECK(corpus.validation.size() == 2 * 2);
  CHECK(corpus.test.size() == 2 * 2);
  CHECK(corpus.vocabulary.has("entry35"));
  CHECK_FALSE(corpus.vocabulary.has("entry36"));
  CHECK_FAILS(files::NotThere, datasets::jargon_corpus(folder / "none.txt"), "`./run data` fetches it");
}
