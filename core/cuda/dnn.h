// Interface to cuDNN: convolutions as graphs, the choice among cuDNN's plans, and their execution. cuDNN's
// types and headers stay in dnn.cpp.
//
// Images are dense channels-last [N,H,W,C], filters dense [O,KH,KW,I/groups]; sums are f32. cuDNN does not
// support everything: it has no f64; on many shapes it neither adds a bias, nor writes f32 from 16-bit
// operands, nor accumulates a gradient; fused output sums exist only for f16. A plan states what it computes
// (`carried`), decided once per shape; the caller does the rest.
//
// The first run of a shape chooses the plan by timing candidates on the actual data: cuDNN's plans, and
// cuBLASLt if the convolution is a product. During stream capture or in deterministic mode it is the
// heuristics' first plan. Choices are stored in the backend's algorithm table, whose entries take precedence.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/cuda/rules.h"
#include "core/op_options.h"

struct cudnnContext;

namespace tandem::cuda {

class CudaBackend;

namespace dnn {

using Addresses = std::array<const void*, 6>;

enum class Pass : std::uint8_t { forward, input_gradient, filter_gradient };

// Op name of the pass, e.g. "conv2d_filter_gradient".
std::string_view name_of(Pass pass);

struct Convolution {
  Index batch, height, width, channels;
  Index out_height, out_width, out_channels;
  Index kernel_height, kernel_width;
  Conv2dOptions options;
  DType dtype = DType::f32;   // of both operands: f32, f16 or bf16
  DType result = DType::f32;  // of the output: dtype or f32
  bool bias = false;          // forward only: f32 [O], added before the result is rounded
  bool sums = false;          // forward only: also writes Σ y and Σ y² over all positions, f32 [O] each
  bool add = false;  // input_gradient only: adds a tensor of the result's type and shape before rounding
  friend bool operator==(const Convolution&, const Convolution&) = default;
};

// "f16 → f32 + bias, x [8,28,28,64], filter [64,3,3,64], y [8,28,28,64], stride [1,1], …"
std::string to_string(const Convolution& problem);

// Whether cuDNN can express the problem: nothing is empty, and y has all positions of the padded image.
bool expressible(const Convolution& problem);

// Whether the pass is a product [positions,channels] × filter that cuBLASLt supports: 1×1 filters, stride 1.
bool is_product(Pass pass, const Convolution& problem);

// Key of a shape in the algorithm table.
std::string key_text(Pass pass, const Convolution& problem, const Rules& rules);

// Builds the graph of a pass and lets the frontend validate it, without a device. Throws VendorError.
void validate(Pass pass, const Convolution& problem);

// Divisor of both channel counts for f32 filter gradients of 16-bit operands by cuDNN: 9.19 returns wrong
// results (H100, H200) if both are multiples of 4 and one is not a multiple of 8.
inline constexpr int kChannelsOfWideGradients = 8;

// Variants of `problem` that a plan may compute, best first, starting with the problem itself if supported.
// Fused sums exclude a bias and a result of another type. A result to be added to later is f32 if possible.
std::vector<Convolution> alternatives(Pass pass, const Convolution& problem, const Rules& rules);

// Names of cuDNN's heuristic plans for the device in `description` (cuDNN's JSON,
// CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION) that cuDNN can build, in order, without a device. Without the
// CUDA driver, runtime-compiled engines are missing. Throws VendorError for an invalid description or graph.
std::vector<std::string> plans_on(std::string_view description, Pass pass, const Convolution& problem,
                                  const Rules& rules);

// The unfused alternative to a plan with sums or an addition, for `Library::try_out`.
struct Rival {
  using Run = std::function<void(const Addresses&)>;
  std::function<void()> run;  // computes the same without touching the plan's output
  // Synchronises and returns whether the plan's output is correct; nullopt if the data proves nothing. May
  // run the plan with other outputs.
  std::function<std::optional<bool>(const Run& plan)> confirms;
};

class Plan {
 public:
  ~Plan();
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  // The problem that cuDNN computes: the requested one, or a variant without bias or with another result
  // type. After its first run a plan may be replaced, if writing f32 is too slow.
  const Convolution& carried() const;
  std::string name() const;  // cuDNN's engine name with its knobs, e.g. "eng65_k2=5_k13=1"; or "cuBLASLt"
  // Whether the choice is final: after the first uncaptured run or `Library::try_out`, or by table or rule.
  bool tuned() const;
  std::size_t workspace_bytes() const;

  // Addresses of both operands, the addend (or null), the result and the sums (or null), aligned to
  // kAlignment: forward [x, filter, bias, y, Σ y, Σ y²]; input_gradient [dy, filter, addend, dx];
  // filter_gradient [x, dy, nullptr, dfilter]. Results are overwritten, several times in the first run, and
  // may not overlap the operands; only a plan that passed `try_out` may have its result at its addend.
  // `widened` computes an f32 filter gradient to the same place by widening 16-bit operands. It is timed as
  // well; if it is faster, a rounding plan replaces this one, which tells the caller to widen.
  using Widened = std::function<void()>;
  void run(const Addresses& addresses, const Widened& widened = {});

  static constexpr std::size_t kAlignment = 16;

  class Impl;
  explicit Plan(std::unique_ptr<Impl> impl);

 private:
  friend class Library;
  std::unique_ptr<Impl> impl_;
};

// ---- Plans of a backend

// "cuDNN 9.19.0"
std::string version();

// cuDNN plans of one backend, under its rules, for the one thread that uses the backend.
class Library {
 public:
  explicit Library(CudaBackend& backend);
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  // Valid until the next call. Throws VendorError when cuDNN has no plan for any alternative.
  Plan& plan(Pass pass, const Convolution& problem);

  // The plan of a problem with sums or an addition, valid until the next call; nullptr if cuDNN has none or
  // the rival is faster. It must not run before it is tuned, by the algorithm table or by `try_out`.
  Plan* fused_plan(Pass pass, const Convolution& problem);
  // Verifies and times the plan on the actual data, outside of capture. Returns whether it is correct and
  // faster than its rival. Otherwise the plan is dismissed, unless the data proved nothing. Overwrites the
  // results.
  bool try_out(Plan& plan, const Addresses& addresses, const Rival& rival);
  void dismiss(Plan& plan);  // fused_plan() returns nullptr from now on
  // cuDNN's handle on the backend's stream, shared by convolutions and attention; null in the CUDA emulator
  // of the tests.
  std::shared_ptr<cudnnContext> handle();

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace dnn
}  // namespace tandem::cuda
