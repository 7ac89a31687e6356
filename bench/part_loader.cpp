#include <cstdlib>
#include <filesystem>

#include "bench/parts.h"
#include "core/cpu/cpu_features.h"
#include "core/error.h"
#include "data/boxes/box_dataset.h"
#include "data/boxes/coco.h"
#include "data/image_file.h"
#include "data/loader.h"

namespace tandem::bench {

namespace {

constexpr Index kBatch = 32, kObjects = 4;

datasets::DatasetPtr photographs() {
  const char* const folder = std::getenv("TANDEM_BENCH_FILES");
  require(folder != nullptr, "bench", "TANDEM_BENCH_FILES is not set to the folder of photographs");
  const std::filesystem::path path(folder);
  return std::make_shared<datasets::BoxDataset>("photographs",
                                                datasets::read_coco(path / "instances.json", path), 3,
                                                kObjects, datasets::ImageReading{});
}

}  // namespace

TrainingPtr ssd_loader() {
  cpu::set_threads(1);
  const datasets::DatasetPtr images = photographs();
  datasets::Pipeline pipeline(
      images->info(),
      std::vector<datasets::TransformSpec>{
          {"ssd_crop", {}}, {"horizontal_flip", {}}, {"photometric", {}}, {"resize", {{"size", {300}}}}});
  const auto loader = std::make_shared<datasets::Loader>(
      images, std::move(pipeline), datasets::LoaderOptions{.batch_size = kBatch, .shuffle = true});
  return std::make_unique<Part>(kBatch, [loader] {
    auto batch = loader->next();
    if (!batch) batch = loader->next();  // of the next epoch
    const Tensor rows = (*batch)["box"];
    double boxes = 0.0;
    for (Index i = 4; i < rows.numel(); i += 5) boxes += rows.data<float>()[i] > 0.0F ? 1.0 : 0.0;
    return boxes;
  });
}

}  // namespace tandem::bench
