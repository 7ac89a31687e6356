// One data set as tools write it, in both formats, with common traps for readers: float coordinates, an empty
// difficult, no lists of images, a box that reaches the border; ids 0, a background category, spaces in
// names, areas of masks, folders in file names.
#include "data/boxes/box_registry.h"
#include "tests/data/boxes/support.h"

using namespace tandem;
using namespace tandem::test;

using datasets::BoxSplits;
using datasets::open_box_set;

namespace {

using Names = std::vector<std::string>;

std::string voc_of(const std::string& objects) { return voc_xml(objects, 500, 375); }

void write_tools_voc(const TempFolder& folder) {
  write_text(folder / "voc/Annotations/2011_000003.xml",
             voc_of(voc_object("person", "191.00000000000003", "107.22222222222223", "313.33333333333337",
                               "329.44444444444446", "<pose/><truncated/><difficult/>") +
                    voc_object("potted plant", "365.55555555555554", "0", "500", "374.5", "<difficult/>")));
  write_text(folder / "voc/Annotations/2011_000006.xml", voc_of(""));
  write_text(folder / "voc/class_names.txt", "_background_\nperson\npotted plant\n");
  for (const char* id : {"2011_000003", "2011_000006"})
    write_text(folder / "voc/JPEGImages" / (std::string(id) + ".jpg"), "pixels");
}

void write_tools_coco(const TempFolder& folder) {
  write_text(folder / "coco/annotations.json",
             R"({"info": {"version": null}, "type": "instances",
"images": [{"license": 0, "url": null, "file_name": "JPEGImages/2011_000003.jpg", "height": 375, "width": 500,
            "date_captured": null, "id": 0},
           {"file_name": "JPEGImages/2011_000006.jpg", "height": 375, "width": 500, "id": 1}],
"annotations": [
 {"id": 0, "image_id": 0, "category_id": 1, "segmentation": [[191.0, 107.2, 313.3, 329.4, 200, 329]],
  "area": 14200.0, "bbox": [191.0, 107.0, 123.0, 223.0], "iscrowd": 0},
 {"id": 1, "image_id": 0, "category_id": 2, "segmentation": [[365, 0, 500, 0, 500, 375]], "area": 47600,
  "bbox": [365.0, 0.0, 135.0, 375.0], "iscrowd": 0}],
"categories": [{"supercategory": null, "id": 0, "name": "_background_"},
               {"supercategory": null, "id": 1, "name": "person"},
               {"supercategory": null, "id": 2, "name": "potted plant"}]})");
  for (const char* id : {"2011_000003", "2011_000006"})
    write_text(folder / "coco/JPEGImages" / (std::string(id) + ".jpg"), "pixels");
}

}  // namespace

TEST_CASE("a set of VOC's form as tools write it", "[boxes]") {
  const TempFolder folder;
  write_tools_voc(folder);
  const BoxSplits splits = open_box_set("voc", {.path = (folder / "voc").string()},
                                        {{"train", Names{"."}}, {"test", Names{"."}}, {"one_based", false}});
  CHECK(splits.train.classes.names == Names{"background", "person", "potted plant"});
  REQUIRE(splits.train.images.size() == 2);
  CHECK(objects_text(splits.train.images[0]) ==
        "1:[191.00000000000003, 107.22222222222223, 313.33333333333337, 329.44444444444446] "
        "2:[365.55555555555554, 0, 500, 374.5]");
  CHECK(splits.train.images[1].objects.empty());
  CHECK(splits.train.tallies.clipped.count == 0);
}

TEST_CASE("its twin of COCO's form has the same labels", "[boxes]") {
  const TempFolder folder;
  write_tools_coco(folder);
  const options::Given split{{"annotations", "annotations.json"}, {"images", ""}};
  const BoxSplits splits =
      open_box_set("coco", {.path = (folder / "coco").string()}, {{"train", split}, {"test", split}});
  CHECK(splits.train.classes.names == Names{"background", "person", "potted plant"});
  REQUIRE(splits.train.images.size() == 2);
  CHECK(splits.train.images[0].id == 0);
  CHECK(splits.train.images[0].file == (folder / "coco/JPEGImages/2011_000003.jpg").string());
  CHECK(objects_text(splits.train.images[0]) == "1:[191, 107, 314, 330] 2:[365, 0, 500, 375]");
  CHECK(splits.train.images[0].objects[0].id == 0);
  CHECK(splits.train.images[0].objects[0].area == 14200);
  CHECK(splits.train.tallies.clipped.count == 0);
  CHECK(splits.notes.size() == 5);  // of two splits; the background, the annotation 0, images of both
}
