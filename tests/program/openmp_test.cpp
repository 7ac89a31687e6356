// OpenMP's variables: training has the bits of a run without them and with the same number of threads.
#include <fmt/core.h>

#include <filesystem>
#include <fstream>

#include "core/cpu/cpu_features.h"
#include "core/tensor.h"
#include "data/png_write.h"
#include "tests/data/files.h"
#include "tests/program/support.h"

using namespace tandem;
using namespace tandem::testing;
using Catch::Contains;

namespace {

using Variables = std::map<std::string, std::string>;

class Trainings {
 public:
  Trainings() {
    std::ofstream text(directory_.path() / "words.txt");
    for (int i = 0; i < 120; ++i) text << (i % 3 ? "the cat sat on a mat\n" : "a dog ran to the cat\n");
    for (int i = 0; i < 12; ++i) write_scene(*this / "set" / (i < 8 ? "train" : "test"), i);
  }

  Outcome run(const std::vector<std::string>& family, const std::string& name, Variables variables) const {
    variables.try_emplace("OMP_NUM_THREADS", "2");
    return launch({.arguments = joined(family, {"epochs=1", "-q", "tensorboard=false", "run_dir=" + name}),
                   .directory = directory_.path().string(),
                   .environment = std::move(variables)});
  }

  std::string weights(const std::string& name) const {
    return saved_tensors(directory_.path() / name, "weights");
  }
  std::filesystem::path operator/(const std::string& name) const { return directory_.path() / name; }

 private:
  // A dark image of 16 × 16 pixels with a bright square, and its mask.
  static void write_scene(const std::filesystem::path& split, int number) {
    std::vector<std::uint8_t> pixels(16 * 16, 20), mask(16 * 16, 0);
    for (int i = 0; i < 64; ++i) {
      const auto at = static_cast<std::size_t>((number % 8 + i / 8) * 16 + number % 5 + i % 8);
      pixels[at] = 200;
      mask[at] = 1;
    }
    for (const auto& [folder, values] : {std::pair{"images", pixels}, std::pair{"masks", mask}}) {
      const std::string png = datasets::png_of(Tensor::from(values, {16, 16}));
      datasets::testing::write_file(split / folder / fmt::format("{}.png", number), {png.begin(), png.end()});
    }
  }

  TemporaryDirectory directory_;
};

// A classifier and a U-Net: convolutions of every pass by the library and own kernels, transposed ones too. A
// language model: recurrent layers, tables and wide products. A GAN: two networks in turn, measured by the
// classifier.
const std::vector<std::vector<std::string>> kFamilies = {
    {"train", "digits_mlp", "model=resnet8", "precision=amp_bf16", "data.train_size=64", "data.test_size=16",
     "data.batch_size=32"},
    {"train", "debian_lstm", "precision=amp_bf16", "model.units=64", "model.embedding=64",
     R"(data={"name":"text","train":"words.txt","validation":"words.txt","test":"words.txt","batch_size":8,"steps":12,"eval_batch_size":2})"},
    {"train", "unet_scenes", "precision=amp_bf16", "model.width=4", "model.levels=2",
     R"(data={"name":"masks","path":"set","class_names":["dark","bright"],"batch_size":4,"eval_batch_size":4})"},
    {"train", "dcgan_fashion", "precision=amp_bf16", "model.width=4", "model.noise=8",
     R"(data={"name":"digits","batch_size":16,"train_size":64})", "eval.features=run_digits_mlp",
     "eval.samples=16", "checkpoint.best=fd_classifier"}};

}  // namespace

TEST_CASE("OpenMP's variables change no bit of what is trained", "[program]") {
  const Trainings trainings;
  const std::vector<std::pair<std::string, std::string>> harmless = {
      {"OMP_DYNAMIC", "true"},     {"OMP_MAX_ACTIVE_LEVELS", "0"}, {"OMP_NESTED", "true"},
      {"OMP_PROC_BIND", "spread"}, {"OMP_PLACES", "threads"},      {"OMP_SCHEDULE", "guided,3"},
      {"OMP_STACKSIZE", "64k"},    {"OMP_WAIT_POLICY", "passive"}, {"OMP_THREAD_LIMIT", "2"}};
  for (const auto& family : kFamilies) {
    const std::string name = "run_" + family[1];
    must(trainings.run(family, name, {}));
    const std::string plain = trainings.weights(name);
    REQUIRE_FALSE(plain.empty());
    for (const auto& [variable, value] : harmless) {
      INFO(name << " with " << variable << "=" << value);
      const std::string given = name + variable;
      const Outcome outcome = trainings.run(family, given, {{variable, value}});
      INFO(outcome.err);
      REQUIRE(outcome.exit_code == 0);
      CHECK(trainings.weights(given) == plain);
      const auto recorded = nlohmann::json::parse(read_text(trainings / given / "environment.json"));
      CHECK(recorded["openmp"][variable] == value);
    }
    must(trainings.run(family, name + "1", {{"OMP_NUM_THREADS", "1"}}));
    const Outcome limited = trainings.run(family, name + "limited", {{"OMP_THREAD_LIMIT", "1"}});
    INFO(limited.err);
    REQUIRE(limited.exit_code == 0);
    CHECK(trainings.weights(name + "limited") == trainings.weights(name + "1"));
    if (cpu::usable_cpus() > 1)
      CHECK_THAT(limited.err, Contains("OMP_THREAD_LIMIT=1: using that many threads"));
  }
}
