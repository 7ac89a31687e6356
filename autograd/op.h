// Definition of an op: one struct with typed inputs, outputs and saved state.
//
//   struct Relu {
//     static constexpr OpInfo info{"relu", CastRule::neutral, {.kind = OpKind::folds}};
//     struct In    { Tensor x; };
//     struct Saved { Tensor y; };
//     struct Out   { Tensor y; };
//     Out forward(Context&, Saved&, const In&) const;
//     In backward(const Saved&, const Out& dy, const Needs&) const;   // written with public ops
//     static Out composed(const Relu&, const In&);                    // optional: fused ops only
//   };
//
// The parameters of forward define the types In, Saved and Out, which may be shared by several ops. They
// consist only of Tensors, or of a single TensorList. An absent input is an empty Tensor; an absent gradient
// in `dy` or from backward means zero, but at least one gradient in `dy` is given. A gradient must have the
// shape of its input; the engine rounds it to the input's dtype. An op without backward is not recorded. An
// op with an empty In has no backward, and a member `options` (TensorOptions) for its result.
//
// `backward` normally runs without a tape, and with one under create_graph, so rules written with public ops
// can be differentiated again. A fused op whose backward calls the backend directly also defines `composed`,
// the same function made of public ops; inside a HigherOrder or ComposedOps scope `apply` runs that instead.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <type_traits>

#include "autograd/op_traits.h"
#include "core/backend.h"
#include "core/grad_output.h"
#include "core/tensor.h"

namespace tandem {

// Rule of mixed precision for an op's `data` inputs; `tandem ls ops` lists the ops of each rule.
enum class CastRule : std::uint8_t {
  lower,    // cast to the 16-bit type; output stays 16-bit
  fp32,     // inputs unchanged, f32 arithmetic, f32 output
  widest,   // all cast to their widest floating dtype
  neutral,  // follows the input
  banned,   // throws UserError inside a 16-bit region
  none,     // ignored by precision policies
};

// "lower", "fp32", …
constexpr const char* name_of(CastRule rule) {
  constexpr const char* names[] = {"lower", "fp32", "widest", "neutral", "banned", "none"};
  return names[static_cast<int>(rule)];
}

// Role of an input: `data` may be cast, `keep` may not (labels, indices, FP32 parameters).
enum class Role : std::uint8_t { data, keep };

inline constexpr Role data = Role::data;
inline constexpr Role keep = Role::keep;

struct OpInfo {
  const char* name;
  CastRule rule;
  OpTraits traits;
  std::array<Role, 8> roles;  // in the order of In's members; default `data`

  // The cast rule is mandatory.
  constexpr OpInfo(const char* op_name, CastRule cast_rule, const OpTraits& op_traits,
                   std::array<Role, 8> input_roles = {})
      : name(op_name), rule(cast_rule), traits(op_traits), roles(input_roles) {}
  // An op without traits: reports count it as "other".
  constexpr OpInfo(const char* op_name, CastRule cast_rule, std::array<Role, 8> input_roles = {})
      : OpInfo(op_name, cast_rule, OpTraits{}, input_roles) {}
};

// Forward's arguments besides its inputs.
class Context {
 public:
  Context(Backend& device_backend, DType result, const GradOutput* sink)
      : backend(device_backend), dtype(result), sink_(sink) {}

  Backend& backend;
  // Floating dtype of the op's result by the precision rule; default: the common dtype of the `data` inputs.
  const DType dtype;

  Tensor empty(const Shape& shape) const { return empty(shape, dtype); }
  Tensor empty(const Shape& shape, DType of) const {
    return Tensor::empty(shape, {.dtype = of, .device = backend.device()});
  }
  // A copy of x in another dtype.
  Tensor converted(const Tensor& x, DType to) const {
    const Tensor y = empty(x.shape(), to);
    backend.cast(x, y);
    return y;
  }
  // The caller's sink if it fits, else new memory. An op that calls this honours `accumulate`.
  GradOutput destination(const Shape& shape, DType of) const {
    if (sink_ && sink_->tensor.defined() && sink_->tensor.dtype() == of &&
        sink_->tensor.numel() == shape.numel())
      return {sink_->tensor.viewed(shape), sink_->accumulate};
    return {empty(shape, of), false};
  }
  GradOutput destination(const Shape& shape) const { return destination(shape, dtype); }

 private:
  const GradOutput* sink_;
};

// Gradients wanted from backward, and their preferred destinations.
class Needs {
 public:
  struct Input {
    bool wanted = false;
    GradOutput sink;  // absent under create_graph
  };

  Needs(std::span<const Input> inputs, bool create_graph) : inputs_(inputs), create_graph_(create_graph) {}

  bool operator[](std::size_t input) const { return inputs_[input].wanted; }
  std::size_t size() const { return inputs_.size(); }
  // Argument for `apply` or a public gradient op. A rule that wrote into the sink returns the sink's tensor.
  const GradOutput* sink(std::size_t input) const {
    return inputs_[input].sink.tensor.defined() ? &inputs_[input].sink : nullptr;
  }
  bool create_graph() const { return create_graph_; }
  // Whether a kernel may overwrite this gradient: it has no other holder.
  bool may_overwrite(const Tensor& dy) const {
    return !create_graph_ && dy.defined() && dy.storage()->use_count() == 1;
  }

 private:
  std::span<const Input> inputs_;
  bool create_graph_;
};

// The tensors of an In, Saved or Out struct, in the order of its members.
template <class Struct>
std::span<Tensor> tensors_of(Struct& s) {
  if constexpr (requires { s.list; }) {
    static_assert(sizeof(Struct) == sizeof(TensorList), "a TensorList must be the only member");
    return {s.list.data(), s.list.size()};
  } else if constexpr (std::is_empty_v<Struct>) {
    return {};
  } else {
    static_assert(std::is_standard_layout_v<Struct> && sizeof(Struct) % sizeof(Tensor) == 0,
                  "all members must be Tensors");
    return {reinterpret_cast<Tensor*>(&s), sizeof(Struct) / sizeof(Tensor)};
  }
}

template <class Struct>
std::span<const Tensor> tensors_of(const Struct& s) {
  return tensors_of(const_cast<Struct&>(s));
}

namespace detail {
template <class Forward>
struct TypesOfForward;
template <class Op, class O, class S, class I>
struct TypesOfForward<O (Op::*)(Context&, S&, const I&) const> {
  using In = I;
  using Saved = S;
  using Out = O;
};
}  // namespace detail

// In, Saved and Out of an op.
template <class Op>
using TypesOf = detail::TypesOfForward<decltype(&Op::forward)>;

}  // namespace tandem
