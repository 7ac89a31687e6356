#include "models/dcgan.h"

#include <algorithm>
#include <bit>

#include "core/error.h"
#include "nn/init.h"
#include "nn/layers/activation.h"
#include "nn/layers/batch_norm.h"
#include "nn/layers/conv.h"
#include "nn/layers/shape.h"

namespace tandem::models {

namespace {

constexpr Index kLeast = 8, kMost = 1024;
constexpr Index kSeed = 4;  // side of the smallest map
constexpr double kDeviation = 0.02, kSlope = 0.2;

using Kernel = std::array<Index, 2>;

// Number of doublings from the smallest map to the image.
int levels_of(Index side) { return std::countr_zero(static_cast<std::uint64_t>(side / kSeed)); }

void require_sound(const DcganOptions& options) {
  require(is_dcgan_size(options.image_size), "dcgan",
          "images of {0}×{0} cannot be made by doubling 4×4; a side is one of 8, 16, 32, …, {1}",
          options.image_size, kMost);
  require(options.channels >= 1 && options.noise >= 1 && options.width >= 1, "dcgan",
          "{} channels, a noise of {} and a width of {}: each must be at least 1", options.channels,
          options.noise, options.width);
}

// Initialises modules in order.
void draw(nn::Module& network) {
  network.visit([](const std::string&, nn::Module& module) {
    const bool norm = dynamic_cast<nn::BatchNorm*>(&module) != nullptr;
    for (const auto& [name, parameter] : module.own_parameters()) {
      if (name == "weight") nn::init::normal(parameter.value(), norm ? 1.0 : 0.0, kDeviation);
    }
  });
}

// A list of layers numbered as in PyTorch's example.
class Main {
 public:
  void add(nn::ModulePtr layer) { layers_->add(std::to_string(next_++), std::move(layer)); }
  // A batch norm with fused ReLU, numbered as two layers.
  void add_norm_relu(Index channels) {
    add(std::make_shared<nn::BatchNorm>(channels, nn::BatchNormLayerOptions{.relu = true}));
    ++next_;
  }
  std::shared_ptr<nn::Sequential> network() const {
    auto network = std::make_shared<nn::Sequential>();
    network->add("main", layers_);
    draw(*network);
    return network;
  }

 private:
  std::shared_ptr<nn::Sequential> layers_ = std::make_shared<nn::Sequential>();
  int next_ = 0;
};

}  // namespace

bool is_dcgan_size(Index side) {
  return side >= kLeast && side <= kMost && std::has_single_bit(static_cast<std::uint64_t>(side));
}

Index dcgan_size_for(Index side) {
  return static_cast<Index>(std::bit_ceil(static_cast<std::uint64_t>(std::max(side, kLeast))));
}

std::shared_ptr<nn::Sequential> dcgan_generator(const DcganOptions& options) {
  require_sound(options);
  const auto up = [](Index in, Index out, Index stride, Index padding) {
    nn::ConvTransposeOptions conv;
    conv.stride = {stride, stride};
    conv.padding = {padding, padding};
    conv.bias = false;
    return std::make_shared<nn::ConvTranspose2d>(in, out, Kernel{4, 4}, conv);
  };
  Main main;
  Index channels = options.width << (levels_of(options.image_size) - 1);
  main.add(up(options.noise, channels, 1, 0));
  main.add_norm_relu(channels);
  for (; channels > options.width; channels /= 2) {
    main.add(up(channels, channels / 2, 2, 1));
    main.add_norm_relu(channels / 2);
  }
  main.add(up(channels, options.channels, 2, 1));
  main.add(std::make_shared<nn::Tanh>());
  return main.network();
}

std::shared_ptr<nn::Sequential> dcgan_discriminator(const DcganOptions& options) {
  require_sound(options);
  const auto down = [](Index in, Index out, Index stride, Index padding) {
    return std::make_shared<nn::Conv2d>(
        in, out, Kernel{4, 4},
        nn::ConvOptions{.stride = {stride, stride}, .padding = {padding, padding}, .bias = false});
  };
  Main main;
  Index channels = options.width;
  main.add(down(options.channels, channels, 2, 1));
  main.add(std::make_shared<nn::LeakyRelu>(kSlope));
  for (int level = 1; level < levels_of(options.image_size); ++level, channels *= 2) {
    main.add(down(channels, 2 * channels, 2, 1));
    main.add(std::make_shared<nn::BatchNorm>(2 * channels));
    main.add(std::make_shared<nn::LeakyRelu>(kSlope));
  }
  main.add(down(channels, 1, 1, 0));
  main.add(std::make_shared<nn::Flatten>());
  return main.network();
}

Dcgan::Dcgan(const DcganOptions& options)
    : options_(options),
      generator_(add_child("generator", dcgan_generator(options))),
      discriminator_(add_child("discriminator", dcgan_discriminator(options))) {}

std::string Dcgan::describe() const {
  return fmt::format("Dcgan({0} numbers → {1}×{1}×{2}, width {3})", options_.noise, options_.image_size,
                     options_.channels, options_.width);
}

}  // namespace tandem::models
