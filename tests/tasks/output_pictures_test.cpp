// Output files of pictures.
#include "tasks/output_pictures.h"

#include <catch2/catch.hpp>

#include "tests/support/temporary_files.h"

using namespace tandem;
using Catch::Contains;
using tandem::testing::user_error_of;

namespace {

std::vector<std::string> outs_of(const std::vector<std::string>& images) {
  std::vector<std::string> outs;
  for (const tasks::PictureJob& job : tasks::picture_jobs(images, "out", "masks"))
    outs.push_back(job.out.string());
  return outs;
}

}  // namespace

TEST_CASE("a picture is called as its image, whatever dots that has", "[predict]") {
  CHECK(outs_of({"a/scan.001.png", "a/scan.002.png", "1.0.2.34_1.png", "plain.jpg", "b/.hidden"}) ==
        std::vector<std::string>{"out/scan.001.png", "out/scan.002.png", "out/1.0.2.34_1.png",
                                 "out/plain.png", "out/.hidden.png"});
  CHECK_THAT(user_error_of([] {
               outs_of({"a/x.1.jpg", "b/x.1.png"});
             }),
             Contains("a/x.1.jpg and b/x.1.png would both be written to out/x.1.png"));
}
