#include "data/boxes/bounded_input.h"

#include <algorithm>

#include "core/error.h"

namespace tandem::datasets {

BoundedInput::int_type BoundedInput::underflow() {
  const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(chunk_.size(), file_.size() - offset_));
  if (size == 0) return traits_type::eof();
  require(silent_ <= longest_, file_.path(),
          "has a text or number of more than {} bytes before byte {}, longer than any in the format",
          longest_, offset_);
  file_.read(offset_, chunk_.data(), size);
  const auto end = chunk_.begin() + static_cast<std::ptrdiff_t>(size);
  const auto nul = std::find(chunk_.begin(), end, '\0');
  require(nul == end, file_.path(), "is no JSON: byte {} is NUL",
          offset_ + static_cast<std::uint64_t>(nul - chunk_.begin()));
  offset_ += size;
  silent_ += size;
  setg(chunk_.data(), chunk_.data(), chunk_.data() + size);
  return traits_type::to_int_type(chunk_.front());
}

}  // namespace tandem::datasets
