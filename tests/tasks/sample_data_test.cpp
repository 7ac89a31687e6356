// Unreadable samples, all found at once.
#include "tasks/sample_data.h"

#include <nlohmann/json.hpp>

#include "data/png_write.h"
#include "tests/support/temporary_files.h"

using namespace tandem;
using namespace tandem::testing;
using Catch::Contains;

namespace {

std::vector<std::string> unreadable(const tasks::Data& data) {
  std::vector<std::string> reasons;
  data.read_all([&](const std::string& reason) { reasons.push_back(reason); });
  return reasons;
}

}  // namespace

TEST_CASE("a description that asks for the impossible is damaged", "[sample_data]") {
  const auto described = std::make_shared<tasks::SampleData>(
      datasets::DatasetInfo{.name = "a", .sample_shape = {8, 8, 3}, .classes = 2}, 8);
  const tasks::Json sound = described->description();
  CHECK(tasks::SampleData::recall(sound)->description() == sound);
  const auto refused = [&](const char* key, const tasks::Json& value) {
    tasks::Json damaged = sound;
    damaged[key] = value;
    return user_error_of([&] { tasks::SampleData::recall(damaged); });
  };
  CHECK_THAT(refused("image_size", std::int64_t{1} << 40),
             Contains("is damaged: images of side 1099511627776"));
  CHECK_THAT(refused("sample_shape", {std::int64_t{1} << 40, std::int64_t{1} << 40, 3}),
             Contains("the description of the data"));
  CHECK_THAT(refused("most_objects", -1), Contains("is damaged"));
  CHECK_THAT(refused("classes", "two"), Contains("is damaged") && !Contains("json.exception"));
}

TEST_CASE("reading everything tells of every sample that cannot be read", "[sample_data]") {
  const TemporaryDirectory directory;
  const std::string picture =
      datasets::png_of(Tensor::from(std::vector<std::uint8_t>(8 * 8 * 3, 7), {8, 8, 3}));
  for (const char* name :
       {"train/a/0.png", "train/a/1.png", "train/b/0.png", "train/b/1.png", "test/a/0.png", "test/b/0.png"})
    directory.write(name, picture);
  const auto open = [&](bool skips, const datasets::SampleReport& report = {}) {
    return tasks::SampleData::open({.set = options::Choice<datasets::labelled_sets>("image_folder"),
                                    .common = {.path = directory.path().string(), .skip_bad_samples = skips}},
                                   report);
  };
  CHECK(unreadable(*open(false)).empty());
  // Cut behind the header, which is all that opening looks at.
  directory.write("train/b/1.png", picture.substr(0, picture.size() / 2));
  directory.write("test/a/0.png", picture.substr(0, picture.size() - 20));
  const std::vector<std::string> reasons = unreadable(*open(false));
  REQUIRE(reasons.size() == 2);
  CHECK_THAT(reasons[0], Contains("train/b/1.png") && Contains("data.skip_bad_samples=true"));
  CHECK_THAT(reasons[1], Contains("test/a/0.png"));
  // Those that are skipped are no errors, and told of.
  std::vector<std::string> skipped;
  CHECK(unreadable(*open(true, [&](const std::string& reason) { skipped.push_back(reason); })).empty());
  CHECK(skipped.size() == 2);
}
