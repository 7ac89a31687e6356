// Structure and cost of a model, for `tandem summary`.
#pragma once

#include <string>
#include <vector>

#include "autograd/op.h"
#include "core/dtype.h"
#include "nn/module.h"

namespace tandem::models {

struct LayerSummary {
  std::string name;         // path; "" for the model itself
  std::string description;  // Module::describe
  int depth = 0;            // 0: the model, 1: its children…
  bool leaf = true;         // has no children
  Shape output;             // of the last call, with the batch; rank 0: did not run
  int calls = 0;
  Index parameters = 0;  // its own; shared ones count at their first place
  Index trainable = 0;
  std::int64_t flop = 0;          // forward, per sample, including children: 2 per multiply-add of products
                                  // (OpTraits); other ops do not count
  std::int64_t own_flop = 0;      // without children
  std::int64_t output_bytes = 0;  // per sample
  // Channels or features of its own product with weights (convolution, per group; linear; recurrent cells); 0
  // without one.
  Index inputs = 0, outputs = 0;
};

// One op of the forward pass, f32, on this machine.
struct OpTime {
  std::string layer;  // path of the module it ran in
  const OpInfo* op = nullptr;
  double seconds = 0.0;   // minimum of several passes
  std::int64_t flop = 0;  // of the pass; 0 except for products
};

struct ModelSummary {
  std::vector<LayerSummary> layers;  // parents before children
  Index parameters = 0, trainable = 0;
  std::int64_t flop = 0;  // forward, per sample; backward takes about twice as much
  Index steps = 0;        // length of a sequence sample; 0: not a sequence
  std::int64_t parameter_bytes = 0, statistic_bytes = 0;
  std::int64_t gradient_bytes = 0;  // of the trainable parameters
  std::int64_t saved_bytes = 0;     // per sample: saved for backward, measured
  // Bytes read and written by ops in forward, per sample, in f32; weights, read once per batch, are separate.
  std::int64_t traffic_bytes = 0;
  std::vector<OpTime> times;  // empty on kShapes
};

// Runs training forwards on zeros of `batch` samples (`batch_axis` of the input) on the model's device, and
// restores the statistics. A model on kShapes (core/shapes_backend.h) gives everything but the times, at
// once. Throws UserError if the model does not fit the samples.
ModelSummary summarise(nn::Module& model, const Shape& sample, DType dtype = DType::f32, Index batch = 2,
                       int batch_axis = 0);

// For several networks: adds `part`, which is at `path` below their root, to `whole`.
void add_part(ModelSummary& whole, ModelSummary part, const std::string& path);

}  // namespace tandem::models
