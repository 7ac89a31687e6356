#include "data/boxes/rle.h"

#include <algorithm>

#include "core/error.h"
#include "data/limits.h"

namespace tandem::datasets {

namespace {

constexpr int kFirst = 48, kBits = 5, kMostGroups = 7;  // of a number: 35 bits
constexpr int kMore = 0x20, kSign = 0x10, kGroup = 0x1f;

}  // namespace

Index RunLengths::area() const {
  Index ones = 0;
  for (std::size_t i = 1; i < counts.size(); i += 2) ones += counts[i];
  return ones;
}

Corners RunLengths::box() const {
  Index left = width, right = 0, top = height, bottom = 0, end = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const Index begin = end;
    end += counts[i];
    if (i % 2 == 0 || begin == end) continue;
    const Index first = begin / height, last = (end - 1) / height;
    left = std::min(left, first);
    right = std::max(right, last + 1);
    // A run across the end of a column covers the last row and the first.
    top = std::min(top, first == last ? begin % height : 0);
    bottom = std::max(bottom, first == last ? (end - 1) % height + 1 : height);
  }
  if (right == 0) return {};
  return {static_cast<double>(left), static_cast<double>(top), static_cast<double>(right),
          static_cast<double>(bottom)};
}

void require_sound(const RunLengths& mask, const std::string& where) {
  require(mask.height > 0 && mask.width > 0 && mask.height <= kMaxPixels / mask.width, where,
          "a mask of {}x{} pixels", mask.width, mask.height);
  const Index pixels = mask.height * mask.width;
  Index left = pixels;
  for (std::size_t i = 0; i < mask.counts.size(); ++i) {
    require(mask.counts[i] >= 0 && mask.counts[i] <= left, where,
            "run {} of the mask has {} pixels, of {} that are left", i, mask.counts[i], left);
    left -= mask.counts[i];
  }
  require(left == 0, where, "the runs of the mask end {} pixels before its {}x{}", left, mask.width,
          mask.height);
}

RunLengths decode_rle(std::string_view text, Index height, Index width, const std::string& where) {
  RunLengths mask{.height = height, .width = width, .counts = {}};
  Index number = 0;
  int groups = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const int code = static_cast<unsigned char>(text[i]) - kFirst;
    require(code >= 0 && code < 2 * kMore && groups < kMostGroups, where,
            "byte {} of the mask's counts, {:#04x}, is invalid there", i,
            static_cast<unsigned>(static_cast<unsigned char>(text[i])));
    number |= Index{code & kGroup} << (kBits * groups++);
    if ((code & kMore) != 0) continue;
    if ((code & kSign) != 0) number -= Index{1} << (kBits * groups);
    if (mask.counts.size() > 2) number += mask.counts[mask.counts.size() - 2];
    mask.counts.push_back(number);
    number = 0;
    groups = 0;
  }
  require(groups == 0, where, "the mask's counts end inside a number");
  require_sound(mask, where);
  return mask;
}

}  // namespace tandem::datasets
