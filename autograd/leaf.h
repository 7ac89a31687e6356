// Leaves: tensors that own a gradient. A Parameter is the leaf that models and optimizers use.
#pragma once

#include <functional>
#include <string>

#include "autograd/node.h"

namespace tandem {

// The end of the tape. Gradients are accumulated in the dtype of the leaf, which is f32 or f64 for anything
// trained.
class Leaf : public Node {
 public:
  explicit Leaf(const Tensor& value);

  const OpInfo& info() const override;
  void backward(std::span<Tensor>, std::span<Tensor>, const Needs&) override;
  void release_saved() override {}

  // The accumulated gradient; absent when there is none since the last clear.
  Tensor gradient() const { return !has_gradient_ ? Tensor{} : taped_.defined() ? taped_ : gradient_; }
  void clear_gradient() {
    has_gradient_ = false;
    taped_ = {};
    if (!fixed_) gradient_ = {};
  }
  // Adds `gradient`; throws UserError when shape or device differ. Under create_graph the sum is taped, and a
  // flat buffer receives its values.
  void accumulate(const Tensor& gradient, bool create_graph);
  // Gradients are written into this buffer from now on (a range of a flat buffer), which is not cleared
  // first. `marks`, of a leaf [V,E] of which a step touches few rows: u8 [V], zero beside a buffer of zeros.
  // From then on the buffer is zero in every row without a mark, whoever has written it: it holds the dense
  // gradient, and what passes over it may leave such rows out.
  void set_gradient_buffer(const Tensor& buffer, const Tensor& marks = {});
  // Where a kernel may write the next contribution directly. Marks for an op that `marks_rows`.
  GradOutput sink(bool marks_rows = false);
  // After a write that marked none, or one of unknown rows.
  void mark_all_rows();
  // For the owner of a value that has moved. Drops the gradient.
  void set_device(Device device);
  void mark_written() {
    has_gradient_ = true;
    taped_ = {};
  }

  // Called in backward once the last edge of this leaf in the run has delivered.
  std::function<void(Leaf&)> on_ready;

 private:
  Tensor gradient_;
  Tensor taped_;  // the sum with its tape after a create_graph run, until something untaped is added
  bool has_gradient_ = false;
  bool fixed_ = false;  // gradient_ is a range of a flat buffer
  Tensor marks_;
};

// A tensor that shares `value`'s storage and collects a gradient. Throws UserError unless `value` is
// floating.
Tensor leaf(const Tensor& value);
// The gradient that backward left on a leaf; absent when there is none. Throws UserError for a tensor that is
// no leaf.
Tensor gradient_of(const Tensor& leaf);
void clear_gradient_of(const Tensor& leaf);

// How a parameter is laid out in files, which follow PyTorch: filters are [O,KH,KW,I] here and OIHW there.
enum class ParameterLayout : std::uint8_t {
  plain,              // the same in both
  filter,             // [O,KH,KW,I] ↔ [O,I,KH,KW]
  transposed_filter,  // [I,KH,KW,O] ↔ [I,O,KH,KW]
  filter1d,           // [O,K,I] ↔ [O,I,K]
};

// A named leaf with an FP32 master. A handle: copies name the same parameter.
class Parameter {
 public:
  Parameter() = default;
  explicit Parameter(const Tensor& initial, ParameterLayout layout = ParameterLayout::plain);

  bool defined() const { return static_cast<bool>(state_); }
  const std::string& name() const { return state_->name; }  // "layer1.0.conv1.weight"; set by the root module
  void set_name(std::string name) { state_->name = std::move(name); }
  ParameterLayout layout() const { return state_->layout; }

  // The tensor that ops take: the master, with this leaf as its edge unless the parameter is frozen.
  Tensor tensor() const;
  operator Tensor() const { return tensor(); }
  // The master without an edge; in-place writers call value().storage()->bump_version().
  const Tensor& value() const { return state_->value; }
  Tensor gradient() const { return state_->gradient(); }
  Leaf& leaf() const { return *state_; }

  bool trainable() const { return state_->trainable; }
  void set_trainable(bool trainable) { state_->trainable = trainable; }

  // A table [V,E] that a model reads by rows, of which a step touches few: its gradient may be kept by rows.
  bool by_rows() const { return state_->by_rows; }
  void set_by_rows() { state_->by_rows = true; }

  // Moves the value to a device; a gradient and working copies are dropped. Not after move_into.
  void to(Device device);
  // Moves value and gradient into ranges of flat buffers; the value is copied. `marks`: see
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

// Its tensor; absent where there is no such parameter, as in a layer without bias.
inline Tensor tensor_if_defined(const Parameter& parameter) {
  return parameter.defined() ? parameter.tensor() : Tensor{};
}

// The 16-bit copy of the parameter whose master `tensor` names, with the same gradient edge: the gradient of
// the copy is the master's. It is made at the first use and renewed when the master's storage has been
// written since. Absent when `tensor` is not a whole parameter. Used by the one thread that drives the
// device.
Tensor working_copy(const Tensor& tensor, DType dtype);
// Keeps the copy in `buffer` from now on, for a writer of the master that writes the copy in the same pass
// and says so with mark_working_copy_current.
void set_working_copy(const Parameter& parameter, const Tensor& buffer);
void mark_working_copy_current(const Parameter& parameter, DType dtype);
// Whether a copy is kept that has been used.
bool has_working_copy(const Tensor& master, DType dtype);
// Every copy of the masters on this storage is renewed before its next use, whatever was said of it.
void expire_working_copies(const Tensor& master);

}  // namespace tandem
