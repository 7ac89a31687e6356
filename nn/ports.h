// Ports: named inputs and outputs of a module that does not take a single tensor with the batch first.
// Model-independent code, such as exports, calls it by them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "core/shape.h"

namespace tandem::nn {

struct Port {
  // Extents that vary between calls: rows of a batch, elements of a sequence, and those of earlier calls.
  static constexpr Index kRows = -1, kSteps = -2, kPast = -3;

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

}  // namespace tandem::nn
