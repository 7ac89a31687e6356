#include "bench/conv_shapes.h"

#include <charconv>
#include <tuple>

#include "core/error.h"

namespace tandem::bench {

namespace {

using cpu::onednn::Convolution;
using Extents = std::array<Index, 2>;

constexpr Index kBatch = 16, kLargest = 1 << 20;
constexpr Extents kOnes{1, 1};

class Reader {
 public:
  explicit Reader(std::string_view text) : whole_(text), left_(text) {}

  bool done() const { return left_.empty(); }
  char letter() {
    const char found = done() ? '\0' : left_.front();
    left_.remove_prefix(done() ? 0 : 1);
    return found;
  }
  void expect(char separator) { check(letter() == separator); }

  Index number(Index least = 1) {
    Index value = 0;
    const auto [end, error] = std::from_chars(left_.data(), left_.data() + left_.size(), value);
    check(error == std::errc() && value >= least && value <= kLargest);
    left_.remove_prefix(static_cast<std::size_t>(end - left_.data()));
    return value;
  }
  Extents extents(Index least = 1) {
    const Index first = number(least);
    if (left_.empty() || left_.front() != 'x') return {first, first};
    letter();
    return {first, number(least)};
  }

  void check(bool sound) const {
    require(
        sound, whole_,
        "expected a name such as 64>128@28k3s2b16: 64 channels in and 128 out, images of 28×28, a kernel "
        "of 3×3, stride 2 and batch 16; p, d and g are padding, dilation and groups, and 28x30 is a height "
        "and a width");
  }

 private:
  std::string_view whole_, left_;
};

// Padding that keeps the extent at stride 1, rounded down.
Extents usual_padding(const Convolution& p) {
  const auto& d = p.options.dilation;
  return {d[0] * (p.kernel_height - 1) / 2, d[1] * (p.kernel_width - 1) / 2};
}

Index reached(Index extent, Index kernel, const Conv2dOptions& o, int axis) {
  const Index rest = extent + 2 * o.padding[axis] - o.dilation[axis] * (kernel - 1) - 1;
  return rest < 0 ? 0 : rest / o.stride[axis] + 1;
}

std::string text_of(const Extents& extents) {
  return extents[0] == extents[1] ? std::to_string(extents[0]) : fmt::format("{}x{}", extents[0], extents[1]);
}

}  // namespace

Convolution parse_convolution(std::string_view text) {
  Reader reader(text);
  Convolution p{.batch = kBatch, .kernel_height = 3, .kernel_width = 3, .options = {}};
  p.channels = reader.number();
  reader.expect('>');
  p.out_channels = reader.number();
  reader.expect('@');
  std::tie(p.height, p.width) = std::tuple_cat(reader.extents());
  std::string seen;
  while (!reader.done()) {
    const char letter = reader.letter();
    reader.check(seen.find(letter) == std::string::npos);
    seen += letter;
    switch (letter) {
      case 'k':
        std::tie(p.kernel_height, p.kernel_width) = std::tuple_cat(reader.extents());
        break;
      case 's':
        p.options.stride = reader.extents();
        break;
      case 'd':
        p.options.dilation = reader.extents();
        break;
      case 'p':
        p.options.padding = reader.extents(0);
        break;
      case 'g':
        p.options.groups = reader.number();
        break;
      case 'b':
        p.batch = reader.number();
        break;
      default:
        reader.check(false);
    }
  }
  if (seen.find('p') == std::string::npos) p.options.padding = usual_padding(p);
  require(p.channels % p.options.groups == 0 && p.out_channels % p.options.groups == 0, text,
          "{} groups do not divide {} and {} channels", p.options.groups, p.channels, p.out_channels);
  p.out_height = reached(p.height, p.kernel_height, p.options, 0);
  p.out_width = reached(p.width, p.kernel_width, p.options, 1);
  require(p.out_height > 0 && p.out_width > 0, text,
          "a kernel of {}×{} is larger than images of {}×{} with their padding", p.kernel_height,
          p.kernel_width, p.height, p.width);
  return p;
}

std::string short_name(const Convolution& p) {
  const auto& o = p.options;
  std::string text = fmt::format("{}>{}@{}", p.channels, p.out_channels, text_of({p.height, p.width}));
  const Extents kernel{p.kernel_height, p.kernel_width};
  if (kernel != Extents{3, 3}) text += 'k' + text_of(kernel);
  if (o.stride != kOnes) text += 's' + text_of(o.stride);
  if (o.dilation != kOnes) text += 'd' + text_of(o.dilation);
  if (o.padding != usual_padding(p)) text += 'p' + text_of(o.padding);
  if (o.groups != 1) text += fmt::format("g{}", o.groups);
  return text + fmt::format("b{}", p.batch);
}

namespace {

struct Row {
  std::string_view name;
  std::array<int, 3> passes;
};

std::vector<Layer> layers(std::initializer_list<Row> rows) {
  std::vector<Layer> result;
  for (const Row& row : rows) result.push_back({parse_convolution(row.name), row.passes});
  return result;
}

}  // namespace

std::span<const Network> networks() {
  static const std::vector<Network> all{
      {"resnet20", layers({{"1>16@28b128", {1, 0, 1}},  // images have no gradient
                           {"16>16@28b128", {6, 6, 6}},
                           {"16>32@28s2b128", {1, 1, 1}},
                           {"16>32@28k1s2b128", {1, 1, 1}},
                           {"32>32@14b128", {5, 5, 5}},
                           {"32>64@14s2b128", {1, 1, 1}},
                           {"32>64@14k1s2b128", {1, 1, 1}},
                           {"64>64@7b128", {5, 5, 5}}})},
      {"resnet50", layers({{"3>64@224k7s2b16", {1, 0, 1}},  {"64>64@56k1b16", {1, 1, 1}},
                           {"256>64@56k1b16", {2, 2, 2}},   {"64>64@56b16", {3, 3, 3}},
                           {"64>256@56k1b16", {4, 4, 4}},   {"256>128@56k1b16", {1, 1, 1}},
                           {"128>128@56s2b16", {1, 1, 1}},  {"256>512@56k1s2b16", {1, 1, 1}},
                           {"512>128@28k1b16", {3, 3, 3}},  {"128>128@28b16", {3, 3, 3}},
                           {"128>512@28k1b16", {4, 4, 4}},  {"512>256@28k1b16", {1, 1, 1}},
                           {"256>256@28s2b16", {1, 1, 1}},  {"512>1024@28k1s2b16", {1, 1, 1}},
                           {"1024>256@14k1b16", {5, 5, 5}}, {"256>256@14b16", {5, 5, 5}},
                           {"256>1024@14k1b16", {6, 6, 6}}, {"1024>512@14k1b16", {1, 1, 1}},
                           {"512>512@14s2b16", {1, 1, 1}},  {"1024>2048@14k1s2b16", {1, 1, 1}},
                           {"2048>512@7k1b16", {2, 2, 2}},  {"512>512@7b16", {2, 2, 2}},
                           {"512>2048@7k1b16", {3, 3, 3}}})},
      {"unet", layers({{"1>16@64b16", {1, 0, 1}},
                       {"16>16@64b16", {2, 2, 2}},
                       {"16>32@32b16", {1, 1, 1}},
                       {"32>32@32b16", {2, 2, 2}},
                       {"32>64@16b16", {1, 1, 1}},
                       {"64>64@16b16", {2, 2, 2}},
                       {"64>128@8b16", {1, 1, 1}},
                       {"128>128@8b16", {1, 1, 1}},
                       {"64>128@16k2s2b16", {1, 1, 1}},
                       {"128>64@16b16", {1, 1, 1}},
                       {"32>64@32k2s2b16", {1, 1, 1}},
                       {"64>32@32b16", {1, 1, 1}},
                       {"16>32@64k2s2b16", {1, 1, 1}},
                       {"32>16@64b16", {1, 1, 1}},
                       {"16>11@64k1b16", {1, 1, 1}}})},
      // Discriminator and generator have the same shapes, except the last and first layers.
      {"dcgan", layers({{"1>32@32k4s2b64", {4, 3, 3}},
                        {"32>64@16k4s2b64", {4, 5, 3}},
                        {"64>128@8k4s2b64", {4, 5, 3}},
                        {"128>1@4k4p0b64", {3, 3, 2}},
                        {"128>100@4k4p0b64", {0, 2, 1}}})},
      // The depthwise layers of ssdlite320_mobilenet_v3.
      {"ssdlite320", layers({{"16>16@160g16b8", {1, 1, 1}},       {"64>64@160s2g64b8", {1, 1, 1}},
                             {"72>72@80g72b8", {1, 1, 1}},        {"72>72@80k5s2g72b8", {1, 1, 1}},
                             {"120>120@40k5g120b8", {2, 2, 2}},   {"240>240@40s2g240b8", {1, 1, 1}},
                             {"200>200@20g200b8", {1, 1, 1}},     {"184>184@20g184b8", {2, 2, 2}},
                             {"480>480@20g480b8", {1, 1, 1}},     {"672>672@20g672b8", {3, 3, 3}},
                             {"672>672@20k5s2g672b8", {1, 1, 1}}, {"480>480@10k5g480b8", {2, 2, 2}},
                             {"480>480@10g480b8", {2, 2, 2}},     {"256>256@10s2g256b8", {1, 1, 1}},
                             {"512>512@5g512b8", {2, 2, 2}},      {"128>128@5s2g128b8", {1, 1, 1}},
                             {"256>256@3g256b8", {2, 2, 2}},      {"128>128@3s2g128b8", {1, 1, 1}},
                             {"256>256@2g256b8", {2, 2, 2}},      {"64>64@2s2g64b8", {1, 1, 1}},
                             {"128>128@1g128b8", {2, 2, 2}}})},
  };
  return all;
}

}  // namespace tandem::bench
