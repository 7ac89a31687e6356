// Codec "byte_bpe": byte-level byte-pair encoding as in GPT-2 (Radford et al., 2019).
//
// Every text has ids, and decoding gives its bytes back, white space and line ends included. first_piece
// (gpt2_split.h) cuts a text; in each piece, merges (byte_pairs.h) join bytes to tokens.
#pragma once

#include <optional>
#include <string>

#include "data/text/byte_pairs.h"
#include "data/text/codec.h"

namespace tandem::datasets {

// Either the files of a tokenizer, or the size of one that is trained.
struct ByteBpeOptions {
  std::optional<std::string> vocab{}, merges{};  // see read_vocab_and_merges
  std::optional<std::string> tokenizer{};        // see read_tokenizer_file
  std::optional<Index> size{};                   // largest size, the 256 bytes and `end` included
  Index min_count = 2;                           // rarer pairs are not merged
  // Special token that ends a text. Files without special tokens get it as their last id.
  std::string end = "<|endoftext|>";
  bool special_tokens_in_text = false;  // encodes them as their ids; otherwise as characters
  static const options::Schema& schema();
  bool trains() const { return size.has_value(); }
};

CodecRegistry::Entry byte_bpe_entry();

TextCodecPtr read_byte_bpe(const ByteBpeOptions& files);
// Throws UserError in the name of `where` unless every byte is a token and `end` is special.
TextCodecPtr make_byte_bpe(BytePairs pairs, const ByteBpeOptions& options, const std::string& where);
TextCodecPtr recall_byte_bpe(const nlohmann::ordered_json& description, const std::string& where);

}  // namespace tandem::datasets
