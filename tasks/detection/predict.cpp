#include "tasks/detection/predict.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "autograd/modes.h"
#include "core/error.h"
#include "data/image_file.h"
#include "data/png_write.h"
#include "data/preparation.h"
#include "data/transforms/pipeline.h"
#include "files/json_text.h"
#include "files/output.h"
#include "files/write.h"
#include "tasks/detection/pictures.h"
#include "tasks/input_files.h"
#include "tasks/output_pictures.h"

namespace tandem::tasks {

BoxFinder::BoxFinder(models::Detector& model, const SampleData& data,
                     const std::vector<datasets::TransformSpec>& augment, models::SuppressionOptions options,
                     Device device)
    : model_(model), data_(data), augment_(augment), options_(std::move(options)), device_(device) {}

std::vector<models::FoundBox> BoxFinder::operator()(const Tensor& image) const {
  const NoGrad no_grad;
  // Treats images as of varying size, so that other sizes than the data's are resized.
  datasets::DatasetInfo any = data_.info();
  const Shape& sample = any.sample_shape;
  const auto specs = datasets::preparation(any, data_.image_size(), augment_);
  any.sample_shape = {0, 0, sample[2]};
  const datasets::Pipeline pipeline(any, specs);
  const Tensor batch = Tensor::empty(pipeline.output_shape().inserted(0, 1), {.kind = MemoryKind::data});
  pipeline.apply(image, {}, batch.raw());
  return model_.decode(model_.outputs(batch.to(device_)), options_).front();
}

namespace {

std::string name_of_class(const datasets::DatasetInfo& info, Index label) {
  const auto at = static_cast<std::size_t>(label);
  return at < info.class_names.size() && !info.class_names[at].empty() ? info.class_names[at]
                                                                       : std::to_string(label);
}

struct PixelCorners {
  double x1, y1, x2, y2;
};

PixelCorners in_pixels(const models::UnitBox& box, const Tensor& image) {
  const auto height = static_cast<double>(image.size(0)), width = static_cast<double>(image.size(1));
  return {box.x1 * width, box.y1 * height, box.x2 * width, box.y2 * height};
}

void print_boxes(const std::string& name, const Tensor& image, const std::vector<models::FoundBox>& found,
                 float best, const datasets::DatasetInfo& info, const PredictRequest& request) {
  if (request.json) {
    nlohmann::ordered_json line{{"input", name},
                                {"width", image.size(1)},
                                {"height", image.size(0)},
                                {"boxes", nlohmann::ordered_json::array()}};
    if (!request.out.empty()) line["picture"] = request.out;
    for (const models::FoundBox& each : found) {
      const PixelCorners at = in_pixels(each.box, image);
      line["boxes"].push_back({{"class", each.label},
                               {"name", name_of_class(info, each.label)},
                               {"score", each.score},
                               {"box", {at.x1, at.y1, at.x2, at.y2}}});
    }
    output::print("{}\n", files::json_text(line));
    return;
  }
  std::string text = name;
  if (found.empty())
    text += best > 0 ? fmt::format("  no detections; the best box has {:.1f} % (--threshold shows more)",
                                   100.0F * best)
                     : "  no detections";
  for (const models::FoundBox& each : found) {
    const PixelCorners at = in_pixels(each.box, image);
    text += fmt::format("\n  {} {:.1f} %  [{:.0f}, {:.0f}, {:.0f}, {:.0f}]", name_of_class(info, each.label),
                        100.0F * each.score, at.x1, at.y1, at.x2, at.y2);
  }
  output::print("{}\n", text);
}

}  // namespace

void write_boxes(const BoxFinder& finder, const datasets::DatasetInfo& info,
                 const datasets::ImageReading& reading, double shown, const PredictRequest& request) {
  shown = request.threshold.value_or(shown);
  require(!request.inputs.empty(), "", "predict: inputs are missing: image files, or folders of them");
  const std::vector<std::string> images = files_of(request.inputs);
  std::vector<PictureJob> jobs;
  if (!request.out.empty()) {
    jobs = picture_jobs(images, request.out, "boxes");
  } else {
    for (const std::string& image : images) jobs.push_back({image, {}});
  }
  for (const PictureJob& job : jobs) {
    require(datasets::is_image_file(job.image), "",
            "{}: not an image; expected .jpg, .jpeg, .png, or a folder of images", job.image);
    const Tensor image = datasets::read_image(job.image, static_cast<int>(info.sample_shape[2]), reading);
    std::vector<models::FoundBox> found = finder(image);
    float best = 0;  // over all boxes, shown or not
    for (const models::FoundBox& each : found) best = std::max(best, each.score);
    std::erase_if(found, [&](const models::FoundBox& each) { return each.score < shown; });
    if (!job.out.empty()) {
      std::vector<DrawnBox> drawn;
      for (const models::FoundBox& each : found)
        drawn.push_back({each.box, each.label,
                         fmt::format("{} {:.0f}%", name_of_class(info, each.label), 100.0F * each.score)});
      files::make_folder(job.out.parent_path());
      files::write_atomically(job.out.string(), datasets::png_of(with_boxes(image, drawn)));
    }
    PredictRequest printed = request;
    printed.out = job.out.string();
    print_boxes(job.image, image, found, best, info, printed);
  }
}

}  // namespace tandem::tasks
