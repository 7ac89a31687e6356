// Result files for COCO's and VOC's programs.
#include "tasks/detection/results.h"

#include <catch2/catch.hpp>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "tests/support/errors.h"

using namespace tandem;
using metrics::Detection;
using nlohmann::json;
using tasks::coco_results;
using tasks::voc_results;
using tasks::voc_results_name;

namespace {

const std::map<std::int64_t, std::string> kNames = {{7, "2008_000008"}, {3, "000003"}};

std::vector<Detection> some() {
  return {{7, 18, {258.15, 41.29, 348.26, 243.78}, 0.236},
          {3, 18, {0, 0, 45.70000076293945, 1e-7}, 0.5},
          {7, 1, {1234567.891234, 2, 3, 4}, 0.1f},
          {3, 1, {0.5, 1, 2, 3}, 0.5},
          {7, 18, {1, 2, 3, 4}, 0.75}};
}

}  // namespace

TEST_CASE("COCO's results are by image and score, with 9 digits", "[detection_results]") {
  CHECK(coco_results(some()) ==
        R"([
{"image_id": 3, "category_id": 18, "bbox": [0, 0, 45.7000008, 1e-07], "score": 0.5},
{"image_id": 3, "category_id": 1, "bbox": [0.5, 1, 2, 3], "score": 0.5},
{"image_id": 7, "category_id": 18, "bbox": [1, 2, 3, 4], "score": 0.75},
{"image_id": 7, "category_id": 18, "bbox": [258.15, 41.29, 348.26, 243.78], "score": 0.236},
{"image_id": 7, "category_id": 1, "bbox": [1234567.89, 2, 3, 4], "score": 0.100000001}
]
)");
  const json parsed = json::parse(coco_results(some()));
  REQUIRE(parsed.size() == 5);
  CHECK(parsed[4].at("score").get<float>() == 0.1f);
  CHECK(json::parse(coco_results({})) == json::array());
}

TEST_CASE("VOC's results count pixels from 1", "[detection_results]") {
  CHECK(voc_results_name("diningtable") == "comp4_det_test_diningtable.txt");
  CHECK(voc_results(some(), 18, kNames) ==
        "000003 0.5 1 1 45.7000008 1e-07\n"
        "2008_000008 0.75 2 3 4 6\n"
        "2008_000008 0.236 259.15 42.29 606.41 285.07\n");
  CHECK(voc_results(some(), 1, kNames) ==
        "000003 0.5 1.5 2 2.5 4\n"
        "2008_000008 0.100000001 1234568.89 3 1234570.89 6\n");
  CHECK(voc_results(some(), 2, kNames).empty());
}

TEST_CASE("results that cannot be written", "[detection_results]") {
  std::vector<Detection> broken = some();
  broken[2].box.width = HUGE_VAL;
  CHECK_FAILS(UserError, coco_results(broken),
              "[coco results] detection 2 (image 7, category 1) has the box [1234567.891234, 2, inf, 4]");
  CHECK_FAILS(UserError, voc_results(broken, 18, kNames), "[voc results] detection 2");
  broken = some();
  broken[1].score = std::numeric_limits<double>::quiet_NaN();
  CHECK_FAILS(UserError, coco_results(broken), "and the score nan; only finite numbers can be written");

  CHECK_FAILS(UserError, voc_results(some(), 18, {{7, "a"}}),
              "image 3 has detections and no name among the 1");
  CHECK_FAILS(UserError, voc_results(some(), 18, {{7, "a b"}, {3, "c"}}), "image 7 is called 'a b'");
  CHECK_FAILS(UserError, voc_results(some(), 18, {{7, ""}, {3, "c"}}), "image 7 is called ''");
  CHECK(voc_results_name("T-shirt/top") == "comp4_det_test_T-shirt%2Ftop.txt");
  CHECK(voc_results_name("T-shirt_top") == "comp4_det_test_T-shirt_top.txt");
  CHECK(voc_results_name("../cat") == "comp4_det_test_%2E.%2Fcat.txt");
  CHECK(voc_results_name("traffic light") == "comp4_det_test_traffic light.txt");
  CHECK(voc_results_name("50%") == "comp4_det_test_50%25.txt");
  // Names that differ only behind what a file system takes of them.
  const std::string long_name(300, 'x');
  CHECK(voc_results_name(long_name).size() < 255);
  CHECK(voc_results_name(long_name + "a") != voc_results_name(long_name + "b"));
}
