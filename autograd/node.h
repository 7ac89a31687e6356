// Tape node: the state that one op saves for backward, and the edges to its inputs' producers.
//
// Edges point from a node to the producers of its inputs, so a tensor keeps alive exactly the part of the
// tape that its gradient needs. Nodes are created in execution order; a producer's sequence number is lower
// than its consumers'. Destruction is iterative for chains of any length.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "autograd/op.h"

namespace tandem {

// Required shape, dtype and device of an output's gradient.
struct OutputMeta {
  Shape shape;
  DType dtype = DType::f32;
  Device device;
};

class Node : public RefCounted {
 public:
  Node();

  virtual const OpInfo& info() const = 0;
  // Computes the input gradients from the output gradients, both in the order of the op's members. `saved`
  // stays.
  virtual void backward(std::span<Tensor> output_gradients, std::span<Tensor> input_gradients,
                        const Needs& needs) = 0;
  // Saved tensors of backward; empty once released.
  virtual std::span<const Tensor> saved() const { return {}; }
  // Frees what was saved; a second backward is then an error.
  virtual void release_saved() = 0;

  // For a node of ops that are recorded only in backward (autograd/recompute.h): record_again() records them
  // behind the producers of `inputs` and returns the outputs, from which backward continues; backward() is
  // not called.
  virtual bool is_recomputed() const { return false; }
  virtual TensorList record_again() { return {}; }

  std::uint64_t sequence() const { return sequence_; }
  // Sequence number of the last node that was created.
  static std::uint64_t newest();
  std::vector<GradientEdge> inputs;  // an empty edge: no gradient wanted
  std::vector<OutputMeta> outputs;

 protected:
  ~Node() override = default;
  void dispose() override;

 private:
  friend class Engine;
  // Working state of the engine, valid during the run with this number.
  struct Run {
    std::uint64_t number = 0;
    std::uint32_t dependencies = 0;  // consumers in this run that have not delivered yet
    bool needed = false;
    std::vector<Tensor> gradients;  // one per output
  };
  Run run_;
  std::uint64_t sequence_;
};

inline Node* node_of(const Tensor& tensor) { return static_cast<Node*>(tensor.edge().node.get()); }

}  // namespace tandem
