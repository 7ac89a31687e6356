// Files in data folders that are ignored.
#include "data/passed_over.h"

#include <catch2/catch.hpp>

#include "data/boxes/voc_lists.h"
#include "data/idx.h"
#include "data/image_file.h"
#include "data/masked_sets.h"
#include "data/registry.h"
#include "tests/data/files.h"

using namespace tandem;
using namespace tandem::datasets;
using namespace tandem::datasets::testing;
using Catch::Contains;

namespace {

const Bytes kImage = png_bytes({.width = 4, .height = 4, .color_type = 0}, Bytes(16, 1));

void add(const fs::path& file) { write_file(file, kImage); }

}  // namespace

TEST_CASE("hidden and foreign files are no samples, and are counted", "[image_folder]") {
  const TempFolder folder;
  for (const char* name : {"train/cat/0.png", "train/dog/0.png", "test/cat/0.png"}) add(folder / name);
  for (const char* name :
       {"train/cat/._0.png", "train/cat/.ipynb_checkpoints/0-checkpoint.png", "train/cat/.thumbnails/0.png",
        "train/dog/@eaDir/0.png", "train/__MACOSX/cat/._0.png", "train/.ipynb_checkpoints/0.png",
        "test/cat/.0.png", "test/@eaDir/0.png"})
    add(folder / name);
  write_file(folder / "train/cat/Thumbs.db", {1});
  const Splits splits = open_dataset("image_folder", {.path = folder.path()});
  CHECK(splits.train->size() == 2);
  CHECK(splits.test->size() == 1);
  CHECK(splits.train->info().class_names == std::vector<std::string>{"cat", "dog"});
  REQUIRE(splits.notes.size() == 2);
  CHECK_THAT(splits.notes[0], Contains("8 hidden or foreign files and folders are ignored, the first: "));
  CHECK_THAT(splits.notes[1],
             Contains("one file that is no .jpg, .jpeg or .png is ignored: ") && Contains("Thumbs.db"));
}

TEST_CASE("masks and lists of annotations have no hidden files either", "[image_folder]") {
  const TempFolder folder;
  for (const char* name : {"images/0.png", "images/1.png", "images/._0.png", "images/.thumbnails/1.png",
                           "masks/0.png", "masks/1.png"})
    add(folder / name);
  const Splits splits = open_masked_set("masks", {.path = folder.path()}, {{"classes", Index{2}}});
  CHECK(splits.train->size() + splits.test->size() == 2);
  REQUIRE(splits.notes.size() == 1);
  CHECK_THAT(splits.notes[0], Contains("2 hidden or foreign files and folders"));
  for (const char* name : {"voc/Annotations/a.xml", "voc/Annotations/._a.xml"})
    write_file(folder / name, {'x'});
  const VocList list = voc_list(folder.path(), "voc", "data.train");
  REQUIRE(list.ids.size() == 1);
  CHECK(list.ids[0].id == "a");
  CHECK(list.foreign.size() == 1);
}

TEST_CASE("a Mac's companion of an IDX file is not read in its place", "[idx]") {
  const TempFolder folder;
  for (const char* name : {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
                           "t10k-labels-idx1-ubyte"}) {
    write_file(folder / name, {0});
    write_file(folder / (std::string("._") + name), {1});
  }
  CHECK(find_idx_files(folder.path(), "").train.images.filename() == "train-images-idx3-ubyte");
}

TEST_CASE("linked folders are looked through once, whatever circle they lead in", "[image_folder]") {
  const TempFolder folder, elsewhere;
  add(elsewhere / "far.png");
  add(folder / "a/0.png");
  add(folder / "b/1.png");
  fs::create_directory_symlink(elsewhere.path(), folder / "a/elsewhere");
  fs::create_directory_symlink(folder.path(), folder / "a/above");
  fs::create_directory_symlink(folder / "a", folder / "b/beside");
  PassedOver passed_over;
  std::vector<std::string> names;
  for (const fs::path& file : image_files_below(folder.path(), true, &passed_over))
    names.push_back(file.filename().string());
  CHECK(names == std::vector<std::string>{"0.png", "far.png", "1.png"});
  CHECK(passed_over.repeated.count == 2);
}
