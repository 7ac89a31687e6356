// IDX, the format of MNIST and its successors, plain or gzip-compressed (http://yann.lecun.com/exdb/mnist/):
// bytes 00 00, an element type, the rank, big-endian 32-bit extents, then the elements.
#pragma once

#include <filesystem>

#include "data/io/byte_reader.h"
#include "data/labelled_set.h"

namespace tandem::datasets {

// Reads any IDX array of rank 1 to 8. Types: 08 u8 → u8; 09 i8, 0B i16, 0C i32 → i64; 0D f32, 0E f64 → f32.
// Throws UserError that names the file and the rule: magic, type, rank, or size against the file.
Tensor read_idx(ByteReader& reader);

struct IdxPair {
  std::filesystem::path images, labels;
};

// Images [N,H,W], [N,H,W,C] or, by `layout`, [N,C,H,W], with labels [N].
std::shared_ptr<InMemoryDataset> read_idx_dataset(const IdxPair& files, DatasetInfo info,
                                                  Layout layout = Layout::automatic);

struct IdxFiles {
  IdxPair train, test;
};

// Files of a folder with MNIST's names: (train|t10k|test)-(images|labels), then -idx<rank>-ubyte or
// .idx<rank>-ubyte, optionally .gz, and an optional prefix such as "emnist-letters-". Throws UserError that
// names the missing file, followed by `advice`.
IdxFiles find_idx_files(const std::filesystem::path& folder, std::string_view advice);

struct IdxOptions {
  Index classes = 0;  // 0: the highest label + 1
  Layout layout = Layout::automatic;
  // Files with other names, relative to the path; all four or none.
  std::optional<std::string> train_images{}, train_labels{}, test_images{}, test_labels{};
};
LabelledRegistry::Entry idx_entry();

}  // namespace tandem::datasets
