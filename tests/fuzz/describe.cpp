#include "tests/fuzz/describe.h"

#include <zlib.h>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "data/npy.h"
#include "files/safetensors.h"

namespace tandem::fuzz {

namespace {

using nlohmann::json;

std::uint32_t checksum(const Tensor& tensor) {
  const auto* bytes = static_cast<const Bytef*>(tensor.raw());
  return static_cast<std::uint32_t>(crc32_z(0, tensor.bytes() ? bytes : nullptr, tensor.bytes()));
}

json safetensors_of(const std::string& path) {
  const safetensors::File file(path);
  json tensors = json::object();
  for (const auto& entry : file.entries()) {
    json& tensor = tensors[entry.name] = {{"dtype", entry.dtype}, {"shape", entry.extents}};
    try {
      tensor["crc32"] = checksum(file.read(entry));
    } catch (const UserError&) {  // no such type or rank here
    }
  }
  return {{"accepted", true}, {"tensors", tensors}, {"metadata", file.metadata()}};
}

json npy_of(const std::string& path) {
  const Tensor array = datasets::read_npy(*datasets::open_file(path));
  const std::vector<Index> shape(array.shape().begin(), array.shape().end());
  return {
      {"accepted", true},
      {"tensors", {{"", {{"dtype", name_of(array.dtype())}, {"shape", shape}, {"crc32", checksum(array)}}}}}};
}

}  // namespace

std::string describe(const std::string& format, const std::string& file) {
  json description;
  try {
    description = format == "npy" ? npy_of(file) : safetensors_of(file);
  } catch (const Error& error) {
    description = {{"accepted", false}, {"why", error.what()}};
  }
  return description.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace tandem::fuzz
