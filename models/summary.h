// What a model consists of and costs: the data of `tandem summary`.
#pragma once

#include <span>
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
  Shape output;             // with the batch; of the last call. Rank 0 when it did not run
  int calls = 0;
  Index parameters = 0;  // of its own, each shared one counted where it comes first
  Index trainable = 0;
  std::int64_t flop = 0;      // forward, per sample, its children's included: 2 for each multiply-add of the
                              // products that ops state (OpTraits); other ops are not counted
  std::int64_t own_flop = 0;  // the same without its children's
  std::int64_t output_bytes = 0;  // per sample
  // Channels or features of its own product by weights (convolution, of a group; linear; recurrent cells); 0
  // when it has none.
  Index inputs = 0, outputs = 0;
};

// One op of the forward pass, f32, on this machine.
struct OpTime {
  std::string layer;  // path of the module it ran in
  const OpInfo* op = nullptr;
  double seconds = 0.0;   // the least of several passes
  std::int64_t flop = 0;  // of the pass; 0 for all but products
};

struct ModelSummary {
  std::vector<LayerSummary> layers;  // parents before children
  Index parameters = 0, trainable = 0;
  std::int64_t flop = 0;  // forward, per sample; backward takes about twice as many
  Index steps = 0;        // of a sample that is a sequence; 0: it is none
  std::int64_t parameter_bytes = 0, statistic_bytes = 0;
  std::int64_t gradient_bytes = 0;  // of the trainable parameters
  std::int64_t saved_bytes = 0;     // per sample: kept from forward for backward, measured
  // What ops read and wrote in forward, per sample, in f32; weights count once a batch, so they are apart.
  std::int64_t traffic_bytes = 0;
  std::vector<OpTime> times;  // none of a model on kShapes
};

// Runs training forwards on zeros of `batch` samples, which `batch_axis` of the input counts, on the model's
// device, and takes back what it did to the statistics. A model on kShapes (core/shapes_backend.h) gives
// everything but the times, at once. Throws UserError where the model does not fit the samples.
ModelSummary summarise(nn::Module& model, const Shape& sample, DType dtype = DType::f32, Index batch = 2,
                       int batch_axis = 0);

// A summary of several networks: `part`, which lies at `path` below their root, is added to `whole`.
void add_part(ModelSummary& whole, ModelSummary part, const std::string& path);

}  // namespace tandem::models
