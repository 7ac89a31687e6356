#include "data/cifar.h"

#include "core/error.h"
#include "files/input.h"
#include "files/not_there.h"

namespace tandem::datasets {

namespace {

constexpr Index kSide = 32;
constexpr Index kPlane = kSide * kSide;
constexpr std::size_t kPixels = 3 * kPlane;

constexpr std::size_t label_bytes(CifarKind kind) { return kind == CifarKind::cifar10 ? 1 : 2; }
constexpr Index class_count(CifarKind kind) { return kind == CifarKind::cifar10 ? 10 : 100; }
constexpr std::size_t record_bytes(CifarKind kind) { return label_bytes(kind) + kPixels; }

Index record_count(CifarKind kind, std::size_t bytes, const std::string& name) {
  const std::size_t record = record_bytes(kind);
  require(bytes > 0 && bytes % record == 0, name,
          "has {} bytes, expected a positive multiple of {}, the record of {}", bytes, record,
          kind == CifarKind::cifar10 ? "CIFAR-10" : "CIFAR-100");
  return static_cast<Index>(bytes / record);
}

struct Arrays {
  Tensor images, labels;
  explicit Arrays(Index count)
      : images(Tensor::empty({count, kSide, kSide, 3}, {.dtype = DType::u8, .kind = MemoryKind::data})),
        labels(Tensor::empty({count}, {.dtype = DType::i64, .kind = MemoryKind::data})) {}
};

void read_records(CifarKind kind, ByteReader& reader, Index first, Index count, const Arrays& arrays) {
  std::vector<std::uint8_t> record(record_bytes(kind));
  for (Index i = first; i < first + count; ++i) {
    reader.read(record.data(), record.size());
    const std::uint8_t label = record[label_bytes(kind) - 1];
    require(label < class_count(kind), reader.name(),
            "label {} of record {} is out of range, there are {} classes", label, i - first,
            class_count(kind));
    arrays.labels.data<std::int64_t>()[i] = label;
    const std::uint8_t* planes = record.data() + label_bytes(kind);
    std::uint8_t* pixels = arrays.images.data<std::uint8_t>() + i * static_cast<Index>(kPixels);
    for (Index p = 0; p < kPlane; ++p) {
      for (Index c = 0; c < 3; ++c) pixels[3 * p + c] = planes[c * kPlane + p];
    }
  }
  reader.expect_end();
}

struct CifarOptions {};

}  // namespace

std::shared_ptr<InMemoryDataset> read_cifar(CifarKind kind, ByteReader& reader, std::size_t bytes,
                                            DatasetInfo info) {
  const Index count = record_count(kind, bytes, reader.name());
  const Arrays arrays(count);
  read_records(kind, reader, 0, count, arrays);
  info.classes = class_count(kind);
  return std::make_shared<InMemoryDataset>(arrays.images, arrays.labels, std::move(info), reader.name());
}

std::shared_ptr<InMemoryDataset> read_cifar(CifarKind kind, const std::vector<std::filesystem::path>& files,
                                            DatasetInfo info) {
  std::vector<Index> counts;
  Index total = 0;
  for (const auto& file : files) {
    counts.push_back(record_count(kind, files::InputFile(file).size(), file.string()));
    total += counts.back();
  }
  const Arrays arrays(total);
  Index first = 0;
  for (std::size_t i = 0; i < files.size(); ++i) {
    read_records(kind, *open_file(files[i]), first, counts[i], arrays);
    first += counts[i];
  }
  info.classes = class_count(kind);
  return std::make_shared<InMemoryDataset>(arrays.images, arrays.labels, std::move(info),
                                           files.empty() ? "cifar" : files.front().string());
}

CifarFiles find_cifar_files(CifarKind kind, const std::filesystem::path& path) {
  const bool ten = kind == CifarKind::cifar10;
  std::filesystem::path folder = path;
  files::require_there(files::kind_of(path) != files::Kind::absent, path.string(),
                       "{}, expected that of the unpacked {}", files::no_folder(path),
                       ten ? "cifar-10-binary.tar.gz" : "cifar-100-binary.tar.gz");
  const auto below = path / (ten ? "cifar-10-batches-bin" : "cifar-100-binary");
  if (files::kind_of(below) == files::Kind::folder) folder = below;
  CifarFiles files;
  if (ten) {
    for (int i = 1; i <= 5; ++i) files.train.push_back(folder / ("data_batch_" + std::to_string(i) + ".bin"));
    files.test = {folder / "test_batch.bin"};
  } else {
    files.train = {folder / "train.bin"};
    files.test = {folder / "test.bin"};
  }
  for (const auto* list : {&files.train, &files.test}) {
    for (const auto& file : *list) {
      require(files::kind_of(file) != files::Kind::absent, folder.string(),
              "has no {}; data.path must name the folder of the unpacked {}", file.filename().string(),
              ten ? "cifar-10-binary.tar.gz" : "cifar-100-binary.tar.gz");
    }
  }
  files.class_names = read_lines(folder / (ten ? "batches.meta.txt" : "fine_label_names.txt"));
  if (static_cast<Index>(files.class_names.size()) != class_count(kind)) {
    files.class_names.clear();
    if (ten)
      files.class_names = {"airplane", "automobile", "bird",  "cat",  "deer",
                           "dog",      "frog",       "horse", "ship", "truck"};
  }
  return files;
}

LabelledRegistry::Entry cifar_entry(CifarKind kind) {
  const bool ten = kind == CifarKind::cifar10;
  const std::string name = ten ? "cifar10" : "cifar100";
  const ChannelStatistics statistics =
      ten ? ChannelStatistics{{0.4914F, 0.4822F, 0.4465F}, {0.2470F, 0.2435F, 0.2616F}}
          : ChannelStatistics{{0.5071F, 0.4865F, 0.4409F}, {0.2673F, 0.2564F, 0.2762F}};
  return LabelledRegistry::entry<CifarOptions>(
      name, fmt::format("50,000 + 10,000 photographs, 32x32, {} classes (binary version)", class_count(kind)),
      options::Describe<CifarOptions>(),
      [kind, name, statistics](const CifarOptions&, const SetOptions& common) {
        require_path(common, name, "the folder of the unpacked binary version");
        CifarFiles files = find_cifar_files(kind, common.place());
        const DatasetInfo info{
            .name = name, .class_names = std::move(files.class_names), .statistics = statistics};
        return Splits{.train = read_cifar(kind, files.train, info),
                      .test = read_cifar(kind, files.test, info),
                      .validation = {}};
      });
}

}  // namespace tandem::datasets
