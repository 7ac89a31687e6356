#include "data/idx.h"

#include <algorithm>
#include <array>
#include <bit>

#include "core/error.h"
#include "data/limits.h"
#include "data/passed_over.h"
#include "files/input.h"
#include "files/not_there.h"

namespace tandem::datasets {

namespace {

std::uint32_t big_endian(const std::uint8_t* bytes) {
  return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 | std::uint32_t{bytes[2]} << 8 |
         bytes[3];
}

std::size_t element_size(std::uint8_t type) {
  switch (type) {
    case 0x08:
    case 0x09:
      return 1;
    case 0x0b:
      return 2;
    case 0x0c:
    case 0x0d:
      return 4;
    case 0x0e:
      return 8;
    default:
      return 0;
  }
}

// Decodes big-endian elements of the type From, stored in the unsigned type Bits.
template <class From, class Bits, class To>
void decode(const std::vector<std::uint8_t>& bytes, To* to) {
  for (std::size_t i = 0; i < bytes.size() / sizeof(Bits); ++i) {
    Bits bits = 0;
    for (std::size_t k = 0; k < sizeof(Bits); ++k) {
      bits = static_cast<Bits>(static_cast<std::uint64_t>(bits) << 8 | bytes[i * sizeof(Bits) + k]);
    }
    to[i] = static_cast<To>(std::bit_cast<From>(bits));
  }
}

Tensor read_multibyte(ByteReader& reader, std::uint8_t type, const Shape& shape, std::size_t bytes) {
  std::vector<std::uint8_t> raw(bytes);
  reader.read(raw.data(), raw.size());
  const bool floating = type >= 0x0d;
  const Tensor result =
      Tensor::empty(shape, {.dtype = floating ? DType::f32 : DType::i64, .kind = MemoryKind::data});
  switch (type) {
    case 0x09:
      decode<std::int8_t, std::uint8_t>(raw, result.data<std::int64_t>());
      break;
    case 0x0b:
      decode<std::int16_t, std::uint16_t>(raw, result.data<std::int64_t>());
      break;
    case 0x0c:
      decode<std::int32_t, std::uint32_t>(raw, result.data<std::int64_t>());
      break;
    case 0x0d:
      decode<float, std::uint32_t>(raw, result.data<float>());
      break;
    default:
      decode<double, std::uint64_t>(raw, result.data<float>());
      break;
  }
  return result;
}

// The file of `folder` whose name contains one of `stems` and "idx".
std::filesystem::path find_file(const std::vector<std::filesystem::directory_entry>& files,
                                std::initializer_list<std::string_view> stems) {
  for (const std::string_view stem : stems) {
    for (const auto& file : files) {
      const std::string name = file.path().filename().string();
      if (is_foreign(file.path())) continue;
      const std::size_t at = name.find(stem);
      if (at == std::string::npos) continue;
      const std::string_view rest = std::string_view(name).substr(at + stem.size());
      if ((rest.starts_with("-idx") || rest.starts_with(".idx")) &&
          rest.find("ubyte") != std::string_view::npos) {
        return file.path();
      }
    }
  }
  return {};
}

IdxFiles files_of(const IdxOptions& own, const SetOptions& common) {
  struct Named {
    const std::optional<std::string>& given;
    std::string_view key;
    std::filesystem::path* file;
  };
  IdxFiles files;
  const std::array<Named, 4> named{{{own.train_images, "data.train_images", &files.train.images},
                                    {own.train_labels, "data.train_labels", &files.train.labels},
                                    {own.test_images, "data.test_images", &files.test.images},
                                    {own.test_labels, "data.test_labels", &files.test.labels}}};
  const auto is_given = [](const Named& file) { return file.given && !file.given->empty(); };
  const auto given = std::ranges::count_if(named, is_given);
  if (given == 0) {
    require_path(common, "idx", "the folder of train-images-idx3-ubyte and its three companions");
    return find_idx_files(common.place(),
                          "; other names can be given as data.train_images, data.train_labels, "
                          "data.test_images and data.test_labels");
  }
  require(given == 4, "data",
          "{} of train_images, train_labels, test_images and test_labels are given, expected none or all",
          given);
  for (const Named& file : named) {
    *file.file = common.place() / *file.given;
    require(std::filesystem::exists(*file.file), file.key, "{}: there is no such file", file.file->string());
  }
  return files;
}

Splits open_idx(const IdxOptions& own, const SetOptions& common) {
  const IdxFiles files = files_of(own, common);
  const auto train = read_idx_dataset(files.train, {.name = "idx", .classes = own.classes}, own.layout);
  train->set_statistics(statistics_of(*train));
  const auto test = read_idx_dataset(files.test, train->info(), own.layout);
  require(test->info().sample_shape == train->info().sample_shape, files.test.images.string(),
          "has images of shape {}, the training split of {}", to_string(test->info().sample_shape),
          to_string(train->info().sample_shape));
  return {.train = train, .test = test, .validation = {}};
}

}  // namespace

Tensor read_idx(ByteReader& reader) {
  std::array<std::uint8_t, 4> magic;
  reader.read(magic.data(), magic.size());
  require(magic[0] == 0 && magic[1] == 0 && element_size(magic[2]) > 0, reader.name(),
          "is not an IDX file: it starts with {:02x} {:02x} {:02x} {:02x}, expected 00 00, a type (08 to 0e) "
          "and the rank",
          magic[0], magic[1], magic[2], magic[3]);
  const int rank = magic[3];
  require(rank >= 1 && rank <= kMaxRank, reader.name(), "has rank {}, expected 1 to {}", rank, kMaxRank);
  std::array<std::uint8_t, 4 * kMaxRank> words;
  reader.read(words.data(), 4 * static_cast<std::size_t>(rank));
  std::vector<Index> extents(rank);
  for (int i = 0; i < rank; ++i) extents[i] = big_endian(words.data() + 4 * i);
  const std::size_t bytes = checked_bytes(extents, element_size(magic[2]), reader.name());
  reader.expect_payload(bytes);

  const Shape shape{std::span<const Index>(extents)};
  Tensor result;
  if (magic[2] == 0x08) {
    result = Tensor::empty(shape, {.dtype = DType::u8, .kind = MemoryKind::data});
    reader.read(result.raw(), bytes);
  } else {
    result = read_multibyte(reader, magic[2], shape, bytes);
  }
  reader.expect_end();
  return result;
}

std::shared_ptr<InMemoryDataset> read_idx_dataset(const IdxPair& files, DatasetInfo info, Layout layout) {
  const auto images_reader = open_file(files.images);
  const auto labels_reader = open_file(files.labels);
  // Reads the short file first, so that a wrong one is noticed before the long one is read.
  const Tensor raw_labels = read_idx(*labels_reader);
  require(raw_labels.rank() == 1 && raw_labels.dtype() != DType::f32, files.labels.string(),
          "holds {}, expected integer labels of rank 1", to_string(raw_labels));
  const Tensor images = read_idx(*images_reader);
  require(images.rank() == 3 || images.rank() == 4, files.images.string(),
          "holds {}, expected images of rank 3 or 4", to_string(images));
  require(images.dtype() != DType::i64, files.images.string(),
          "holds {}, expected u8 or floating-point images", to_string(images));
  require(images.shape()[0] == raw_labels.shape()[0], files.images.string(),
          "has {} images, but {} has {} labels", images.shape()[0], files.labels.string(),
          raw_labels.shape()[0]);
  const Tensor labels = Tensor::empty(raw_labels.shape(), {.dtype = DType::i64, .kind = MemoryKind::data});
  std::int64_t* to = labels.data<std::int64_t>();
  if (raw_labels.dtype() == DType::u8) {
    std::copy_n(raw_labels.data<std::uint8_t>(), labels.numel(), to);
  } else {
    std::copy_n(raw_labels.data<std::int64_t>(), labels.numel(), to);
  }
  require_finite(images, files.images.string());
  return std::make_shared<InMemoryDataset>(channels_last(images, layout, files.images.string()), labels,
                                           std::move(info), files.labels.string());
}

IdxFiles find_idx_files(const std::filesystem::path& folder, std::string_view advice) {
  constexpr auto kExpected = "{}, expected train-images-idx3-ubyte.gz and its three companions in it{}";
  const files::Kind kind = files::kind_of(folder);
  files::require_there(kind != files::Kind::absent, folder.string(), kExpected, files::no_folder(folder),
                       advice);
  require(kind == files::Kind::folder, folder.string(), kExpected, files::no_folder(folder), advice);
  const std::vector<std::filesystem::directory_entry> entries = files::entries_of(folder);
  const IdxFiles found{{find_file(entries, {"train-images"}), find_file(entries, {"train-labels"})},
                       {find_file(entries, {"t10k-images", "test-images"}),
                        find_file(entries, {"t10k-labels", "test-labels"})}};
  const auto check = [&](const std::filesystem::path& file, std::string_view expected) {
    require(!file.empty(), folder.string(), "has no {} (with or without .gz){}", expected, advice);
  };
  check(found.train.images, "train-images-idx3-ubyte");
  check(found.train.labels, "train-labels-idx1-ubyte");
  check(found.test.images, "t10k-images-idx3-ubyte");
  check(found.test.labels, "t10k-labels-idx1-ubyte");
  return found;
}

LabelledRegistry::Entry idx_entry() {
  options::Describe<IdxOptions> keys;
  describe_arrays(keys);
  const std::string help =
      "path of the file relative to data.path, if it is not named as MNIST's; all four or none";
  keys.key("train_images", &IdxOptions::train_images, help)
      .key("train_labels", &IdxOptions::train_labels, help)
      .key("test_images", &IdxOptions::test_images, help)
      .key("test_labels", &IdxOptions::test_labels, help);
  return LabelledRegistry::entry<IdxOptions>(
      "idx", "images and labels in IDX files, plain or .gz, named as MNIST's", keys, open_idx);
}

}  // namespace tandem::datasets
