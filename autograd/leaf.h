// Leaves: tensors that own a gradient. A Parameter is the leaf of models and optimizers.
#pragma once

#include <functional>
#include <string>

#include "autograd/node.h"

namespace tandem {

// End of the tape. Gradients are accumulated in the leaf's dtype: f32 or f64 for trained tensors.
class Leaf : public Node {
 public:
  explicit Leaf(const Tensor& value);

  const OpInfo& info() const override;
  void backward(std::span<Tensor>, std::span<Tensor>, const Needs&) override;
  void release_saved() override {}

  // The accumulated gradient; absent if none since the last clear.
  Tensor gradient() const { return !has_gradient_ ? Tensor{} : taped_.defined() ? taped_ : gradient_; }
  void clear_gradient() {
    has_gradient_ = false;
    taped_ = {};
    if (!fixed_) gradient_ = {};
  }
  // Adds `gradient`. Throws UserError when shape or device differ. Under create_graph the sum is taped, and a
  // flat buffer receives its values.
  void accumulate(const Tensor& gradient, bool create_graph);
  // Redirects gradients into this buffer (a range of a flat buffer), which is not cleared first. `marks` is
  // for a sparsely updated leaf [V,E]: u8 [V], zero, with a zero buffer. The buffer holds the dense gradient
  // and is always zero in unmarked rows, so passes over it may skip them.
  void set_gradient_buffer(const Tensor& buffer, const Tensor& marks = {});
  // Destination for a kernel's next contribution, with marks for an op that `marks_rows`.
  GradOutput sink(bool marks_rows = false);
  // After a write to unknown rows, or one that set no marks.
  void mark_all_rows();
  // For the owner of a moved value. Drops the gradient.
  void set_device(Device device);
  void mark_written() {
    has_gradient_ = true;
    taped_ = {};
  }

  // Called in backward once the last edge of this leaf in the run has delivered.
  std::function<void(Leaf&)> on_ready;

 private:
  Tensor gradient_;
  Tensor taped_;  // the sum with its tape after a create_graph run, until an untaped gradient is added
  bool has_gradient_ = false;
  bool fixed_ = false;  // gradient_ is a range of a flat buffer
  Tensor marks_;
};

// A tensor that shares `value`'s storage and accumulates a gradient. Throws UserError unless `value` is
// floating.
Tensor leaf(const Tensor& value);
// The gradient that backward left on a leaf; absent without one. Throws UserError for a tensor that is not a
// leaf.
Tensor gradient_of(const Tensor& leaf);
void clear_gradient_of(const Tensor& leaf);

// Layout of a parameter in files, which follow PyTorch: filters are [O,KH,KW,I] here and OIHW in files.
enum class ParameterLayout : std::uint8_t {
  plain,              // the same in both
  filter,             // [O,KH,KW,I] ↔ [O,I,KH,KW]
  transposed_filter,  // [I,KH,KW,O] ↔ [I,O,KH,KW]
  filter1d,           // [O,K,I] ↔ [O,I,K]
};

// A named leaf with an FP32 master. Copies of this handle share the parameter.
class Parameter {
 public:
  Parameter() = default;
  explicit Parameter(const Tensor& initial, ParameterLayout layout = ParameterLayout::plain);

  bool defined() const { return static_cast<bool>(state_); }
  const std::string& name() const { return state_->name; }  // "layer1.0.conv1.weight"; set by the root module
  void set_name(std::string name) { state_->name = std::move(name); }
  ParameterLayout layout() const { return state_->layout; }

  // The tensor for ops: the master with this leaf as its edge, or without an edge if the parameter is frozen.
  Tensor tensor() const;
  operator Tensor() const { return tensor(); }
  // The master without an edge; in-place writers call value().storage()->bump_version().
  const Tensor& value() const { return state_->value; }
  Tensor gradient() const { return state_->gradient(); }
  Leaf& leaf() const { return *state_; }

  bool trainable() const { return state_->trainable; }
  void set_trainable(bool trainable) { state_->trainable = trainable; }

  // A sparsely updated table [V,E] that the model reads by rows: its gradient may be kept by rows.
  bool by_rows() const { return state_->by_rows; }
  void set_by_rows() { state_->by_rows = true; }

  // Moves the value to a device; drops the gradient and working copies. Not after move_into.
  void to(Device device);
  // Moves value and gradient into ranges of flat buffers; copies the value. `marks`: see
  // Leaf::set_gradient_buffer.
  void move_into(const Tensor& value_buffer, const Tensor& gradient_buffer, const Tensor& marks = {});

  friend bool operator==(const Parameter& a, const Parameter& b) { return a.state_ == b.state_; }

 private:
  struct State final : Leaf {
    using Leaf::Leaf;
    std::string name;
    Tensor value;
    ParameterLayout layout = ParameterLayout::plain;
    bool trainable = true;
    bool by_rows = false;
  };
  Ref<State> state_;
};

// Its tensor; absent without such a parameter, as in a layer without bias.
inline Tensor tensor_if_defined(const Parameter& parameter) {
  return parameter.defined() ? parameter.tensor() : Tensor{};
}

// 16-bit working copy of the parameter with master `tensor`, with the same gradient edge: its gradient is the
// master's. Made at the first use and renewed after writes to the master's storage. Absent when `tensor` is
// not a whole parameter. Only for the thread that drives the device.
Tensor working_copy(const Tensor& tensor, DType dtype);
// Keeps the copy in `buffer` from now on, for a writer of the master that writes the copy in the same pass
// and then calls mark_working_copy_current.
void set_working_copy(const Parameter& parameter, const Tensor& buffer);
void mark_working_copy_current(const Parameter& parameter, DType dtype);
// Whether a working copy exists and has been used.
bool has_working_copy(const Tensor& master, DType dtype);
// Marks every copy of the masters on this storage stale.
void expire_working_copies(const Tensor& master);

}  // namespace tandem
