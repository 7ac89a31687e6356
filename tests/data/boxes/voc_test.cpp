// Sets in the form of VOC: lists, years, classes, boxes.
#include "data/boxes/voc.h"

#include "data/boxes/box_summary.h"
#include "data/boxes/voc_lists.h"
#include "tests/data/boxes/support.h"

using namespace tandem;
using namespace tandem::test;

using datasets::BoxClasses;
using datasets::BoxCorpus;
using datasets::read_voc;

namespace {

// VOC2007 with images 000005 (a cat), 000007 (none), 000009 (a dog and a difficult cat), VOC2012 with 2008_1
// (a cat).
class Devkit {
 public:
  Devkit() {
    annotate("VOC2007", "000005", voc_object("cat", "1", "2", "30", "40"));
    annotate("VOC2007", "000007", "");
    annotate("VOC2007", "000009",
             voc_object("dog", "2.5", "1", "100", "79.25", "<difficult/>") +
                 voc_object("cat", "11", "12", "13", "14", "<difficult>1</difficult>"));
    annotate("VOC2012", "2008_1", voc_object("cat", "5", "5", "6", "6"));
    list("VOC2007", "trainval", "000009\n000005\n\n000007\r\n");
    list("VOC2007", "test", "000007\n");
    list("VOC2012", "trainval", "2008_1\n");
  }
  void annotate(const std::string& year, const std::string& id, const std::string& objects) const {
    write_text(folder / year / "Annotations" / (id + ".xml"), voc_xml(objects));
    write_text(folder / year / "JPEGImages" / (id + ".jpg"), "pixels");
  }
  std::string list(const std::string& year, const std::string& name, const std::string& text) const {
    return write_text(folder / year / "ImageSets/Main" / (name + ".txt"), text);
  }
  BoxCorpus read(const std::vector<std::string>& splits, bool one_based = true,
                 BoxClasses classes = {}) const {
    return read_voc(folder.path(), splits, one_based, std::move(classes));
  }
  TempFolder folder;
};

std::string names(const BoxCorpus& corpus) {
  std::string text;
  for (const datasets::BoxImage& image : corpus.images) text += image.name + ";";
  return text;
}

}  // namespace

TEST_CASE("the images of a list in its order, with continuous boxes and classes by name", "[boxes]") {
  const Devkit kit;
  const BoxCorpus corpus = kit.read({"VOC2007/trainval"});
  CHECK(names(corpus) == "000009;000005;000007;");
  CHECK(corpus.classes.names == std::vector<std::string>{"background", "cat", "dog"});
  CHECK(objects_text(corpus.images[0]) == "2:[1.5, 0, 100, 79.25] 1:[10, 11, 13, 14]!");
  CHECK(objects_text(corpus.images[1]) == "1:[0, 1, 30, 40]");
  CHECK(corpus.images[1].objects[0].area == 30 * 39);
  CHECK(corpus.images[2].objects.empty());
  CHECK(corpus.images[0].id == 1);
  CHECK(corpus.images[2].id == 3);
  CHECK(corpus.images[0].objects[1].id == 2);
  CHECK(corpus.images[1].objects[0].id == 3);
  CHECK(corpus.images[1].file == (kit.folder / "VOC2007/JPEGImages/000005.jpg").string());
  CHECK(corpus.images[1].width == 100);
  CHECK(corpus.images[1].height == 80);
}

TEST_CASE("years are joined in their order", "[boxes]") {
  const Devkit kit;
  const BoxCorpus corpus = kit.read({"VOC2012/trainval", "VOC2007/trainval"});
  CHECK(names(corpus) == "2008_1;000009;000005;000007;");
  CHECK(corpus.images[1].id == 2);
  kit.list("VOC2007", "train", "000005\n");
  CHECK_FAILS(UserError, kit.read({"VOC2007/train", "VOC2007/trainval"}),
              "trainval.txt:2] 000005 is in " + (kit.folder / "VOC2007/ImageSets/Main/train.txt").string() +
                  ":1, too");
}

TEST_CASE("a list of one class has the images that the class is in", "[boxes]") {
  const Devkit kit;
  kit.list("VOC2007", "cat_trainval", "000005  1\n000007 -1\n000009  0\n");
  const BoxCorpus corpus = kit.read({"VOC2007/cat_trainval"});
  CHECK(names(corpus) == "000005;000009;");
  CHECK(corpus.tallies.unlisted.count == 1);
}

TEST_CASE("all annotated images without lists; the folder itself without years", "[boxes]") {
  const Devkit kit;
  CHECK(names(kit.read({"VOC2007"})) == "000005;000007;000009;");
  const std::filesystem::path year = kit.folder / "VOC2007";
  CHECK(names(read_voc(year, {"."}, true)) == "000005;000007;000009;");
  std::filesystem::rename(year / "Annotations", year / "Annotations2");
  CHECK_FAILS(UserError, read_voc(year, {"test"}, true),
              "test.txt:1] 000007 has no annotation: there is no ");
  std::filesystem::rename(year / "Annotations2", year / "Annotations");
  CHECK(names(read_voc(year, {"test"}, true)) == "000007;");
}

TEST_CASE("files that count from 0 are told by their key", "[boxes]") {
  const Devkit kit;
  kit.annotate("VOC2012", "2008_1",
               voc_object("cat", "0", "5", "6", "7") + voc_object("cat", "5", "0", "6", "7"));
  const BoxCorpus one = kit.read({"VOC2012/trainval"});
  CHECK(objects_text(one.images[0]) == "1:[0, 4, 6, 7] 1:[4, 0, 6, 7]");
  CHECK(one.tallies.clipped.count == 2);
  CHECK(one.tallies.at_zero.count == 2);
  CHECK(one.tallies.at_zero.first.find("object 1 (cat): xmin 0, ymin 5") != std::string::npos);
  CHECK(notes_of(one.tallies)[0].find("set data.one_based false") != std::string::npos);
  const BoxCorpus zero = kit.read({"VOC2012/trainval"}, false);
  CHECK(objects_text(zero.images[0]) == "1:[0, 5, 6, 7] 1:[5, 0, 6, 7]");
  CHECK(zero.tallies.clipped.count == 0);
  CHECK(zero.tallies.at_zero.count == 0);
}

TEST_CASE("boxes of one file are refused with file and object; a class must be known", "[boxes]") {
  const Devkit kit;
  kit.annotate("VOC2012", "2008_1",
               voc_object("cat", "5", "5", "6", "6") + voc_object("cat", "9", "5", "6", "6") +
                   voc_object("dog", "9", "nan", "12", "6"));
  CHECK_FAILS(UserError, kit.read({"VOC2012/trainval"}),
              "2008_1.xml] object 2 (cat): its box is -2 wide and 2 high; neither may be negative; 1 more is "
              "refused");
  kit.annotate("VOC2012", "2008_1", voc_object("cat", "9", "5", "8", "6"));
  CHECK(kit.read({"VOC2012/trainval"}).tallies.zero_area.count == 1);
  BoxClasses classes;
  classes.add("dog", 1);
  classes.add("cats", 2);
  CHECK_FAILS(UserError, kit.read({"VOC2012/trainval"}, true, classes),
              "2008_1.xml] object 1 (cat): its class is none of the 2: dog, cats; did you mean \"cats\"?");
}

TEST_CASE("the file of an image may be a PNG", "[boxes]") {
  const Devkit kit;
  std::filesystem::rename(kit.folder / "VOC2012/JPEGImages/2008_1.jpg",
                          kit.folder / "VOC2012/JPEGImages/2008_1.PNG");
  CHECK(kit.read({"VOC2012/trainval"}).images[0].file ==
        (kit.folder / "VOC2012/JPEGImages/2008_1.PNG").string());
}

TEST_CASE("errors of lists name the line", "[boxes]") {
  const Devkit kit;
  const auto read = [&](const std::string& text) {
    kit.list("VOC2007", "x", text);
    return kit.read({"VOC2007/x"});
  };
  CHECK_FAILS(UserError, read("000005\n000007 2\n"),
              "x.txt:2] \"000007 2\" is neither an id nor, for a list");
  CHECK_FAILS(UserError, read("a photo 1\n"), "x.txt:1] \"a photo 1\" is neither an id");
  CHECK_FAILS(UserError, read("000005\n000007\n000005\n"), "x.txt:3] 000005 is in line 1, too");
  CHECK_FAILS(UserError, read("000005\n../000007\n"), "x.txt:2] \"../000007\" is no valid file name");
  CHECK_FAILS(UserError, read("..\n"), "is no valid file name");
  CHECK_FAILS(UserError, read("\n \n"), "x.txt] lists no image");
  CHECK_FAILS(UserError, read("000005 -1\n"), "x.txt] lists no image");
  CHECK_FAILS(UserError, read("000004\n"), "x.txt:1] 000004 has no annotation: there is no ");
  CHECK_FAILS(UserError, kit.read({"VOC2007/val"}), "[splits] \"VOC2007/val\" is neither a list, ");
  CHECK_FAILS(UserError, kit.read({}), "[splits] names no split");
  std::filesystem::create_directories(kit.folder / "empty/Annotations");
  CHECK_FAILS(UserError, kit.read({"empty"}), "empty/Annotations] has no annotation");
}
