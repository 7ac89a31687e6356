#include "models/mlp.h"

#include "models/layer_types.h"
#include "nn/layers/batch_norm.h"
#include "nn/layers/dropout.h"
#include "nn/layers/linear.h"
#include "nn/layers/shape.h"

namespace tandem::models {

std::shared_ptr<nn::Sequential> mlp(const MlpOptions& options) {
  auto model = std::make_shared<nn::Sequential>();
  model->add("flatten", std::make_shared<nn::Flatten>());
  Index features = options.in_features;
  for (std::size_t i = 0; i < options.hidden.size(); ++i) {
    const std::string number = std::to_string(i + 1);
    const bool fused = options.batch_norm && options.activation == "relu";
    model->add("fc" + number, std::make_shared<nn::Linear>(features, options.hidden[i]));
    features = options.hidden[i];
    if (options.batch_norm)
      model->add("bn" + number,
                 std::make_shared<nn::BatchNorm>(features, nn::BatchNormLayerOptions{.relu = fused}));
    if (!fused) model->add("activation" + number, new_activation(options.activation));
    if (options.dropout > 0.0) model->add("dropout" + number, std::make_shared<nn::Dropout>(options.dropout));
  }
  model->add("fc" + std::to_string(options.hidden.size() + 1),
             std::make_shared<nn::Linear>(features, options.num_classes));
  return model;
}

}  // namespace tandem::models
