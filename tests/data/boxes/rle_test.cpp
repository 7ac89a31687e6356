// Run-length encoded masks, against pycocotools.
#include "data/boxes/rle.h"

#include "tests/data/boxes/support.h"
#include "tests/golden/boxes.h"

using namespace tandem;
using namespace tandem::test;

using datasets::Corners;
using datasets::decode_rle;
using datasets::RunLengths;

TEST_CASE("runs of masks are those of pycocotools, and so are areas and boxes", "[boxes]") {
  REQUIRE(golden::kRleCases.size() == 12);
  for (const golden::RleCase& expected : golden::kRleCases) {
    INFO(expected.height << "x" << expected.width);
    const RunLengths mask = decode_rle(expected.text, expected.height, expected.width, "mask");
    CHECK(mask.counts == std::vector<Index>(expected.counts.begin(), expected.counts.end()));
    CHECK(mask.area() == expected.area);
    const auto& box = expected.box;
    CHECK(mask.box() == Corners{box[0], box[1], box[0] + box[2], box[1] + box[3]});
    CHECK_NOTHROW(datasets::require_sound(mask, "mask"));
  }
}

TEST_CASE("a mask of three rows by hand", "[boxes]") {
  const RunLengths mask = decode_rle("321010", 3, 4, "mask");  // 0110, 0111, 0001
  CHECK(mask.counts == std::vector<Index>{3, 2, 1, 2, 2, 2});
  CHECK(mask.area() == 6);
  CHECK(mask.box() == Corners{1, 0, 4, 3});
}

TEST_CASE("runs that are no mask are refused", "[boxes]") {
  CHECK_FAILS(UserError, decode_rle("32101", 3, 4, "m"),
              "[m] the runs of the mask end 2 pixels before its 4x3");
  CHECK_FAILS(UserError, decode_rle("321011", 3, 4, "m"), "[m] run 5 of the mask has 3 pixels, of 2");
  CHECK_FAILS(UserError, decode_rle("3O", 3, 4, "m"), "run 1 of the mask has -1 pixels, of 9");
  CHECK_FAILS(UserError, decode_rle("3 2", 3, 4, "m"), "byte 1 of the mask's counts, 0x20, is invalid there");
  CHECK_FAILS(UserError, decode_rle("3p", 3, 4, "m"), "byte 1 of the mask's counts, 0x70");
  CHECK_FAILS(UserError, decode_rle("3\xFF", 3, 4, "m"), "byte 1 of the mask's counts, 0xff");
  CHECK_FAILS(UserError, decode_rle("32101P", 3, 4, "m"), "the mask's counts end inside a number");
  CHECK_FAILS(UserError, decode_rle("PPPPPPPP0", 3, 4, "m"), "byte 7 of the mask's counts, 0x50");
  CHECK_FAILS(UserError, decode_rle("0", 0, 4, "m"), "a mask of 4x0 pixels");
  CHECK_FAILS(UserError, decode_rle("0", Index{1} << 40, Index{1} << 40, "m"), "a mask of ");
}
