// Tokens and merges of byte-level BPE, and their files.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::datasets {

struct BytePairs {
  // By id: the bytes of a token, or the text of a special one.
  std::vector<std::string> tokens;
  // Ids that stand for no bytes of a text, such as that of "<|endoftext|>"; ascending.
  std::vector<std::int32_t> special;
  // The earlier of two merges goes first.
  struct Merge {
    std::int32_t left = 0, right = 0;
    bool operator==(const Merge&) const = default;
  };
  std::vector<Merge> merges;
  // Instead of a list of merges: two tokens merge if their concatenation is a token; lower ids go first.
  bool merges_by_id = false;
  // A text that begins with no space is encoded as if it did.
  bool prefix_space = false;
};

// Key of a pair of ids for maps; in the order of left, then right.
inline std::uint64_t pair_key(std::int32_t left, std::int32_t right) {
  return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
}

// All throw UserError with the file, the place in it, and the rule.

// "vocab.json" (token → id) and "merges.txt" (a pair of tokens per line), of byte names (byte_names.h). A
// token that no merge makes must look special: "<…>" or "[…]".
BytePairs read_vocab_and_merges(const std::string& vocab, const std::string& merges);
// "tokenizer.json" of the library tokenizers, or tiktoken's lines "base64 id". A tokenizer.json must have no
// part beyond a BPE model with a ByteLevel splitter.
BytePairs read_tokenizer_file(const std::string& path);

// Names for a description, and back. Throws UserError in the name of `where` when the parts do not fit.
std::vector<std::string> token_names(const BytePairs& pairs);
std::vector<std::string> merge_names(const BytePairs& pairs);
// `special`: ids of special tokens.
BytePairs byte_pairs_of_names(const std::vector<std::string>& tokens, std::vector<std::int32_t> special,
                              std::span<const std::string> merges, const std::string& where);

}  // namespace tandem::datasets
