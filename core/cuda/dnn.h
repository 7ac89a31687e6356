// The one door to cuDNN: convolutions as graphs, the choice among the plans cuDNN offers for one, and its
// execution. No type of cuDNN appears here; its headers stay in dnn.cpp.
//
// Images are dense channels-last [N,H,W,C], filters dense [O,KH,KW,I/groups]; sums are f32. What cuDNN can
// write is not always what is asked: it computes no f64 and, on many shapes, neither adds a bias nor writes
// f32 from 16-bit operands, nor adds to a gradient; it sums what it writes for f16 alone. A plan says what it
// carries out (`carried`), decided once per shape, and the caller does the rest.
//
// A shape's plan is chosen at its first run by timing candidates on the data at hand: plans of cuDNN, and
// cuBLASLt where the convolution is a product. While a stream is captured, or where results must be the same
// in every run, it is the one that cuDNN's heuristics put first. What was chosen goes into the backend's
// table of algorithms, and what that names is taken.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/backend.h"
#include "core/cuda/rules.h"

namespace tandem::cuda {

class CudaBackend;

namespace dnn {

using Addresses = std::array<const void*, 6>;

enum class Pass : std::uint8_t { forward, input_gradient, filter_gradient };

// The op that the pass is: "conv2d_filter_gradient".
std::string_view name_of(Pass pass);

struct Convolution {
  Index batch, height, width, channels;
  Index out_height, out_width, out_channels;
  Index kernel_height, kernel_width;
  Conv2dOptions options;
  DType dtype = DType::f32;   // of both operands: f32, f16 or bf16
  DType result = DType::f32;  // of what the pass writes: dtype or f32
  bool bias = false;          // forward only: f32 [O], added before the result is rounded
  bool sums = false;          // forward only: also writes Σ y and Σ y² over all positions, f32 [O] each
  bool add = false;           // input_gradient only: adds a tensor like the result before that is rounded
  friend bool operator==(const Convolution&, const Convolution&) = default;
};

// "f16 → f32 + bias, x [8,28,28,64], filter [64,3,3,64], y [8,28,28,64], stride [1,1], …"
std::string to_string(const Convolution& problem);

// Whether cuDNN's descriptors can say this: nothing is empty, and y has every position that the padded image
// has room for.
bool expressible(const Convolution& problem);

// Whether it is a product of matrices, [positions,channels] with the filter, that cuBLASLt may write as the
// pass does: filters of one pixel, at stride 1.
bool is_product(Pass pass, const Convolution& problem);

// The line of a shape in the table of algorithms.
std::string key_text(Pass pass, const Convolution& problem, const Rules& rules);

// Builds the graph of a pass and has the frontend check it; needs no device. Throws VendorError.
void validate(Pass pass, const Convolution& problem);

// cuDNN is asked for f32 filter gradients of 16-bit operands where both counts of channels are multiples of
// this. What 9.19 writes where both are multiples of 4 and one is not of 8 is wrong (seen on an H100 and an
// H200).
inline constexpr int kChannelsOfWideGradients = 8;

// What a plan for `problem` may carry out, best first: where it can be had, the problem itself. Sums go with
// neither a bias nor a result of another type. What is to be added later is f32 until then, if at all
// possible.
std::vector<Convolution> alternatives(Pass pass, const Convolution& problem, const Rules& rules);

// The names of the plans that cuDNN's heuristics offer, and cuDNN builds, for the device that `description`
// describes (cuDNN's JSON, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION), in their order; needs no device.
// Without the CUDA driver the engines that are compiled for a shape are missing. Throws VendorError when the
// description or the graph is refused.
std::vector<std::string> plans_on(std::string_view description, Pass pass, const Convolution& problem,
                                  const Rules& rules);

// The other way to do what a plan with sums or an addition does, for `Library::try_out`.
struct Rival {
  using Run = std::function<void(const Addresses&)>;
  std::function<void()> run;  // does all of it, somewhere else
  // Waits, and says whether what the plan has just written is right; nullopt: such data cannot tell. May run
  // the plan elsewhere.
  std::function<std::optional<bool>(const Run& plan)> confirms;
};

class Plan {
 public:
  ~Plan();
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  // What cuDNN computes: the problem asked for, or the same without its bias, or with a result of another
  // type. Another plan follows this one after its first run, if writing f32 turns out to cost too much.
  const Convolution& carried() const;
  std::string name() const;  // cuDNN's name of the engine with its knobs, "eng65_k2=5_k13=1"; or "cuBLASLt"
  // Whether the choice is final: made by timing, by the table or by rule; it is so after the first
  // run that is not captured, or after `Library::try_out`.
  bool tuned() const;
  std::size_t workspace_bytes() const;

  // Addresses of both operands, of what is added (or nullptr), of the result and of the sums (or nullptr),
  // aligned to kAlignment: forward [x, filter, bias, y, Σ y, Σ y²]; input_gradient [dy, filter, addend, dx];
  // filter_gradient [x, dy, nullptr, dfilter]. The results are overwritten, at the first run several times,
  // and may not overlap the operands; a plan that passed `try_out` may have its result where its addend is.
  // `widened` writes an f32 filter gradient of 16-bit operands to the same place by widening them: it is
  // timed too, and if it is faster, a plan follows that rounds, which says that the caller is to go that way.
  using Widened = std::function<void()>;
  void run(const Addresses& addresses, const Widened& widened = {});

  static constexpr std::size_t kAlignment = 16;

  class Impl;
  explicit Plan(std::unique_ptr<Impl> impl);

 private:
  friend class Library;
  std::unique_ptr<Impl> impl_;
};

// ---- The plans of a backend

// "cuDNN 9.19.0"
std::string version();

// cuDNN for one backend, under its rules. Used by the one thread that drives it.
class Library {
 public:
  explicit Library(CudaBackend& backend);
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  // Valid until the next call. Throws VendorError when cuDNN has no plan for any alternative.
  Plan& plan(Pass pass, const Convolution& problem);

  // The plan of a problem with sums or an addition, valid until the next call; nullptr where cuDNN has none,
  // or the rival won. Such a plan is not run before it is tuned: by the table of algorithms, or by `try_out`.
  Plan* fused_plan(Pass pass, const Convolution& problem);
  // Tries such a plan on the data at hand, several times; not while a stream is captured. Whether it is right
  // and faster than its rival, and so may be used; else, unless the data could not tell, there is no such
  // plan from now on. The results at `addresses` are void.
  bool try_out(Plan& plan, const Addresses& addresses, const Rival& rival);
  void dismiss(Plan& plan);  // there is no such plan from now on

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace dnn
}  // namespace tandem::cuda
