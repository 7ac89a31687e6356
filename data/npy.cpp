#include "data/npy.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "core/error.h"
#include "data/decorators.h"
#include "data/limits.h"

namespace tandem::datasets {

namespace {

struct Header {
  std::string descr;
  bool fortran_order = false;
  std::vector<Index> shape;
};

// Parser of the header, a Python dict literal, in the form that NumPy writes: string keys; values are a
// string, a boolean or a tuple of integers.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  Header parse() {
    Header header;
    bool has_descr = false, has_order = false, has_shape = false;
    expect('{');
    while (!accept('}')) {
      const std::string key = string();
      expect(':');
      if (key == "descr") {
        fail_if(has_descr, "repeats descr");
        fail_if(peek() == '[', "has fields (a structured dtype), expected one plain type");
        header.descr = string();
        has_descr = true;
      } else if (key == "fortran_order") {
        fail_if(has_order, "repeats fortran_order");
        header.fortran_order = boolean();
        has_order = true;
      } else if (key == "shape") {
        fail_if(has_shape, "repeats shape");
        header.shape = tuple();
        has_shape = true;
      } else {
        fail_if(true, "has an unknown key");
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    peek();
    fail_if(at_ < text_.size(), "goes on after the dictionary");
    fail_if(!has_descr || !has_order || !has_shape, "lacks descr, fortran_order or shape");
    return header;
  }

 private:
  void fail_if(bool wrong, const char* what) const {
    require(!wrong, file_, "the .npy header {} (at character {})", what, at_);
  }
  char peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool accept(char letter) {
    if (peek() != letter) return false;
    ++at_;
    return true;
  }
  void expect(char letter) {
    require(accept(letter), file_, "the .npy header is malformed: expected '{}' at character {}", letter,
            at_);
  }
  std::string string() {
    const char quote = peek();
    fail_if(quote != '\'' && quote != '"', "is malformed: expected a string");
    const std::size_t end = text_.find(quote, ++at_);
    fail_if(end == std::string_view::npos, "has a string without an end");
    const std::string result(text_.substr(at_, end - at_));
    at_ = end + 1;
    return result;
  }
  bool boolean() {
    peek();
    for (const std::string_view word : {"True", "False"}) {
      if (!text_.substr(at_).starts_with(word)) continue;
      at_ += word.size();
      return word == "True";
    }
    fail_if(true, "has a fortran_order that is neither True nor False");
    return false;
  }
  std::vector<Index> tuple() {
    std::vector<Index> extents;
    expect('(');
    while (!accept(')')) {
      fail_if(peek() < '0' || peek() > '9', "has an extent that is not a number");
      const std::size_t first = at_;
      Index extent = 0;
      while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
        fail_if(extent > (Index{1} << 48), "has an implausible extent");
        extent = extent * 10 + (text_[at_++] - '0');
      }
      fail_if(text_[first] == '0' && at_ > first + 1, "has an extent with a leading zero");
      fail_if(extents.size() == kMaxRank, "has more than 8 axes");
      extents.push_back(extent);
      if (!accept(',')) {
        expect(')');
        fail_if(extents.size() == 1, "has a number as shape, expected a tuple such as (3,)");
        break;
      }
    }
    return extents;
  }

  std::string_view text_;
  const std::string& file_;
  std::size_t at_ = 0;
};

Header read_header(ByteReader& reader) {
  std::array<std::uint8_t, 8> magic;
  reader.read(magic.data(), magic.size());
  require(std::memcmp(magic.data(), "\x93NUMPY", 6) == 0, reader.name(),
          "is not a .npy file: the magic is missing");
  const int version = magic[6];
  require(version >= 1 && version <= 3 && magic[7] == 0, reader.name(),
          "is .npy version {}.{}, expected 1.0, 2.0 or 3.0", magic[6], magic[7]);
  std::array<std::uint8_t, 4> size{};
  reader.read(size.data(), version == 1 ? 2 : 4);
  const std::size_t length =
      size[0] | std::size_t{size[1]} << 8 | std::size_t{size[2]} << 16 | std::size_t{size[3]} << 24;
  require(length <= kMaxNpyHeader, reader.name(), "the .npy header has {} bytes, the limit is {}", length,
          kMaxNpyHeader);
  std::string text(length, '\0');
  reader.read(text.data(), length);
  return HeaderParser(text, reader.name()).parse();
}

struct ElementType {
  char kind = 'u';  // b, i, u, f
  int bytes = 1;
  bool swap = false;
};

ElementType parse_descr(const std::string& descr, const std::string& file) {
  require(descr.find('O') == std::string::npos, file,
          "is an object array ({}), whose loading would run code; save plain numbers", descr);
  ElementType type;
  const char order = descr.empty() ? ' ' : descr[0];
  const auto one_of = [](std::string_view letters, char c) { return letters.find(c) != letters.npos; };
  const bool valid =
      descr.size() == 3 && one_of("<>|=", order) && one_of("biuf", descr[1]) && one_of("1248", descr[2]);
  require(valid, file, "has elements '{}', expected booleans, integers or floats of 1 to 8 bytes", descr);
  type.kind = descr[1];
  type.bytes = descr[2] - '0';
  type.swap = type.bytes > 1 && order == '>';
  require(type.kind != 'b' || type.bytes == 1, file, "has elements '{}', a boolean has one byte", descr);
  require(type.kind != 'f' || type.bytes >= 4, file,
          "has elements '{}', expected f4 or f8; save it as float32", descr);
  require(type.bytes == 1 || order != '|', file, "has elements '{}' without a byte order", descr);
  return type;
}

template <class Bits>
Bits swapped(Bits bits) {
  if constexpr (sizeof(Bits) == 2) return __builtin_bswap16(bits);
  if constexpr (sizeof(Bits) == 4) return __builtin_bswap32(bits);
  if constexpr (sizeof(Bits) == 8) return __builtin_bswap64(bits);
  return bits;
}

template <class From, class Bits, class To>
void convert_elements(const std::vector<std::byte>& raw, bool swap, To* to, const std::string& file) {
  for (std::size_t i = 0; i < raw.size() / sizeof(Bits); ++i) {
    Bits bits;
    std::memcpy(&bits, raw.data() + i * sizeof(Bits), sizeof(Bits));
    const From value = std::bit_cast<From>(swap ? swapped(bits) : bits);
    if constexpr (std::is_same_v<From, std::uint64_t>) {
      require(value < (std::uint64_t{1} << 63), file, "element {} is {}, which exceeds 63 bits", i, value);
    }
    to[i] = static_cast<To>(value);
  }
}

Tensor convert_integers(const std::vector<std::byte>& raw, ElementType type, const Shape& shape,
                        const std::string& file) {
  const Tensor result = Tensor::empty(shape, {.dtype = DType::i64, .kind = MemoryKind::data});
  std::int64_t* to = result.data<std::int64_t>();
  const bool is_signed = type.kind == 'i';
  switch (type.bytes) {
    case 1:
      convert_elements<std::int8_t, std::uint8_t>(raw, false, to, file);
      break;
    case 2:
      is_signed ? convert_elements<std::int16_t, std::uint16_t>(raw, type.swap, to, file)
                : convert_elements<std::uint16_t, std::uint16_t>(raw, type.swap, to, file);
      break;
    case 4:
      is_signed ? convert_elements<std::int32_t, std::uint32_t>(raw, type.swap, to, file)
                : convert_elements<std::uint32_t, std::uint32_t>(raw, type.swap, to, file);
      break;
    default:
      is_signed ? convert_elements<std::int64_t, std::uint64_t>(raw, type.swap, to, file)
                : convert_elements<std::uint64_t, std::uint64_t>(raw, type.swap, to, file);
  }
  return result;
}

// Converts column-major elements of `shape` to row-major order.
Tensor from_column_major(const Tensor& elements, const Shape& shape) {
  const Tensor result = Tensor::empty(shape, {.dtype = elements.dtype(), .kind = MemoryKind::data});
  const std::size_t bytes = size_of(elements.dtype());
  const auto* from = static_cast<const std::byte*>(elements.raw());
  auto* to = static_cast<std::byte*>(result.raw());
  std::array<Index, kMaxRank> position{}, stride{};
  Index step = 1;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    stride[axis] = step;
    step *= shape[axis];
  }
  for (Index i = 0; i < shape.numel(); ++i) {
    Index source = 0;
    for (int axis = 0; axis < shape.rank(); ++axis) source += position[axis] * stride[axis];
    std::memcpy(to + i * static_cast<Index>(bytes), from + source * static_cast<Index>(bytes), bytes);
    for (int axis = shape.rank() - 1; axis >= 0 && ++position[axis] == shape[axis]; --axis)
      position[axis] = 0;
  }
  return result;
}

Splits open_npy(const NpyOptions& own, const SetOptions& common) {
  require_path(common, "npy", "a .npz file, or a folder of .npy files");
  const ArraySplits arrays =
      read_array_splits(common.place(), {.name = "npy", .classes = own.classes}, own.layout);
  Splits splits{.train = arrays.train, .test = arrays.test, .validation = arrays.validation};
  if (!splits.test) {
    const auto train = std::dynamic_pointer_cast<const InMemoryDataset>(arrays.train);
    const SplitPair pair =
        split_by_class(train, train->labels().to_vector<std::int64_t>(), own.test_fraction, common.seed());
    splits.train = pair.first;
    splits.test = pair.second;
  }
  return splits;
}

}  // namespace

Tensor read_npy(ByteReader& reader) {
  const Header header = read_header(reader);
  const ElementType type = parse_descr(header.descr, reader.name());
  const std::size_t bytes = checked_bytes(header.shape, static_cast<std::size_t>(type.bytes), reader.name());
  reader.expect_payload(bytes);
  const Shape shape{std::span<const Index>(header.shape)};
  const bool as_stored = type.kind == 'b' || (type.bytes == 1 && type.kind == 'u') ||
                         (type.kind == 'f' && type.bytes == 4 && !type.swap);
  Tensor result;
  if (as_stored) {
    const DType dtype = type.kind == 'f' ? DType::f32 : DType::u8;
    result = Tensor::empty(shape, {.dtype = dtype, .kind = MemoryKind::data});
    reader.read(result.raw(), bytes);
  } else {
    std::vector<std::byte> raw(bytes);
    reader.read(raw.data(), bytes);
    if (type.kind == 'f') {
      result = Tensor::empty(shape, {.dtype = DType::f32, .kind = MemoryKind::data});
      type.bytes == 4
          ? convert_elements<float, std::uint32_t>(raw, type.swap, result.data<float>(), reader.name())
          : convert_elements<double, std::uint64_t>(raw, type.swap, result.data<float>(), reader.name());
    } else {
      result = convert_integers(raw, type, shape, reader.name());
    }
  }
  reader.expect_end();
  return header.fortran_order && shape.rank() > 1 && shape.numel() > 0 ? from_column_major(result, shape)
                                                                       : result;
}

std::shared_ptr<InMemoryDataset> dataset_of_arrays(const Tensor& images, const Tensor& labels,
                                                   DatasetInfo info, const std::string& source,
                                                   Layout layout) {
  require(images.rank() >= 2 && images.rank() <= 4, source,
          "images {} are not [N,D], [N,H,W], [N,H,W,C] or [N,C,H,W]", to_string(images.shape()));
  require(labels.dtype() != DType::f32, source, "labels {} are not integers", to_string(labels));
  const bool column = labels.rank() == 2 && labels.shape()[1] == 1;
  require(labels.rank() == 1 || column, source, "labels {} are not [N] or [N,1]", to_string(labels.shape()));
  const Tensor flat = labels.viewed({labels.numel()});
  Tensor wide = flat;
  if (flat.dtype() == DType::u8) {
    wide = Tensor::empty(flat.shape(), {.dtype = DType::i64, .kind = MemoryKind::data});
    std::copy_n(flat.data<std::uint8_t>(), flat.numel(), wide.data<std::int64_t>());
  }
  require_finite(images, source);
  const Tensor samples = images.dtype() == DType::i64 ? images : channels_last(images, layout, source);
  return std::make_shared<InMemoryDataset>(samples, wide, std::move(info), source);
}

LabelledRegistry::Entry npy_entry() {
  options::Describe<NpyOptions> keys;
  describe_test_fraction(keys);
  return LabelledRegistry::entry<NpyOptions>(
      "npy",
      "NumPy arrays: images [N,H,W,C], [N,H,W] or, with data.layout=nchw, [N,C,H,W], features [N,D], or "
      "indices (integers of more than 8 bits); and labels",
      describe_arrays(keys), open_npy);
}

}  // namespace tandem::datasets
