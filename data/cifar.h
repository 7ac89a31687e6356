// CIFAR-10 and CIFAR-100 in their binary version (https://www.cs.toronto.edu/~kriz/cifar.html): records of
// one label byte (CIFAR-100: coarse, then fine label) and 3,072 bytes, the red, green and blue planes of 32 ×
// 32 pixels.
#pragma once

#include <filesystem>
#include <vector>

#include "data/io/byte_reader.h"
#include "data/labelled_set.h"

namespace tandem::datasets {

enum class CifarKind { cifar10, cifar100 };

// Reads all records of the files in order, as u8 [N,32,32,3] with labels (CIFAR-100: the fine ones). Throws
// UserError when a size is no multiple of the record or a label is out of range.
std::shared_ptr<InMemoryDataset> read_cifar(CifarKind kind, const std::vector<std::filesystem::path>& files,
                                            DatasetInfo info);

// Reads one file of `bytes` bytes.
std::shared_ptr<InMemoryDataset> read_cifar(CifarKind kind, ByteReader& reader, std::size_t bytes,
                                            DatasetInfo info);

struct CifarFiles {
  std::vector<std::filesystem::path> train, test;
  std::vector<std::string>
      class_names;  // from batches.meta.txt or fine_label_names.txt, or the published ten
};

// Searches `folder`, then cifar-10-batches-bin or cifar-100-binary in it. Throws UserError that names missing
// files.
CifarFiles find_cifar_files(CifarKind kind, const std::filesystem::path& folder);

LabelledRegistry::Entry cifar_entry(CifarKind kind);

}  // namespace tandem::datasets
