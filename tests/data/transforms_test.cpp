// Transforms against loops written independently, pixel by pixel.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>

#include "data/transforms/pipeline.h"
#include "tests/data/files.h"

using namespace tandem;
using namespace tandem::datasets;
using namespace tandem::datasets::testing;
using Catch::Contains;

namespace {

struct Picture {
  Index height = 0, width = 0, channels = 0;
  std::vector<float> values;

  Picture(Index h, Index w, Index c)
      : height(h), width(w), channels(c), values(static_cast<std::size_t>(h * w * c)) {}
  float& at(Index y, Index x, Index c) {
    return values[static_cast<std::size_t>((y * width + x) * channels + c)];
  }
  float at(Index y, Index x, Index c) const {
    return values[static_cast<std::size_t>((y * width + x) * channels + c)];
  }
  bool holds(Index y, Index x) const { return y >= 0 && x >= 0 && y < height && x < width; }
};

Tensor random_image(Index height, Index width, Index channels, std::uint32_t which = 0) {
  const Bytes bytes = random_bytes(static_cast<std::size_t>(height * width * channels), which);
  return Tensor::from(bytes, {height, width, channels});
}

Picture picture_of(const Tensor& image) {
  Picture picture(image.shape()[0], image.shape()[1], image.shape()[2]);
  picture.values = image.to_vector<float>();
  return picture;
}

Picture mapped(Index height, Index width, Index channels,
               const std::function<float(Index, Index, Index)>& pixel) {
  Picture result(height, width, channels);
  for (Index y = 0; y < height; ++y) {
    for (Index x = 0; x < width; ++x) {
      for (Index c = 0; c < channels; ++c) result.at(y, x, c) = pixel(y, x, c);
    }
  }
  return result;
}

Picture cropped(const Picture& in, Index top, Index left, Index height, Index width, float fill = 0) {
  return mapped(height, width, in.channels, [&](Index y, Index x, Index c) {
    return in.holds(top + y, left + x) ? in.at(top + y, left + x, c) : fill;
  });
}
Picture mirrored(const Picture& in) {
  return mapped(in.height, in.width, in.channels,
                [&](Index y, Index x, Index c) { return in.at(y, in.width - 1 - x, c); });
}
Picture flipped(const Picture& in) {
  return mapped(in.height, in.width, in.channels,
                [&](Index y, Index x, Index c) { return in.at(in.height - 1 - y, x, c); });
}

// Triangle filter in both directions at once, in double.
Picture resized(const Picture& in, Index height, Index width) {
  const auto weights = [](Index from, Index to, Index o) {
    const double scale = static_cast<double>(from) / static_cast<double>(to), radius = std::max(1.0, scale);
    std::vector<double> result(static_cast<std::size_t>(from));
    double sum = 0;
    for (Index k = 0; k < from; ++k) {
      const double distance =
          (static_cast<double>(k) + 0.5 - (static_cast<double>(o) + 0.5) * scale) / radius;
      sum += result[static_cast<std::size_t>(k)] = std::max(0.0, 1 - std::abs(distance));
    }
    for (double& weight : result) weight /= sum;
    return result;
  };
  return mapped(height, width, in.channels, [&](Index y, Index x, Index c) {
    const auto wy = weights(in.height, height, y), wx = weights(in.width, width, x);
    double sum = 0;
    for (Index v = 0; v < in.height; ++v) {
      for (Index u = 0; u < in.width; ++u) {
        sum += wy[static_cast<std::size_t>(v)] * wx[static_cast<std::size_t>(u)] * in.at(v, u, c);
      }
    }
    return static_cast<float>(sum);
  });
}

Picture finished(ImageWork& work) {
  Picture result(work.height(), work.width(), work.channels());
  Affine identity(work.channels());
  for (Index c = 0; c < work.channels(); ++c)
    identity.hole[static_cast<std::size_t>(c)] = static_cast<float>(50 + c);
  work.finish(identity, result.values.data());
  return result;
}

double largest_difference(const Picture& a, const Picture& b) {
  REQUIRE(a.height == b.height);
  REQUIRE(a.width == b.width);
  double largest = 0;
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    largest = std::max(largest, static_cast<double>(std::abs(a.values[i] - b.values[i])));
  }
  return largest;
}

constexpr double kResampled = 255 * 1.3e-6 * 40;  // up to 40 products and sums per pixel, in f32

DatasetInfo info_of(const Tensor& image) {
  return {.name = "test", .dtype = image.dtype(), .sample_shape = image.shape(), .classes = 3};
}

std::vector<float> run(const std::vector<TransformSpec>& specs, const Tensor& image,
                       const DrawKey& key = {}) {
  const Pipeline pipeline(info_of(image), specs);
  std::vector<float> out(static_cast<std::size_t>(pipeline.output_shape().numel()));
  pipeline.apply(image, key, out.data());
  return out;
}

// A pipeline whose arithmetic keeps u8 pixels as they are.
std::vector<TransformSpec> plain(std::vector<TransformSpec> specs) {
  specs.push_back({"normalise", {{"mean", {0}}, {"std", {1.0 / 255}}}});
  return specs;
}

}  // namespace

TEST_CASE("any chain of geometric steps equals the steps one by one", "[transforms]") {
  const Index channels = GENERATE(1, 3, 4);
  const bool floats = GENERATE(false, true);
  const std::vector<float> mean = {50, 51, 52, 53};
  ImageWork work;
  for (std::uint32_t chain = 0; chain < 150; ++chain) {
    RandomStream random({.seed = 7, .call = chain});
    const Index height = 1 + random.below(24), width = 1 + random.below(40);
    const Tensor bytes = random_image(height, width, channels, chain);
    const Tensor image = floats ? Tensor::from(bytes.to_vector<float>(), bytes.shape()) : bytes;
    Picture expected = picture_of(image);
    work.start(image, 255, std::span(mean).first(static_cast<std::size_t>(channels)));
    for (std::uint32_t step = random.below(7); step > 0; --step) {
      switch (random.below(6)) {
        case 0:
          work.mirror();
          expected = mirrored(expected);
          break;
        case 1:
          work.flip();
          expected = flipped(expected);
          break;
        case 2: {
          const Index out_height = 1 + random.below(30), out_width = 1 + random.below(30);
          if (out_height == expected.height && out_width == expected.width) break;
          work.resize(out_height, out_width);
          expected = resized(expected, out_height, out_width);
          break;
        }
        case 3: {  // pad, or cut off
          const Index margin = static_cast<Index>(random.below(7)) - 2;
          if (expected.height + 2 * margin < 1 || expected.width + 2 * margin < 1) break;
          const auto fill = static_cast<float>(random.below(2) * 100);
          work.crop({-margin, -margin, expected.height + 2 * margin, expected.width + 2 * margin}, fill);
          expected = cropped(expected, -margin, -margin, expected.height + 2 * margin,
                             expected.width + 2 * margin, fill);
          break;
        }
        case 4: {
          const Index out_height = 1 + random.below(static_cast<std::uint32_t>(expected.height));
          const Index out_width = 1 + random.below(static_cast<std::uint32_t>(expected.width));
          const Index top = static_cast<Index>(random.below(20)) - 8,
                      left = static_cast<Index>(random.below(20)) - 8;
          work.crop({top, left, out_height, out_width});
          expected = cropped(expected, top, left, out_height, out_width);
          break;
        }
        default: {
          const Index top = static_cast<Index>(random.below(20)) - 4,
                      left = static_cast<Index>(random.below(20)) - 4;
          work.cut_hole({top, left, 5, 3});
          for (Index y = std::max<Index>(top, 0); y < std::min(top + 5, expected.height); ++y) {
            for (Index x = std::max<Index>(left, 0); x < std::min(left + 3, expected.width); ++x) {
              for (Index c = 0; c < channels; ++c) expected.at(y, x, c) = mean[static_cast<std::size_t>(c)];
            }
          }
        }
      }
      REQUIRE(work.height() == expected.height);
      REQUIRE(work.width() == expected.width);
    }
    CHECK(largest_difference(finished(work), expected) < kResampled);
  }
}

TEST_CASE("pending geometry is composed without touching pixels", "[transforms]") {
  const Tensor image = random_image(20, 30, 3);
  const std::vector<float> mean(3);
  ImageWork work;
  work.start(image, 255, mean);
  work.resize(10, 15);
  work.crop({-2, -2, 14, 19});
  work.mirror();
  work.crop({1, 3, 8, 8});
  CHECK(work.view().resampled());
  CHECK(work.view().mirrored);
  CHECK(work.view().support == Rect{0, 0, 20, 30});
  CHECK(work.view().window == Rect{-1, 6, 8, 8});
}

TEST_CASE("resizing agrees with PyTorch's interpolation", "[transforms]") {
  // torch.nn.functional.interpolate(x, size, mode="bilinear", antialias=…) of x[i,j] = (7 i + 3 j) mod 11,
  // 6×5.
  std::vector<float> pixels;
  for (int i = 0; i < 6; ++i) {
    for (int j = 0; j < 5; ++j) pixels.push_back(static_cast<float>((7 * i + 3 * j) % 11));
  }
  const Tensor image = Tensor::from(pixels, {6, 5, 1});
  const auto check = [&](double height, double width, const std::vector<float>& expected,
                         double antialias = 1) {
    const std::vector<float> got =
        run({{"resize", {{"size", {height, width}}, {"antialias", {antialias}}}}}, image);
    REQUIRE(got.size() == expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == Approx(expected[i]).margin(1e-4));
  };
  check(3, 2, {5.07143F, 5.28571F, 5.75F, 4.4375F, 5.28571F, 3.85714F});
  check(8, 7,
        {0.0F,     1.71429F, 3.85714F, 6.0F,     8.14286F, 5.57143F, 1.0F,     4.375F,   6.08929F, 6.26786F,
         3.5F,     5.64286F, 6.01786F, 5.375F,   5.5F,     7.21429F, 7.39286F, 4.625F,   3.82143F, 4.78571F,
         6.5F,     3.875F,   4.80357F, 6.35714F, 8.5F,     3.76786F, 2.57143F, 3.5F,     9.125F,   5.33929F,
         3.35714F, 5.5F,     6.66071F, 4.28571F, 0.5F,     7.5F,     6.85714F, 5.26786F, 2.5F,     4.64286F,
         5.01786F, 4.375F,   4.5F,     6.21429F, 6.39286F, 3.625F,   2.82143F, 3.78571F, 5.5F,     2.0F,
         3.71429F, 5.85714F, 8.0F,     2.28571F, 1.28571F, 3.0F});
  check(3, 2, {5.75F, 6.375F, 4.625F, 3.875F, 6.25F, 2.75F}, 0);
  check(2, 4, {7.375F, 7.0F, 3.875F, 7.625F, 6.375F, 6.0F, 2.875F, 6.625F}, 0);
}

TEST_CASE("a resize without antialiasing keeps its own filter among others", "[transforms]") {
  // Down to two columns twice: the first reduction sees two pixels in each direction, the second one all.
  const Tensor image = Tensor::from(std::vector<std::uint8_t>{0, 0, 0, 255, 0, 0, 0, 0}, {1, 8, 1});
  const std::vector<float> mean = {0};
  ImageWork work;
  work.start(image, 255, mean);
  work.resize(1, 4, false);
  work.resize(1, 2);
  CHECK(finished(work).values[0] == Approx(255 * 0.5 * 3 / 7).epsilon(1e-5));  // of 0, 127.5, 0 and 0
  work.start(image, 255, mean);
  work.resize(1, 3, false);
  CHECK(finished(work).values[0] == 0.0F);
  CHECK(finished(work).values[1] == Approx(127.5F));
}

TEST_CASE("normalisation is per channel, of pixels in 0 to 1", "[transforms]") {
  const Tensor image = random_image(3, 50, 3);
  const std::vector<float> out =
      run({{"normalize", {{"mean", {0.1, 0.2, 0.3}}, {"std", {0.5, 0.25, 2}}}}}, image);
  const auto pixels = image.to_vector<float>();
  const float mean[] = {0.1F, 0.2F, 0.3F}, stddev[] = {0.5F, 0.25F, 2};
  for (std::size_t i = 0; i < out.size(); ++i) {
    REQUIRE(out[i] == Approx((pixels[i] / 255 - mean[i % 3]) / stddev[i % 3]).margin(1e-5));
  }
  // Features of rank 1 take one mean and deviation.
  const Tensor features = Tensor::from({1, 2, 3, 4}, {4});
  CHECK(run({{"normalise", {{"mean", {1}}, {"std", {2}}}}}, features) ==
        std::vector<float>{0, 0.5F, 1, 1.5F});
  CHECK_THROWS_WITH(run({{"normalise", {{"mean", {1, 2}}}}}, image),
                    Contains("2 means") && Contains("3 channels"));
  CHECK_THROWS_WITH(run({{"normalise", {{"std", {0}}}}}, image), Contains("std: expected number ≥ 1e-12"));
  CHECK_THROWS_WITH(run({{"horizontal_flip", {}}}, features), Contains("needs images"));
}

TEST_CASE("random_crop moves the image by up to the padding, evenly", "[transforms]") {
  const Tensor image = random_image(6, 5, 1);
  const Picture in = picture_of(image);
  std::map<std::pair<Index, Index>, int> seen;
  for (std::uint32_t sample = 0; sample < 900; ++sample) {
    Picture out(6, 5, 1);
    out.values = run(plain({{"random_crop", {{"padding", {1}}, {"fill", {0.2}}}}}), image,
                     {.seed = 1, .sample = sample});
    int matches = 0;
    for (Index top = -1; top <= 1; ++top) {
      for (Index left = -1; left <= 1; ++left) {
        if (largest_difference(out, cropped(in, top, left, 6, 5, 51)) < 1e-3) {
          ++seen[{top, left}];
          ++matches;
        }
      }
    }
    REQUIRE(matches == 1);
  }
  CHECK(seen.size() == 9);
  for (const auto& [where, count] : seen) CHECK((count > 60 && count < 140));  // 100 ± 4 standard deviations
  CHECK_THROWS_WITH(run({{"random_crop", {{"size", {8}}, {"padding", {0}}}}}, image),
                    Contains("8x8") && Contains("6x5"));
}

TEST_CASE("flips happen with their probability", "[transforms]") {
  const Tensor image = random_image(4, 5, 3);
  const std::vector<float> in = image.to_vector<float>();
  const std::vector<float> turned = mirrored(picture_of(image)).values,
                           upside = flipped(picture_of(image)).values;
  int count = 0;
  for (std::uint32_t sample = 0; sample < 400; ++sample) {
    const std::vector<float> out =
        run(plain({{"horizontal_flip", {{"probability", {0.25}}}}}), image, {.sample = sample});
    const auto equals = [&](const std::vector<float>& other) {
      for (std::size_t i = 0; i < out.size(); ++i) {
        if (std::abs(out[i] - other[i]) > 1e-3F) return false;
      }
      return true;
    };
    REQUIRE((equals(in) || equals(turned)));
    count += equals(turned);
  }
  CHECK((count > 65 && count < 135));  // 100 ± 4 standard deviations
  const std::vector<float> out = run(plain({{"vertical_flip", {{"probability", {1}}}}}), image);
  for (std::size_t i = 0; i < out.size(); ++i) REQUIRE(out[i] == Approx(upside[i]).margin(1e-3));
}

TEST_CASE("random_resized_crop shows parts of legal area and aspect", "[transforms]") {
  // Pixels hold their own position, so the crop can be read off a nearly unscaled result.
  const Index side = 64;
  std::vector<float> ramp;
  for (Index y = 0; y < side; ++y) {
    for (Index x = 0; x < side; ++x) {
      ramp.push_back(static_cast<float>(y));
      ramp.push_back(static_cast<float>(x));
    }
  }
  const Tensor image = Tensor::from(ramp, {side, side, 2});
  for (std::uint32_t sample = 0; sample < 200; ++sample) {
    const std::vector<float> out =
        run({{"random_resized_crop", {{"size", {32}}, {"scale", {0.3, 0.6}}, {"ratio", {0.8, 1.25}}}}}, image,
            {.sample = sample});
    // The centres of pixels 8 and 23 lie 15/32 of the crop apart, away from the borders.
    const auto at = [&](std::size_t y, std::size_t x, std::size_t c) { return out[(y * 32 + x) * 2 + c]; };
    const double height = (at(23, 16, 0) - at(8, 16, 0)) * 32 / 15,
                 width = (at(16, 23, 1) - at(16, 8, 1)) * 32 / 15;
    CHECK(height * width / (side * side) == Approx(0.45).margin(0.18));
    CHECK((width / height > 0.74 && width / height < 1.35));  // sides are rounded to pixels
  }
}

TEST_CASE("colour jitter equals its definition", "[transforms]") {
  const Tensor image = random_image(7, 6, 3);
  const Picture in = picture_of(image);
  const auto clip = [](double value) { return std::clamp(value, 0.0, 255.0); };
  const auto grey = [](const Picture& picture, Index y, Index x) {
    return 0.299 * picture.at(y, x, 0) + 0.587 * picture.at(y, x, 1) + 0.114 * picture.at(y, x, 2);
  };
  double mean = 0;
  for (Index y = 0; y < in.height; ++y) {
    for (Index x = 0; x < in.width; ++x) mean += grey(in, y, x) / static_cast<double>(in.height * in.width);
  }
  const std::string which = GENERATE("brightness", "contrast", "saturation");
  std::vector<double> factors;
  for (std::uint32_t sample = 0; sample < 40; ++sample) {
    TransformSpec spec{"color_jitter", {{"brightness", {0}}, {"contrast", {0}}, {"saturation", {0}}}};
    spec.parameters[which] = {0.5};
    Picture out(7, 6, 3);
    out.values = run(plain({spec}), image, {.sample = sample});
    // Finds the factor from one unclipped pixel, then checks every pixel with it.
    const auto from = [&](Index y, Index x) {
      return which == "brightness" ? 0 : which == "contrast" ? mean : grey(in, y, x);
    };
    double factor = -1;
    for (Index y = 0; y < 7 && factor < 0; ++y) {
      for (Index x = 0; x < 6 && factor < 0; ++x) {
        const double value = out.at(y, x, 0), distance = in.at(y, x, 0) - from(y, x);
        if (value > 1 && value < 254 && std::abs(distance) > 30) factor = (value - from(y, x)) / distance;
      }
    }
    REQUIRE((factor >= 0.5 - 1e-3 && factor <= 1.5 + 1e-3));
    factors.push_back(factor);
    const Picture expected = mapped(7, 6, 3, [&](Index y, Index x, Index c) {
      return static_cast<float>(clip(from(y, x) + factor * (in.at(y, x, c) - from(y, x))));
    });
    CHECK(largest_difference(out, expected) < 0.05);
  }
  CHECK(*std::max_element(factors.begin(), factors.end()) > 1.3);
  CHECK(*std::min_element(factors.begin(), factors.end()) < 0.7);
}

// The steps commute but for clipping. Of a pixel at 200 and one at 0, a brightness beyond 1.275 clips the
// first where it comes first, and what a contrast below 1 then makes of 255 and 0 adds up to 255; where it
// comes last it clips the first pixel alone. Both are seen in 36.25 % · 50 % and 15.1 % · 50 % of the draws
// of that order.
TEST_CASE("colour jitter takes its steps in any order", "[transforms]") {
  const Tensor image = Tensor::from(std::vector<std::uint8_t>{200, 0}, {1, 2, 1});
  const TransformSpec spec{"color_jitter", {{"brightness", {1}}, {"contrast", {1}}, {"saturation", {0}}}};
  constexpr std::uint32_t kDraws = 4000;
  double brightness_first = 0, contrast_first = 0;
  for (std::uint32_t sample = 0; sample < kDraws; ++sample) {
    const std::vector<float> out = run(plain({spec}), image, {.sample = sample});
    if (out[1] < 0.5F || out[1] > 126) continue;
    if (out[0] < 254.9F && std::abs(out[0] + out[1] - 255) < 0.1F) ++brightness_first;
    if (out[0] > 254.9F) ++contrast_first;
  }
  CHECK(brightness_first / kDraws == Approx(0.181 / 2).margin(0.014));
  CHECK(contrast_first / kDraws == Approx(0.0755 / 2).margin(0.01));
}

TEST_CASE("center_crop takes the middle; of an odd number of pixels one more goes behind, or is added before",
          "[transforms]") {
  const auto middle = [](Index extent, Index size) {
    std::vector<std::uint8_t> pixels;
    for (Index i = 1; i <= extent * extent; ++i) pixels.push_back(static_cast<std::uint8_t>(i));
    const Tensor image = Tensor::from(pixels, {extent, extent, 1});
    return run(plain({{"center_crop", {{"size", {static_cast<double>(size)}}}}}), image);
  };
  CHECK(middle(4, 2) == std::vector<float>{6, 7, 10, 11});
  CHECK(middle(3, 2) == std::vector<float>{1, 2, 4, 5});
  CHECK(middle(2, 4) == std::vector<float>{0, 0, 0, 0, 0, 1, 2, 0, 0, 3, 4, 0, 0, 0, 0, 0});
  CHECK(middle(2, 3) == std::vector<float>{0, 0, 0, 0, 1, 2, 0, 3, 4});
}

TEST_CASE("cutout shows the mean in its squares", "[transforms]") {
  const Tensor image = random_image(12, 12, 3);
  const std::vector<float> untouched = run({}, image);
  int cut_above = 0, cut_below = 0;
  for (std::uint32_t sample = 0; sample < 50; ++sample) {
    const std::vector<float> out =
        run({{"cutout", {{"size", {4}}}}, {"normalise", {{"mean", {0.5}}, {"std", {0.25}}}}}, image,
            {.sample = sample});
    Index top = 12, bottom = -1, left = 12, right = -1, holes = 0;
    for (Index y = 0; y < 12; ++y) {
      for (Index x = 0; x < 12; ++x) {
        const auto at = static_cast<std::size_t>((y * 12 + x) * 3);
        if (out[at] == 0 && out[at + 1] == 0 && out[at + 2] == 0) {
          top = std::min(top, y), bottom = std::max(bottom, y), left = std::min(left, x),
          right = std::max(right, x);
          ++holes;
        } else {
          REQUIRE(out[at] == Approx((untouched[at] - 0.5) / 0.25).margin(1e-4));
        }
      }
    }
    CHECK(holes == (bottom - top + 1) * (right - left + 1));
    CHECK((holes >= 4 && holes <= 16));
    cut_above += bottom - top < 3 && top == 0;
    cut_below += bottom - top < 3 && bottom == 11;
  }
  CHECK(cut_above > 2);  // squares lie around their centres
  CHECK(cut_below > 2);
  // More holes than a view holds.
  const std::vector<float> out = run({{"cutout", {{"size", {3}}, {"holes", {40}}}}}, image);
  CHECK(std::count(out.begin(), out.end(), 0.0F) > 200);
}

TEST_CASE("wrong names and parameters are refused with advice", "[transforms]") {
  const Tensor image = random_image(8, 8, 3);
  CHECK_THROWS_WITH(run({{"randon_crop", {}}}, image),
                    Contains("no transform \"randon_crop\"; did you mean \"random_crop\"?"));
  CHECK_THROWS_WITH(run({{"cutout", {{"sise", {8}}}}}, image),
                    Contains("[cutout] sise: unknown key; did you mean size? (integer in [1, 65536])"));
  CHECK_THROWS_WITH(run({{"cutout", {{"size", {2.5}}}}}, image),
                    Contains("[cutout] size: expected integer in [1, 65536], got 2.5"));
  CHECK_THROWS_WITH(run({{"cutout", {{"size", {-1}}}}}, image),
                    Contains("size: expected integer") && Contains("-1"));
  CHECK_THROWS_WITH(run({{"cutout", {{"size", {std::nan("")}}}}}, image), Contains("size: expected integer"));
  CHECK_THROWS_WITH(run({{"cutout", {{"size", {1, 2}}}}}, image), Contains("size: expected integer"));
  CHECK_THROWS_WITH(run({{"cutout", {{"size", {}}}}}, image), Contains("size has no value"));
  CHECK_THROWS_WITH(run({{"center_crop", {{"size", {1, 2, 3}}}}}, image), Contains("or a list of up to 2"));
  CHECK_THROWS_WITH(run({{"random_resized_crop", {{"scale", {0.5}}}}}, image),
                    Contains("[random_resized_crop] scale must be a range [low, high]"));
  CHECK_THROWS_WITH(run({{"random_resized_crop", {{"ratio", {2, 1}}}}}, image),
                    Contains("[random_resized_crop] ratio must be a range [low, high]"));
  CHECK_THROWS_WITH(run({{"horizontal_flip", {{"probability", {1.001}}}}}, image),
                    Contains("probability: expected number in [0, 1], got 1.001"));
  CHECK_THROWS_WITH(run({{"horizontal_flip", {{"probability", {-0.001}}}}}, image),
                    Contains("expected number in [0, 1]"));
  CHECK_THROWS_WITH(run({{"resize", {}}}, image), Contains("either size or shorter"));
  CHECK_THROWS_WITH(run({{"mixup", {}}, {"mixup", {}}}, image), Contains("twice"));
  DatasetInfo varying = info_of(image);
  varying.sample_shape = {0, 0, 3};
  CHECK_THROWS_WITH(Pipeline(varying), Contains("differ in size"));
  const std::vector<TransformSpec> crop = {{"random_crop", {}}};
  CHECK_THROWS_WITH(Pipeline(varying, crop), Contains("differ in size"));
  const Pipeline fixed(info_of(image));
  std::vector<float> out(192);
  CHECK_THROWS_WITH(fixed.apply(random_image(8, 9, 3), {}, out.data()), Contains("8x9"));
  CHECK_THROWS_WITH(fixed.apply(random_image(8, 8, 1), {}, out.data()), Contains("[8,8,1]"));
}

TEST_CASE("a spec keeps what is given beside its defaults", "[transforms]") {
  using options::Given, options::Value;
  const auto spec_of = [](const Given& given) {
    Value object(given);
    CHECK(options::validate(TransformSpec::schema(), object).empty());
    TransformSpec spec;
    options::store_options(TransformSpec::schema(), &spec, object);
    return spec;
  };
  const TransformSpec crop =
      spec_of({{"name", "random_crop"}, {"size", std::vector{8, 9}}, {"padding", 4.0}});
  CHECK(crop.parameters == std::map<std::string, std::vector<double>>{{"size", {8, 9}}});
  CHECK(to_string(options::load_options(TransformSpec::schema(), &crop)) ==
        R"({"name":"random_crop","size":[8.0,9.0],"padding":4.0,"fill":0.0})");
  CHECK(spec_of({{"name", "resize"}, {"size", 0}}).parameters.empty());
  CHECK(spec_of({{"name", "normalise"}, {"mean", 0.5}}).parameters.at("mean") == std::vector{0.5});
  // One side is both, however it is written.
  for (const std::vector<double>& side : {std::vector{6.0}, std::vector{6.0, 6.0}})
    CHECK(Pipeline(info_of(random_image(8, 8, 1)),
                   std::vector<TransformSpec>{{"center_crop", {{"size", side}}}})
              .output_shape() == Shape{6, 6, 1});
}

TEST_CASE("random_resized_crop takes the middle where no part of legal aspect fits", "[transforms]") {
  const auto shown = [](Index height, Index width, double out_height, double out_width) {
    std::vector<std::uint8_t> pixels;
    for (Index y = 0; y < height; ++y)
      for (Index x = 0; x < width; ++x) pixels.push_back(static_cast<std::uint8_t>(y + x));
    const Tensor image = Tensor::from(pixels, {height, width, 1});
    return run(plain({{"random_resized_crop", {{"size", {out_height, out_width}}, {"scale", {1, 1}}}}}),
               image);
  };
  CHECK(shown(3, 40, 3, 4) == std::vector<float>{18, 19, 20, 21, 19, 20, 21, 22, 20, 21, 22, 23});
  CHECK(shown(40, 3, 4, 3) == std::vector<float>{18, 19, 20, 19, 20, 21, 20, 21, 22, 21, 22, 23});
}

TEST_CASE("evaluation keeps what is not random", "[transforms]") {
  const std::vector<TransformSpec> training = {{"resize", {{"size", {16}}}},
                                               {"random_crop", {{"size", {12}}}},
                                               {"horizontal_flip", {}},
                                               {"random_resized_crop", {{"size", {7}}}},
                                               {"cutout", {}},
                                               {"mixup", {}},
                                               {"normalise", {{"mean", {0.5}}}}};
  std::vector<std::string> names;
  for (const TransformSpec& spec : evaluation_transforms(training)) names.push_back(spec.name);
  CHECK(names == std::vector<std::string>{"resize", "center_crop", "resize", "center_crop", "normalise"});
  CHECK(Pipeline(info_of(random_image(8, 9, 3)), evaluation_transforms(training)).output_shape() ==
        Shape{7, 7, 3});
  const std::vector<TransformSpec> oblong = {{"random_resized_crop", {{"size", {7, 14}}}}};
  CHECK(evaluation_transforms(oblong)[0].parameters.at("shorter") == std::vector<double>{8});
}

TEST_CASE("random choices depend on seed, epoch, sample and place alone", "[transforms]") {
  const Tensor image = random_image(16, 16, 3);
  const std::vector<TransformSpec> specs = {
      {"random_crop", {}}, {"horizontal_flip", {}}, {"color_jitter", {}}, {"cutout", {}}};
  const DrawKey key{.seed = 5, .epoch = 2, .sample = 77};
  const std::vector<float> once = run(specs, image, key);
  run(specs, image, {.seed = 9});
  CHECK(run(specs, image, key) == once);
  CHECK(run(specs, image, {.seed = 6, .epoch = 2, .sample = 77}) != once);
  CHECK(run(specs, image, {.seed = 5, .epoch = 3, .sample = 77}) != once);
  CHECK(run(specs, image, {.seed = 5, .epoch = 2, .sample = 78}) != once);
  // Two flips in a row draw by themselves: half of the images are mirrored in the end.
  int mirrored = 0;
  for (std::uint32_t sample = 0; sample < 200; ++sample)
    mirrored +=
        run({{"horizontal_flip", {}}, {"horizontal_flip", {}}}, image, {.sample = sample}) != run({}, image);
  CHECK(mirrored == Approx(100).margin(30));
}
