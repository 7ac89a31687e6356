// The words that BLEU compares.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::metrics {

enum class BleuTokens : std::uint8_t {
  v13a,  // mteval-v13a's rules for western languages, as sacrebleu applies them: its default
  none,  // separated by white space as they stand: for text that is tokenised already
};

// "13a", "none": the names in a signature.
std::string_view name_of(BleuTokens tokens);

// The words of a segment of UTF-8 as sacrebleu 2.6.0 finds them (tokenizers/tokenizer_13a.py,
// tokenizer_re.py): white space is Unicode's, digits are ASCII's, letter case stays. Bytes that are no UTF-8
// are parts of words.
std::vector<std::string> bleu_tokens(std::string_view segment, BleuTokens tokens);

}  // namespace tandem::metrics
