#include "data/text/streamed_text.h"

#include <utility>

#include "core/printable.h"
#include "data/text/unicode.h"

namespace tandem::datasets {

std::string StreamedText::add(std::int32_t id) {
  if (id == codec_.end()) {
    last_.clear();
    if (!codec_.keeps_line_ends()) held_ += '\n';
  } else {
    const std::size_t before = codec_.decode(last_).size();
    last_.push_back(id);
    held_ += codec_.decode(last_).substr(before);
    if (last_.size() > 1) last_.erase(last_.begin());
  }
  const std::size_t ready = held_.size() - unfinished_bytes(held_);
  std::string text = valid_utf8(std::string_view(held_).substr(0, ready));
  held_.erase(0, ready);
  return text;
}

std::string StreamedText::finish() { return valid_utf8(std::exchange(held_, {})); }

}  // namespace tandem::datasets
