#include "models/lenet.h"

#include "core/error.h"
#include "models/layer_types.h"
#include "nn/layers/conv.h"
#include "nn/layers/linear.h"
#include "nn/layers/pool.h"
#include "nn/layers/shape.h"

namespace tandem::models {

std::shared_ptr<nn::Sequential> lenet5(const LeNetOptions& options) {
  const Index padding = options.height < 32 || options.width < 32 ? 2 : 0;
  const auto extent = [&](Index pixels) { return ((pixels + 2 * padding - 4) / 2 - 4) / 2; };
  const Index height = extent(options.height);
  const Index width = extent(options.width);
  require(height > 0 && width > 0, "lenet5", "images of {}×{} are too small: at least 12×12 are needed",
          options.height, options.width);

  auto model = std::make_shared<nn::Sequential>();
  const auto add_pool = [&](std::string name) {
    if (options.average_pool) {
      model->add(std::move(name), std::make_shared<nn::AvgPool2d>(2));
    } else {
      model->add(std::move(name), std::make_shared<nn::MaxPool2d>(2));
    }
  };
  model->add("conv1", std::make_shared<nn::Conv2d>(options.in_channels, 6, 5,
                                                   nn::ConvOptions{.padding = {padding, padding}}));
  model->add("activation1", new_activation(options.activation));
  add_pool("pool1");
  model->add("conv2", std::make_shared<nn::Conv2d>(6, 16, 5));
  model->add("activation2", new_activation(options.activation));
  add_pool("pool2");
  model->add("flatten", std::make_shared<nn::Flatten>(nn::FlattenOrder::chw));
  model->add("fc1", std::make_shared<nn::Linear>(16 * height * width, 120));
  model->add("activation3", new_activation(options.activation));
  model->add("fc2", std::make_shared<nn::Linear>(120, 84));
  model->add("activation4", new_activation(options.activation));
  model->add("fc3", std::make_shared<nn::Linear>(84, options.num_classes));
  return model;
}

}  // namespace tandem::models
