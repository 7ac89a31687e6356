// Shared parts of recurrent models: a container of layers, and named states.
#pragma once

#include <string>
#include <vector>

#include "models/state.h"
#include "nn/layers/recurrent.h"

namespace tandem::models {

// Children "0", "1", …; has no forward of its own.
class RecurrentLayers final : public nn::Module {
 public:
  explicit RecurrentLayers(const std::vector<std::shared_ptr<nn::Recurrent>>& layers) {
    for (std::size_t i = 0; i < layers.size(); ++i) add_child(std::to_string(i), layers[i]);
  }
  std::string describe() const override { return "RecurrentLayers"; }
};

// The state of recurrent layers is named "h" and, for lstm, "c", with a prefix.
inline RnnState recurrent_state(const State& state, const std::string& prefix = "") {
  return {state.find(prefix + "h"), state.find(prefix + "c")};
}
inline void set_recurrent(State& state, const RnnState& values, const std::string& prefix = "") {
  if (values.h.defined()) state.set(prefix + "h", values.h);
  if (values.c.defined()) state.set(prefix + "c", values.c);
}

}  // namespace tandem::models
