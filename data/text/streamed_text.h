// Text of ids that arrive one after another, such as that of a generating model on a terminal.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "data/text/codec.h"

namespace tandem::datasets {

// The codec must outlive the object.
class StreamedText {
 public:
  explicit StreamedText(const TextCodec& codec) : codec_(codec) {}

  // The text that an id adds: valid UTF-8, where U+FFFD replaces bytes that no id can complete. The bytes of
  // an unfinished character are held back. end() is a line end unless the codec keeps line ends.
  std::string add(std::int32_t id);
  // The rest, with U+FFFD for an unfinished character.
  std::string finish();

 private:
  const TextCodec& codec_;
  std::vector<std::int32_t>
      last_;  // the id before, which may decide about a space; none at the start of a line
  std::string held_;
};

}  // namespace tandem::datasets
