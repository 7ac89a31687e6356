#include "files/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "core/backend.h"
#include "core/error.h"
#include "core/printable.h"
#include "core/suggest.h"
#include "files/json_text.h"
#include "files/write.h"

namespace tandem::safetensors {

namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little,
              "the format is little-endian and read without conversion");

constexpr std::uint64_t kMaxHeader = 100'000'000;
constexpr std::size_t kMaxTensors = 1'000'000;
constexpr std::size_t kMaxName = 4096;
constexpr std::size_t kMaxRankInFile = 16;
constexpr files::JsonLimits kHeaderLimits{.depth = 8, .keys = kMaxTensors + 1, .items = 1024};

struct FileType {
  std::string_view name;
  std::uint64_t bits;
  std::optional<DType> dtype;  // absent if Tandem does not support it
};

constexpr FileType kTypes[] = {
    {"F64", 64, DType::f64}, {"F32", 32, DType::f32}, {"F16", 16, DType::f16}, {"BF16", 16, DType::bf16},
    {"I64", 64, DType::i64}, {"I32", 32, DType::i32}, {"U8", 8, DType::u8},    {"BOOL", 8, DType::boolean},
    {"I16", 16, {}},         {"I8", 8, {}},           {"U64", 64, {}},         {"U32", 32, {}},
    {"U16", 16, {}},         {"F8_E4M3", 8, {}},      {"F8_E5M2", 8, {}},      {"F8_E8M0", 8, {}},
    {"F8_E4M3FNUZ", 8, {}},  {"F8_E5M2FNUZ", 8, {}},  {"C64", 64, {}},         {"F4", 4, {}},
    {"F6_E2M3", 6, {}},      {"F6_E3M2", 6, {}},
};

const FileType* find_type(std::string_view name) {
  const auto found = std::ranges::find(kTypes, name, &FileType::name);
  return found == std::end(kTypes) ? nullptr : &*found;
}

std::uint64_t unsigned_at(const json& value, const std::string& path, const std::string& name) {
  require(value.is_number_unsigned(), path,
          "tensor \"{}\": shape and data_offsets hold non-negative integers", name);
  return value.get<std::uint64_t>();
}

// Offsets in the result are relative to the data area.
Entry parse_entry(const std::string& path, const std::string& name, const json& value) {
  require(name.size() <= kMaxName, path, "a tensor's name has {} bytes, at most {} are allowed", name.size(),
          kMaxName);
  const bool complete = value.is_object() && value.contains("dtype") && value["dtype"].is_string() &&
                        value.contains("shape") && value["shape"].is_array() &&
                        value.contains("data_offsets") && value["data_offsets"].is_array() &&
                        value["data_offsets"].size() == 2;
  require(complete, path, "tensor \"{}\" needs dtype, shape and data_offsets [begin, end]", name);
  Entry entry{.name = name, .dtype = value["dtype"].get<std::string>(), .extents = {}};
  const FileType* type = find_type(entry.dtype);
  require(type != nullptr, path, "tensor \"{}\" has the unknown dtype \"{}\"", name,
          shortened(entry.dtype, 40));
  require(value["shape"].size() <= kMaxRankInFile, path, "tensor \"{}\" has {} axes, at most {} are allowed",
          name, value["shape"].size(), kMaxRankInFile);
  std::uint64_t bits = 1;
  bool overflow = false;
  for (const json& extent : value["shape"]) {
    entry.extents.push_back(unsigned_at(extent, path, name));
    overflow |= __builtin_mul_overflow(bits, entry.extents.back(), &bits);
  }
  overflow |= __builtin_mul_overflow(bits, type->bits, &bits);
  require(!overflow, path, "the size of tensor \"{}\" overflows 64 bits", name);
  const std::uint64_t begin = unsigned_at(value["data_offsets"][0], path, name);
  const std::uint64_t end = unsigned_at(value["data_offsets"][1], path, name);
  require(begin <= end, path, "tensor \"{}\" ends at byte {}, before it begins at {}", name, end, begin);
  require(bits % 8 == 0 && bits / 8 == end - begin, path,
          "tensor \"{}\" has {} bytes by its offsets, {} bits by its shape", name, end - begin, bits);
  entry.offset = begin;
  entry.bytes = end - begin;
  return entry;
}

Metadata parse_metadata(const std::string& path, const json& value) {
  require(value.is_object(), path, "__metadata__ maps texts to texts");
  Metadata metadata;
  for (const auto& [key, text] : value.items()) {
    require(text.is_string(), path, "__metadata__ maps texts to texts, \"{}\" is {}", shortened(key, 200),
            text.type_name());
    metadata[key] = text.get<std::string>();
  }
  return metadata;
}

// Sorts the entries by offset; their spans must cover the data without gaps or overlaps.
void check_spans(const std::string& path, std::vector<Entry>& entries, std::uint64_t data_bytes) {
  std::ranges::sort(entries, [](const Entry& a, const Entry& b) {
    return std::pair(a.offset, a.offset + a.bytes) < std::pair(b.offset, b.offset + b.bytes);
  });
  std::uint64_t expected = 0;
  for (const Entry& entry : entries) {
    require(entry.offset == expected, path, "tensor \"{}\" begins at byte {} of the data, expected at {}: {}",
            entry.name, entry.offset, expected,
            entry.offset < expected ? "tensors overlap" : "there is a gap");
    expected += entry.bytes;
    require(expected <= data_bytes, path, "tensor \"{}\" ends at byte {} of the data, the file has {}",
            entry.name, expected, data_bytes);
  }
  require(expected == data_bytes, path, "the tensors take {} bytes, the file has {}", expected, data_bytes);
}

// The reference writer's order of dtypes: element sizes do not increase, so all tensors are aligned.
int write_rank(DType dtype) {
  constexpr DType order[] = {DType::i64,  DType::f64, DType::f32, DType::i32,
                             DType::bf16, DType::f16, DType::u8,  DType::boolean};
  return static_cast<int>(std::ranges::find(order, dtype) - std::begin(order));
}

// Header bytes of a file, and its tensors in the order of their bytes.
struct Layout {
  std::string head;
  std::vector<NamedTensor> tensors;
  std::uint64_t data_bytes = 0;
};

std::vector<NamedTensor> sorted_by_place(const std::string& path, const std::vector<NamedTensor>& tensors) {
  std::set<std::string_view> names;
  for (const auto& [name, tensor] : tensors) {
    require(!name.empty() && name.size() <= kMaxName && name != "__metadata__", path,
            "\"{}\" is no name for a tensor: 1 to {} bytes, not __metadata__", shortened(name, 200),
            kMaxName);
    require(names.insert(name).second, path, "two tensors are called \"{}\"", name);
    require(tensor.defined(), path, "tensor \"{}\" is absent", name);
  }
  std::vector<NamedTensor> sorted = tensors;
  std::ranges::sort(sorted, [](const NamedTensor& first, const NamedTensor& second) {
    return std::pair(write_rank(first.second.dtype()), std::string_view(first.first)) <
           std::pair(write_rank(second.second.dtype()), std::string_view(second.first));
  });
  return sorted;
}

Layout lay_out(const std::string& path, const std::vector<NamedTensor>& tensors, const Metadata& metadata) {
  Layout layout{.head = {}, .tensors = sorted_by_place(path, tensors)};
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  for (const auto& [name, tensor] : layout.tensors) {
    const std::span<const Index> extents = tensor.shape().extents();
    const std::uint64_t end = layout.data_bytes + tensor.bytes();
    header[name] = {{"dtype", file_dtype(tensor.dtype())},
                    {"shape", std::vector<Index>(extents.begin(), extents.end())},
                    {"data_offsets", {layout.data_bytes, end}}};
    layout.data_bytes = end;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const json::exception& error) {
    throw UserError(path, fmt::format("a name or the metadata is not UTF-8: {}", files::json_reason(error)));
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');
  require(text.size() <= kMaxHeader, path, "the header would have {} bytes, at most {} are allowed",
          text.size(), kMaxHeader);
  const std::uint64_t length = text.size();
  layout.head.assign(reinterpret_cast<const char*>(&length), sizeof length);
  layout.head += text;
  return layout;
}

Tensor on_host(const Tensor& tensor) {
  const Tensor host = tensor.to(Device{}).detach();
  if (tensor.device() != Device{}) backend_for(tensor.device()).synchronize();
  return host;
}

}  // namespace

const char* file_dtype(DType dtype) {
  constexpr const char* names[kDTypeCount] = {"F64", "F32", "F16", "BF16", "I64", "I32", "U8", "BOOL"};
  return names[static_cast<int>(dtype)];
}

File::File(const std::string& path) : path_(path), input_(path) { read_header(); }

void File::read_header() {
  const std::uint64_t size = input_.size();
  require(size >= 8, path_, "has {} bytes, a safetensors file has at least 8", size);
  std::uint64_t length = 0;
  input_.read(0, &length, sizeof length);
  require(length <= kMaxHeader, path_,
          "announces a header of {} bytes, at most {} are allowed; is it a safetensors file?", length,
          kMaxHeader);
  require(length <= size - 8, path_,
          "announces a header of {} bytes, only {} follow: truncated, or no safetensors file", length,
          size - 8);
  std::string text(length, '\0');
  input_.read(8, text.data(), length);
  require(!text.empty() && text[0] == '{', path_,
          "the header does not begin with \"{{\": no safetensors file");
  const json header = files::parse_json<json>(text, path_, "the header", kHeaderLimits);
  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__") {
      metadata_ = parse_metadata(path_, value);
    } else {
      entries_.push_back(parse_entry(path_, name, value));
    }
  }
  check_spans(path_, entries_, size - 8 - length);
  for (Entry& entry : entries_) entry.offset += 8 + length;
}

const Entry* File::find(std::string_view name) const {
  const auto found = std::ranges::find(entries_, name, &Entry::name);
  return found == entries_.end() ? nullptr : &*found;
}

Tensor File::read(const Entry& entry, MemoryKind kind) const {
  const FileType* type = find_type(entry.dtype);
  require(type && type->dtype, path_, "tensor \"{}\" has dtype {}, which has no counterpart here", entry.name,
          entry.dtype);
  require(entry.extents.size() <= kMaxRank, path_, "tensor \"{}\" has {} axes, at most {} can be read",
          entry.name, entry.extents.size(), kMaxRank);
  std::vector<Index> extents;
  for (std::uint64_t extent : entry.extents) {
    require(extent <= static_cast<std::uint64_t>(INT64_MAX), path_, "tensor \"{}\" has an extent of {}",
            entry.name, extent);
    extents.push_back(static_cast<Index>(extent));
  }
  const Tensor tensor = Tensor::empty(Shape(std::span<const Index>(extents)), {*type->dtype, {}, kind});
  ensure(tensor.bytes() == entry.bytes, path_, "tensor \"{}\": {} bytes in the file, {} in memory",
         entry.name, entry.bytes, tensor.bytes());
  input_.read(entry.offset, tensor.raw(), entry.bytes);
  if (type->dtype == DType::boolean) {  // the file may contain any byte
    auto* bytes = static_cast<unsigned char*>(tensor.raw());
    for (std::uint64_t i = 0; i < entry.bytes; ++i) bytes[i] = bytes[i] != 0;
  }
  return tensor;
}

Tensor File::read(std::string_view name) const {
  const Entry* entry = find(name);
  if (entry) return read(*entry);
  std::vector<std::string> names;
  for (const Entry& each : entries_) names.push_back(each.name);
  throw UserError(path_, fmt::format("contains no tensor \"{}\"{}", name, did_you_mean(name, names)));
}

void write(const std::string& path, const std::vector<NamedTensor>& tensors, const Metadata& metadata) {
  Layout layout = lay_out(path, tensors, metadata);
  std::vector<std::string_view> parts{layout.head};
  for (auto& [name, tensor] : layout.tensors) {
    tensor = on_host(tensor);
    parts.emplace_back(static_cast<const char*>(tensor.raw()), tensor.bytes());
  }
  files::write_atomically(path, parts);
}

void Image::take(const std::string& name, const std::vector<NamedTensor>& tensors, const Metadata& metadata) {
  const Layout layout = lay_out(name, tensors, metadata);
  size_ = layout.head.size() + layout.data_bytes;
  if (size_ > capacity_) {
    bytes_.reset();
    capacity_ = 0;
    bytes_ = std::make_unique_for_overwrite<char[]>(size_);
    capacity_ = size_;
  }
  char* to = bytes_.get();
  to = std::copy(layout.head.begin(), layout.head.end(), to);
  for (const auto& [each, tensor] : layout.tensors) {
    const Tensor host = on_host(tensor);
    if (host.bytes() > 0) std::memcpy(to, host.raw(), host.bytes());
    to += host.bytes();
  }
}

}  // namespace tandem::safetensors
