// Labels reordered to another list of the same classes.
#include "data/class_order.h"

#include <catch2/catch.hpp>

#include "data/boxes/box_dataset.h"
#include "data/masked_sets.h"
#include "data/relabelled.h"
#include "tests/data/files.h"

using namespace tandem;
using namespace tandem::datasets;
using namespace tandem::datasets::testing;

namespace {

using Names = std::vector<std::string>;
using Order = std::vector<Index>;

// A picture of 2x1 pixels.
std::string picture(const TempFolder& folder, const std::string& name) {
  write_file(folder / name, png_bytes({.width = 2}, {1, 2, 3, 4, 5, 6}));
  return (folder / name).string();
}

}  // namespace

TEST_CASE("the same names in another order have a place each", "[class_order]") {
  CHECK(class_order({"cat", "dog", "ant"}, {"ant", "cat", "dog"}) == Order{2, 0, 1});
  CHECK(in_order(Names{"ant", "cat", "dog"}, Order{2, 0, 1}) == Names{"cat", "dog", "ant"});
  CHECK_FALSE(class_order({"cat", "dog"}, {"cat", "dog"}));
  CHECK_FALSE(class_order({"cat", "dog"}, {"dog", "cow"}));
  CHECK_FALSE(class_order({"cat", "dog"}, {"dog", "cat", "ant"}));
  CHECK_FALSE(class_order({}, {}));
  // Nothing says which of two is meant.
  CHECK_FALSE(class_order({"cat", "cat", "dog"}, {"cat", "dog", "cat"}));
  // Labels that no class has.
  CHECK(class_order({"background", "", "a", "", "b"}, {"background", "b", "", "", "a"}) ==
        Order{0, 4, 1, 3, 2});
}

TEST_CASE("labels follow an order", "[class_order]") {
  const auto source = std::make_shared<InMemoryDataset>(
      Tensor::from(Bytes{1, 2, 3, 4}, {4, 1, 1}), Tensor::from(std::vector<std::int64_t>{2, 0, 1, 2}, {4}),
      DatasetInfo{.name = "three", .classes = 3, .class_names = {"ant", "cat", "dog"}}, "test");
  const Relabelled set(source, {2, 0, 1});
  CHECK(set.info().class_names == Names{"cat", "dog", "ant"});
  for (Index i = 0; i < 4; ++i) {
    const Sample before = source->get(i), after = set.get(i);
    CHECK(set.info().class_names.at(static_cast<std::size_t>(after.label)) ==
          source->info().class_names.at(static_cast<std::size_t>(before.label)));
    CHECK(after.image.to_vector<int>() == before.image.to_vector<int>());
  }
  CHECK_THROWS_AS(Relabelled(source, {1, 0}), InternalError);
}

TEST_CASE("pixels of masks follow an order, and those that count for nothing stay", "[class_order]") {
  const TempFolder folder;
  for (const char* split : {"train", "test"}) {
    picture(folder, std::string(split) + "/images/a.png");
    write_file(folder / split / "masks/a.png", png_bytes({.width = 2, .color_type = 0}, {7, 9}));
  }
  const Splits splits = open_masked_set("masks", {.path = folder.path().string()},
                                        {{"values", Order{3, 9}}, {"ignore_index", 7}});
  CHECK(splits.train->info().class_values == Order{3, 9});
  CHECK(splits.train->get(0).mask.to_vector<int>() == std::vector{255, 1});
  const Relabelled set(splits.train, {1, 0});
  CHECK(set.info().class_values == Order{9, 3});
  CHECK(set.get(0).mask.to_vector<int>() == std::vector{255, 0});
  CHECK(splits.train->get(0).mask.to_vector<int>() == std::vector{255, 1});
}

TEST_CASE("boxes, and the corpus that they are of, follow an order", "[class_order]") {
  const TempFolder folder;
  BoxCorpus corpus{.where = "test", .classes = {}, .images = {}, .tallies = {}};
  corpus.classes.add("ant", 4);
  corpus.classes.add("cat", 6);
  corpus.images.push_back(
      {.file = picture(folder, "a.png"),
       .name = "a",
       .id = 1,
       .width = 2,
       .height = 1,
       .objects = {{.box = {0, 0, 1, 1}, .label = 2, .id = 1}, {.box = {0, 0, 2, 1}, .label = 1, .id = 2}}});
  const auto source = std::make_shared<BoxDataset>("test", corpus, 3, 2, ImageReading());
  const Relabelled set(source, {0, 2, 1});
  CHECK(set.info().class_names == Names{"background", "cat", "ant"});
  const Sample sample = set.get(0);
  CHECK(sample.objects[0].label == 1);
  CHECK(sample.objects[1].label == 2);
  REQUIRE(set.box_corpus());
  CHECK(set.box_corpus()->images[0].objects == sample.objects);
  CHECK(set.box_corpus()->classes.names == set.info().class_names);
  CHECK(set.box_corpus()->classes.ids == std::vector<std::int64_t>{0, 6, 4});
  CHECK(source->box_corpus()->images[0].objects[0].label == 2);
  CHECK_THROWS_AS(Relabelled(source, {1, 0, 2}), InternalError);  // the background stays
}
