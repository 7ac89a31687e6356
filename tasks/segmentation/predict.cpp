#include "tasks/segmentation/predict.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "autograd/modes.h"
#include "core/error.h"
#include "data/image_file.h"
#include "data/preparation.h"
#include "data/transforms/pipeline.h"
#include "files/input.h"
#include "files/json_text.h"
#include "files/output.h"
#include "files/write.h"
#include "models/builder.h"
#include "tasks/drawing.h"
#include "tasks/input_files.h"
#include "tasks/output_pictures.h"
#include "tasks/segmentation/pictures.h"
#include "tasks/segmentation/scores.h"

namespace tandem::tasks {

namespace fs = std::filesystem;

namespace {

constexpr Index kMostMultiple = 4096;  // maximum granularity of padded image sides

// Crops [height,width] from the upper left corner of a mask [1,H,W], and resizes it.
Tensor mask_of_size(const Tensor& mask, Index height, Index width, const Shape& image) {
  const Tensor result = Tensor::empty({image[0], image[1]}, {.dtype = DType::u8, .kind = MemoryKind::data});
  datasets::ImageView view = datasets::ImageView::whole(image[0], image[1]);
  view.support = {0, 0, height, width};
  datasets::render_mask({mask.data<std::uint8_t>(), mask.size(2)}, view, result.data<std::uint8_t>());
  return result;
}

fs::path overlay_beside(const fs::path& mask) {
  return mask.parent_path() / fmt::format("{}-overlay.png", mask.stem().string());
}

std::string name_of_class(const datasets::DatasetInfo& info, std::size_t index) {
  return index < info.class_names.size() ? info.class_names[index] : std::to_string(index);
}

// The classes of a mask and their shares of its pixels, in descending order.
std::vector<std::pair<std::size_t, double>> shares_of(const Tensor& mask) {
  std::vector<std::int64_t> pixels(256);
  for (const auto value : mask.to_vector<std::uint8_t>()) ++pixels[value];
  std::vector<std::pair<std::size_t, double>> shares;
  for (std::size_t c = 0; c < pixels.size(); ++c) {
    if (pixels[c] > 0)
      shares.emplace_back(c, static_cast<double>(pixels[c]) / static_cast<double>(mask.numel()));
  }
  std::ranges::stable_sort(shares, std::ranges::greater{}, &std::pair<std::size_t, double>::second);
  return shares;
}

void print_shares(const PictureJob& job, const Tensor& mask, const datasets::DatasetInfo& info, bool json) {
  if (json) {
    nlohmann::ordered_json line{{"input", job.image},
                                {"mask", job.out.string()},
                                {"overlay", overlay_beside(job.out).string()},
                                {"classes", nlohmann::ordered_json::array()}};
    for (const auto& [c, share] : shares_of(mask))
      line["classes"].push_back({{"class", c}, {"name", name_of_class(info, c)}, {"share", share}});
    output::print("{}\n", files::json_text(line));
    return;
  }
  std::string text = job.image + " → " + job.out.string();
  for (const auto& [c, share] : shares_of(mask))
    text += fmt::format("  {} {:.1f} %", name_of_class(info, c), 100.0 * share);
  output::print("{}\n", text);
}

}  // namespace

Segmenter::Segmenter(nn::Module& model, const SampleData& data,
                     const std::vector<datasets::TransformSpec>& augment, Device device)
    : model_(model), data_(data), device_(device) {
  transforms_ = datasets::with_sizes(data.info(), data.image_size(), augment, true);
  std::erase_if(transforms_,
                [](const auto& spec) { return spec.name == "center_crop" || spec.name == "pad"; });
}

// [height,width,channels] padded to multiples of the smallest power of two that the model accepts.
Shape Segmenter::taken_for(const Shape& prepared) const {
  for (Index multiple = 1;; multiple *= 2) {
    const auto extended = [&](Index pixels) { return (pixels + multiple - 1) / multiple * multiple; };
    const Shape taken{extended(prepared[0]), extended(prepared[1]), prepared[2]};
    try {
      const Shape scores = models::output_shape(model_, taken);
      if (scores.rank() == 3 && scores[0] == taken[0] && scores[1] == taken[1]) return taken;
      require(multiple < kMostMultiple, "model", "gives {} for an image of {}", to_string(scores),
              to_string(taken));
    } catch (const UserError&) {
      if (multiple >= kMostMultiple) throw;
    }
  }
}

Tensor Segmenter::operator()(const Tensor& image) const {
  const NoGrad no_grad;
  datasets::DatasetInfo info = data_.info();
  info.sample_shape = image.shape();
  const datasets::Pipeline pipeline(info, transforms_);
  const Shape& prepared = pipeline.output_shape();
  std::vector<float> pixels(static_cast<std::size_t>(prepared.numel()));
  pipeline.apply(image, {}, pixels.data());
  const Shape taken = taken_for(prepared);
  const Tensor batch = Tensor::zeros(taken.inserted(0, 1));
  const Index row = prepared[1] * prepared[2];
  for (Index y = 0; y < prepared[0]; ++y)
    std::copy_n(pixels.data() + y * row, row, batch.data<float>() + y * taken[1] * taken[2]);
  return mask_of_size(classes_of_scores(model_(batch.to(device_))), prepared[0], prepared[1], image.shape());
}

void write_masks(const Segmenter& segmenter, const datasets::DatasetInfo& info,
                 const datasets::ImageReading& reading, const PredictRequest& request) {
  require(!request.inputs.empty(), "", "predict: inputs are missing: image files, or folders of them");
  require(
      !request.out.empty(), "",
      "predict: --out is missing: the PNG file for the mask, or a folder for the masks of several images");
  const auto palette =
      class_colours().first(static_cast<std::size_t>(std::clamp<Index>(info.classes, 2, 256)));
  const auto beside = [](const fs::path& mask) { return std::vector{overlay_beside(mask)}; };
  for (const PictureJob& job : picture_jobs(files_of(request.inputs), request.out, "masks", beside)) {
    require(datasets::is_image_file(job.image), "",
            "{}: not an image; expected .jpg, .jpeg, .png, or a folder of images", job.image);
    const Tensor image = datasets::read_image(job.image, static_cast<int>(info.sample_shape[2]), reading);
    const Tensor mask = segmenter(image);
    files::make_folder(job.out.parent_path());
    files::write_atomically(job.out.string(), datasets::indexed_png_of(mask, palette));
    files::write_atomically(overlay_beside(job.out).string(), datasets::png_of(overlay(image, mask)));
    print_shares(job, mask, info, request.json);
  }
}

}  // namespace tandem::tasks
