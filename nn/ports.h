// Ports: named inputs and outputs of a module that does not take a single tensor with the batch first.
// Model-independent code, such as exports, calls it by them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/tensor.h"

namespace tandem::nn {

struct Port {
  // Extents that vary between calls: rows of a batch, elements of a sequence, those of earlier calls, and
  // elements of the source of a sequence.
  static constexpr Index kRows = -1, kSteps = -2, kPast = -3, kSource = -4;

  std::string name;
  std::vector<Index> extents;
  DType dtype = DType::f32;  // or i64
};

// Base class beside Module.
class Ports {
 public:
  virtual ~Ports() = default;
  // The arguments of Module::forward_outputs in order; some extents are kRows, kSteps and kPast.
  virtual std::vector<Port> inputs() const = 0;
  // The names of its results.
  virtual std::vector<std::string> outputs() const = 0;
  // The largest kSteps; absent: any number.
  virtual std::optional<Index> longest_steps() const { return {}; }
};

// A graph of a module that has several, such as its encoder. Valid as long as the module.
struct Part {
  std::string name;
  std::vector<Port> inputs;                              // arguments of `forward`
  std::vector<std::string> outputs;                      // names of its results
  std::function<TensorList(const TensorList&)> forward;  // in evaluation mode
  std::optional<Index> longest{};                        // most elements of a sequence; absent: any number
};

// Names of keys and values of attention layers: "PREFIX.0.key", "PREFIX.0.value", "PREFIX.1.key", …
std::vector<std::string> key_value_names(const std::string& prefix, Index layers);

}  // namespace tandem::nn
