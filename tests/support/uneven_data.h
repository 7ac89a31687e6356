// Configurations of each family with batches of very uneven parts: one and thirty tokens, pixels and anchors
// or none. Images, masks and texts are written to a directory of the test.
#pragma once

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/png_write.h"
#include "tests/support/temporary_files.h"

namespace tandem::testing {

struct UnevenRun {
  std::string name;
  nlohmann::json config;
  int parts = 4;
  bool differs = false;  // by a factor of 10 and more, with a part that counts nothing unless it is text
};

namespace uneven {

using nlohmann::json;

inline Tensor picture(int number, Index side) {
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(side * side * 3));
  for (std::size_t i = 0; i < pixels.size(); ++i)
    pixels[i] =
        static_cast<std::uint8_t>((i * 37 + i / 7 * 11 + static_cast<std::size_t>(number) * 91) % 251);
  return Tensor::from(pixels, {side, side, 3});
}

// Four images of 8 × 8 and their masks: all pixels count, four of them, none, half.
inline std::string write_masks(const TemporaryDirectory& directory) {
  constexpr Index kSide = 8;
  constexpr std::array<std::size_t, 4> kCounted{64, 4, 0, 32};
  for (int i = 0; i < 8; ++i) {
    const std::string split = i < 4 ? "seg/train/" : "seg/test/", name = std::to_string(i) + ".png";
    directory.write(split + "images/" + name, datasets::png_of(picture(i, kSide)));
    std::vector<std::uint8_t> mask(kSide * kSide, 255);
    for (std::size_t p = 0; p < kCounted[static_cast<std::size_t>(i % 4)]; ++p)
      mask[p] = static_cast<std::uint8_t>((p * 7 + p / 3) % 2);
    directory.write(split + "masks/" + name, datasets::png_of(Tensor::from(mask, {kSide, kSide, 1})));
  }
  return directory / "seg";
}

// Four images of 64 × 64 in COCO's format, with 1, 20, 0 and 2 objects.
inline json write_coco(const TemporaryDirectory& directory) {
  constexpr Index kSide = 64;
  constexpr std::array<int, 4> kObjects{1, 20, 0, 2};
  json file{{"categories", {{{"id", 1}, {"name", "one"}}, {{"id", 2}, {"name", "two"}}}},
            {"images", json::array()},
            {"annotations", json::array()}};
  int annotation = 0;
  for (int i = 0; i < 4; ++i) {
    const std::string name = std::to_string(i) + ".png";
    directory.write("boxes/" + name, datasets::png_of(picture(i, kSide)));
    file["images"].push_back({{"id", i + 1}, {"file_name", name}, {"width", kSide}, {"height", kSide}});
    for (int k = 0; k < kObjects[static_cast<std::size_t>(i)]; ++k, ++annotation) {
      const double x = 4.0 + (k * 13) % 30, y = 3.0 + (k * 7) % 28, w = 12.0 + k % 5, h = 14.0 + k % 7;
      file["annotations"].push_back({{"id", annotation + 1},
                                     {"image_id", i + 1},
                                     {"category_id", 1 + k % 2},
                                     {"bbox", {x, y, w, h}},
                                     {"area", w * h},
                                     {"iscrowd", 0}});
    }
  }
  directory.write("boxes.json", file.dump());
  const json split{{"images", "boxes"}, {"annotations", "boxes.json"}};
  return {{"name", "coco"}, {"path", directory.path()}, {"train", split},
          {"test", split},  {"image_size", kSide},      {"batch_size", 4}};
}

inline json written_pairs(const TemporaryDirectory& directory) {
  std::string lines;
  for (const int length : {1, 30, 2, 12}) {
    std::string source, target;
    for (int k = 0; k < length; ++k) {
      source += static_cast<char>('u' + (k * 7 + length) % 5);
      target += std::string(k > 0 ? " " : "") + static_cast<char>('a' + (k * 3 + length) % 5);
    }
    lines += source + "\t" + target + "\n";
  }
  const std::string path = directory.write("pairs.tsv", lines);
  return {{"name", "text_pairs"},      {"train", {{"table", path}}},
          {"test", {{"table", path}}}, {"source_codec", "characters"},
          {"target_codec", "spaces"},  {"max_length", 30},
          {"validation_fraction", 0},  {"batch_size", 4}};
}

inline json written_stream(const TemporaryDirectory& directory) {
  std::string text;
  for (int i = 0; i < 400; ++i) text += "w" + std::to_string(i * i % 23) + (i % 9 == 8 ? "\n" : " ");
  const std::string path = directory.write("text.txt", text);
  return {{"name", "text"}, {"train", path},   {"validation", path},
          {"test", path},   {"batch_size", 4}, {"steps", 6}};
}

inline json written_lines(const TemporaryDirectory& directory) {
  std::string lines;
  for (int i = 0; i < 12; ++i) {
    lines += i % 2 == 0 ? "even\t" : "odd\t";
    for (int w = 0; w <= i * 5 % 11; ++w) lines += "w" + std::to_string((i * 7 + w * w) % 13) + " ";
    lines += "\n";
  }
  const std::string path = directory.write("lines.tsv", lines);
  return {{"name", "labelled_lines"}, {"train", path}, {"test", path}, {"batch_size", 7}};
}

}  // namespace uneven

// Their steps have the gradient itself as their update.
inline std::vector<UnevenRun> uneven_runs(const TemporaryDirectory& directory) {
  using nlohmann::json;
  std::vector<UnevenRun> runs;
  const auto add = [&](std::string name, const char* task, json model, json data, json loss, int parts,
                       bool differs) {
    json config{{"task", task},
                {"model", std::move(model)},
                {"data", std::move(data)},
                {"optimizer", {{"name", "sgd"}, {"lr", 1.0}}},
                {"schedule", "constant"},
                {"epochs", 1}};
    if (!loss.is_null()) config["loss"] = std::move(loss);
    runs.push_back({std::move(name), std::move(config), parts, differs});
  };
  const json mlp{{"name", "mlp"}, {"hidden", {8}}}, digits{{"name", "digits"}, {"batch_size", 12}};
  const json weights{5, 0, 0, 0.1, 0, 0, 0, 0.2, 0, 0};
  add("class weights", "classification", mlp, digits,
      {{"class_weights", weights}, {"batch_weight", "class_weights"}}, 12, true);
  add("label smoothing", "classification", mlp, digits, {{"label_smoothing", 0.1}}, 5, false);
  for (const char* loss : {"focal", "bce_with_logits", "mse"})
    add(loss, "classification", mlp, digits, {{"name", loss}}, 5, false);

  const json masks{
      {"name", "masks"}, {"path", uneven::write_masks(directory)}, {"batch_size", 4}, {"classes", 2}};
  const auto pixels = [](int scores) {
    return json{{"layers",
                 {{{"type", "conv2d"}, {"out_channels", 6}, {"kernel", 3}, {"padding", "same"}},
                  {{"type", "relu"}},
                  {{"type", "conv2d"}, {"out_channels", scores}, {"kernel", 1}}}}};
  };
  add("pixels", "segmentation", pixels(2), masks, {{"dice", 0}, {"batch_weight", "pixels"}}, 4, true);
  add("pixels by class weights", "segmentation", pixels(2), masks,
      {{"dice", 0}, {"class_weights", {0.25, 9}}, {"batch_weight", "pixels"}}, 4, true);
  add("pixels of two classes", "segmentation", pixels(1), masks,
      {{"name", "bce_dice"}, {"dice", 0}, {"batch_weight", "pixels"}}, 4, true);

  const json ssd{{"name", "ssd_small"}}, coco = uneven::write_coco(directory);
  add("anchors", "detection", ssd, coco, nullptr, 4, true);
  add("anchors, and negatives of images without objects", "detection", ssd, coco,
      {{"min_negatives", 7}, {"matching", "greedy"}}, 4, true);
  add("anchors by image", "detection", ssd, coco, {{"normalize", "image"}, {"min_negatives", 7}}, 4, false);

  const json translator{{"name", "encoder_decoder"}, {"embedding", 6}, {"units", 5}, {"dropout", 0.0}};
  add("tokens", "translation", translator, uneven::written_pairs(directory), nullptr, 4, true);
  add("smoothed tokens", "translation", translator, uneven::written_pairs(directory),
      {{"label_smoothing", 0.1}}, 4, true);
  add("tokens of a Transformer", "translation",
      {{"name", "transformer"},
       {"encoder_layers", 1},
       {"decoder_layers", 1},
       {"width", 8},
       {"heads", 2},
       {"inner", 12},
       {"dropout", 0.0}},
      uneven::written_pairs(directory), {{"label_smoothing", 0.1}}, 4, true);

  const json reader{{"name", "language_model"}, {"embedding", 6}, {"units", 8}, {"dropout", 0.0}};
  add("stream", "language", reader, uneven::written_stream(directory), nullptr, 3, false);
  add("penalties", "language", reader, uneven::written_stream(directory), {{"ar", 2.0}, {"tar", 1.0}}, 3,
      false);

  add("texts", "text_classification",
      {{"name", "text_classifier"}, {"embedding", 6}, {"units", 5}, {"dropout", 0.0}},
      uneven::written_lines(directory), nullptr, 5, false);
  return runs;
}

// ‖a - b‖ / ‖b‖.
inline double distance(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double difference = 0.0, norm = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  REQUIRE(norm > 0.0);
  return std::sqrt(difference / norm);
}

}  // namespace tandem::testing
