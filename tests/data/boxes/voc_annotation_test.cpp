// Annotation files of VOC.
#include "data/boxes/voc_annotation.h"

#include "tests/data/boxes/support.h"

using namespace tandem;
using namespace tandem::test;

using datasets::parse_voc_annotation;
using datasets::VocAnnotation;

namespace {

VocAnnotation parse(const std::string& xml) { return parse_voc_annotation(xml, "a.xml"); }
VocAnnotation with(const std::string& objects) { return parse(voc_xml(objects)); }

}  // namespace

TEST_CASE("objects right below the annotation, with parts and actions of their own", "[boxes]") {
  const VocAnnotation read = parse(
      "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<!DOCTYPE annotation [<!ENTITY e \"x\">]>\n<annotation>\n"
      " <segmented>1</segmented><size><depth>3</depth><height>375</height><width>500</width></size>\n"
      " <object><actions><jumping>1</jumping><name>jump</name></actions>"
      "<part><name>head</name><bndbox><xmin>1</xmin><ymin>2</ymin><xmax>3</xmax><ymax>4</ymax></bndbox></"
      "part>"
      "<name> person\n</name><difficult>1</difficult>"
      "<bndbox><xmax>45.70000076293945</xmax><xmin>5</xmin><ymax>20</ymax><ymin>-1e0</ymin></bndbox></"
      "object>\n"
      " <other>" +
      voc_object("bird", "1", "2", "3", "4") + "</other>" +
      voc_object("potted plant", "1", "2", "3", "4", "<difficult/>") +
      voc_object("\xC3\xA9léphant &amp; co", "1", "2", "3", "4", "<difficult> 0 </difficult>") +
      "</annotation>");
  CHECK(read.width == 500);
  CHECK(read.height == 375);
  REQUIRE(read.objects.size() == 3);
  CHECK(read.objects[0].name == "person");
  CHECK(read.objects[0].difficult);
  CHECK(read.objects[0].xmin == 5);
  CHECK(read.objects[0].ymin == -1);
  CHECK(read.objects[0].xmax == 45.70000076293945);
  CHECK(read.objects[0].ymax == 20);
  CHECK(read.objects[1].name == "potted plant");
  CHECK_FALSE(read.objects[1].difficult);
  CHECK(read.objects[2].name == "\xC3\xA9léphant & co");
  CHECK_FALSE(read.objects[2].difficult);
  CHECK(with("").objects.empty());
}

TEST_CASE("errors of an annotation name file, object and value", "[boxes]") {
  CHECK_FAILS(UserError, parse("<annotation>\n<size>\n</annotation>"), "[a.xml:3] is no XML: ");
  CHECK_FAILS(UserError, parse(""), "[a.xml:1] is no XML: ");
  CHECK_FAILS(UserError, parse("<html></html>"), "[a.xml] is no VOC annotation: it begins with <html>");
  CHECK_FAILS(UserError, parse("<annotation></annotation>"), "[a.xml] has no <size> of its image");
  CHECK_FAILS(UserError, parse("<annotation><size><width>5</width></size></annotation>"),
              "[a.xml] <size> has <height> \"\", expected a number");
  CHECK_FAILS(UserError, parse(voc_xml("", 0)),
              "is of an image whose width is 0, expected a number of pixels");
  CHECK_FAILS(UserError, parse(voc_xml("", 100, -80)), "whose height is -80");
  CHECK_FAILS(UserError, parse("<annotation><size><width>5.5</width><height>1</height></size></annotation>"),
              "whose width is 5.5");
  CHECK_FAILS(UserError, parse("<annotation><size><width>nan</width><height>1</height></size></annotation>"),
              "whose width is nan");
  CHECK_FAILS(UserError, parse(voc_xml("", 100000, 100000)),
              "is of an image of 100000x100000 pixels, at most ");

  const std::string good = voc_object("cat", "1", "2", "3", "4");
  CHECK_FAILS(UserError, with(good + "<object/>"), "[a.xml] object 2 has no <name>");
  CHECK_FAILS(UserError, with("<object><part><name>head</name></part></object>"), "object 1 has no <name>");
  CHECK_FAILS(UserError, with("<object><name> </name></object>"), "object 1 has no <name>");
  CHECK_FAILS(UserError, with(good + "<object><name>dog</name></object>"),
              "[a.xml] object 2 (dog) has no <bndbox>");
  CHECK_FAILS(UserError, with("<object><name>dog</name><part><bndbox/></part></object>"), "has no <bndbox>");
  CHECK_FAILS(UserError, with("<object><name>dog</name><bndbox><xmin>1</xmin></bndbox></object>"),
              "object 1 (dog) has <ymin> \"\", expected a number");
  CHECK_FAILS(UserError, with(voc_object("dog", "1", "2", "3", "4 5")),
              "has <ymax> \"4 5\", expected a number");
  CHECK_FAILS(UserError, with(voc_object("dog", "1,5", "2", "3", "4")), "has <xmin> \"1,5\"");
  CHECK_FAILS(UserError, with(voc_object("dog", "1", "2", "1e999", "4")), "has <xmax> \"1e999\"");
  CHECK_FAILS(UserError, with(voc_object("dog", "1", "2", "3", "4", "<difficult>yes</difficult>")),
              "object 1 (dog) has <difficult> \"yes\", expected 0 or 1");
}
