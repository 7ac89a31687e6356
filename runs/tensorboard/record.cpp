#include "runs/tensorboard/record.h"

#include <bit>
#include <boost/crc.hpp>
#include <cstring>

#include "core/error.h"

namespace tandem::tensorboard {

namespace {

static_assert(std::endian::native == std::endian::little, "records are written as they lie in memory");

using Crc32c = boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true>;

constexpr std::size_t kHead = 12, kTail = 4;

template <class T>
void append(std::string& to, T value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <class T>
T value_at(std::string_view bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  Crc32c crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return crc.checksum();
}

std::uint32_t masked(std::uint32_t crc) { return std::rotr(crc, 15) + 0xa282ead8u; }

std::string record(std::string_view payload) {
  std::string bytes;
  bytes.reserve(payload.size() + kHead + kTail);
  append(bytes, static_cast<std::uint64_t>(payload.size()));
  append(bytes, masked(crc32c(bytes)));
  bytes += payload;
  append(bytes, masked(crc32c(payload)));
  return bytes;
}

std::vector<std::string> payloads(std::string_view file) {
  std::vector<std::string> result;
  std::size_t at = 0;
  while (file.size() - at >= kHead) {
    const auto length = value_at<std::uint64_t>(file, at);
    require(value_at<std::uint32_t>(file, at + 8) == masked(crc32c(file.substr(at, 8))), "",
            "event file: the record at byte {}: its length does not match its checksum", at);
    if (file.size() - at - kHead < length || file.size() - at - kHead - length < kTail) break;
    const std::string_view payload = file.substr(at + kHead, length);
    require(value_at<std::uint32_t>(file, at + kHead + length) == masked(crc32c(payload)), "",
            "event file: the record at byte {}: its {} bytes do not match their checksum", at, length);
    result.emplace_back(payload);
    at += kHead + length + kTail;
  }
  return result;
}

}  // namespace tandem::tensorboard
