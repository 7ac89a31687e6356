// NumPy arrays: .npy versions 1 to 3 (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html)
// and .npz archives of them. Object arrays, whose loading would run code, are refused.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "data/io/byte_reader.h"
#include "data/labelled_set.h"

namespace tandem::datasets {

// u8 stays u8, booleans become u8, other integers i64, f4 and f8 become f32. Reads both byte orders and both
// memory orders; the result is row-major. Throws UserError that names the file and the rule.
Tensor read_npy(ByteReader& reader);

struct NamedArray {
  std::string name;  // of the archive member, without .npy
  Tensor array;
};

// The .npy members of a .npz file whose names `wanted` accepts, in the order of the archive.
std::vector<NamedArray> read_npz(const std::filesystem::path& path,
                                 const std::function<bool(const std::string&)>& wanted);

// The bytes of an uncompressed .npz file with arrays of f32, i64 or u8; deterministic. Throws UserError for
// another dtype.
std::string npz_file(const std::vector<NamedArray>& arrays);

// Arrays as samples: images [N,H,W], [N,H,W,C] or, by `layout`, [N,C,H,W]; features [N,D] (u8 or f32); or
// indices [N,…] (i64: signed integers, or of more than 8 bits). Labels are integers [N] or [N,1].
std::shared_ptr<InMemoryDataset> dataset_of_arrays(const Tensor& images, const Tensor& labels,
                                                   DatasetInfo info, const std::string& source,
                                                   Layout layout = Layout::automatic);

struct ArraySplits {
  DatasetPtr train;
  DatasetPtr validation, test;  // absent if the files have none
};

// `path` is a .npz file or a folder of .npy files. Arrays are found by name: x, images or data; y, labels or
// targets; with train_, val_ (or valid_, validation_) or test_ as prefix or suffix ("x_train",
// "train_images"). Names without a split belong to the training split. A file with only arr_0 and arr_1 holds
// images and labels.
ArraySplits read_array_splits(const std::filesystem::path& path, const DatasetInfo& info,
                              Layout layout = Layout::automatic);

struct NpyOptions {
  double test_fraction = 0.2;  // of each class, if the files have no test split
  Index classes = 0;           // 0: the highest label + 1
  Layout layout = Layout::automatic;
};
LabelledRegistry::Entry npy_entry();

}  // namespace tandem::datasets
