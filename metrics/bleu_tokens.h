// Tokenisation for BLEU.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::metrics {

enum class BleuTokens : std::uint8_t {
  v13a,  // mteval-v13a's rules for western languages, the default of sacrebleu
  none,  // split at white space only, for text that is already tokenised
};

// The name in a signature: "13a" or "none".
std::string_view name_of(BleuTokens tokens);

// Splits a UTF-8 segment into words as sacrebleu 2.6.0 does (tokenizers/tokenizer_13a.py, tokenizer_re.py):
// Unicode white space, ASCII digits, unchanged case. Invalid UTF-8 bytes are parts of words.
std::vector<std::string> bleu_tokens(std::string_view segment, BleuTokens tokens);

}  // namespace tandem::metrics
