// NumPy arrays: .npy versions 1 to 3 (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html)
// and .npz archives of them. Nothing is executed: object arrays are refused.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "data/io/byte_reader.h"
#include "data/labelled_set.h"

namespace tandem::datasets {

// A u8 array stays u8, a boolean one becomes u8, other integers become i64, f4 and f8 become f32. Both byte
// orders and both memory orders are read; the result is row-major. Throws UserError naming the file and the
// rule.
Tensor read_npy(ByteReader& reader);

struct NamedArray {
  std::string name;  // of the archive's member, without .npy
  Tensor array;
};

// The .npy members of a .npz file that `wanted` accepts by name, in the order of the archive.
std::vector<NamedArray> read_npz(const std::filesystem::path& path,
                                 const std::function<bool(const std::string&)>& wanted);

// The bytes of a .npz file with those arrays of f32, i64 or u8, uncompressed: the same for the same arrays.
// Throws UserError for another dtype.
std::string npz_file(const std::vector<NamedArray>& arrays);

// Arrays as samples: images [N,H,W], [N,H,W,C] (or [N,C,H,W], as `layout` says) or features [N,D] (u8 or
// f32), or indices [N,…] (i64: integers of more than 8 bits, or signed ones); labels [N] or [N,1] of
// integers.
std::shared_ptr<InMemoryDataset> dataset_of_arrays(const Tensor& images, const Tensor& labels,
                                                   DatasetInfo info, const std::string& source,
                                                   Layout layout = Layout::automatic);

struct ArraySplits {
  DatasetPtr train;
  DatasetPtr validation, test;  // absent when the files have none
};

// `path` is a .npz file, or a folder of .npy files. Arrays are found by name: for images x, images or data,
// for labels y, labels or targets, with train_, val_ (or valid_, validation_) and test_ before or after them
// ("x_train", "train_images"). Names without a split are the training split. A file with just arr_0 and arr_1
// is images and labels.
ArraySplits read_array_splits(const std::filesystem::path& path, const DatasetInfo& info,
                              Layout layout = Layout::automatic);

struct NpyOptions {
  double test_fraction = 0.2;  // of every class, where the files have no test split
  Index classes = 0;           // labels are below it; 0: the highest + 1
  Layout layout = Layout::automatic;
};
LabelledRegistry::Entry npy_entry();

}  // namespace tandem::datasets
