// Pairs of texts: the first byte selects the format.
#include "data/text/pair_files.h"
#include "samples/cmu_dictionary.h"
#include "samples/help_page.h"
#include "tests/fuzz/target.h"

namespace tandem::fuzz {

namespace {

void expect_pairs(const std::vector<datasets::TextPair>& pairs) {
  for (const datasets::TextPair& pair : pairs)
    expect(!pair.source.empty() && !pair.targets.empty(), "a pair lacks a side");
}

void run(Bytes input) {
  if (input.empty()) return;
  const Bytes rest = input.subspan(1);
  switch (std::to_integer<int>(input[0]) % 3) {
    case 0: {
      const std::string_view page(reinterpret_cast<const char*>(rest.data()), rest.size());
      for (const datasets::HelpParagraph& paragraph : datasets::help_paragraphs(page))
        expect(!paragraph.id.empty() && !paragraph.text.empty() && paragraph.text.size() <= page.size(),
               "a paragraph is empty or larger than its page");
      return;
    }
    case 1:
      expect_pairs(datasets::read_cmu_dictionary(file_of(rest)).train);
      return;
    default:
      expect_pairs(datasets::read_pair_files(
                       {.train = {.table = file_of(rest)}, .validation_fraction = 0.0, .test_fraction = 0.0})
                       .train);
  }
}

}  // namespace

TANDEM_FUZZ_TARGET("pairs", run)

}  // namespace tandem::fuzz
