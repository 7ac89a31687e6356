// Recorder: the ops of a step on the device, with their times.
//
// Ops inside a composite op belong to it: a loss composed of public ops and the gradient ops of a backward
// rule are one call, that of the outermost op. Exceptions:
//  - the casts that precision inserts before an op are separate calls, and the op's time excludes them;
// - the products and bias sums of a backward rule (conv2d_filter_gradient …) are parts of the call, which
// includes their times.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "autograd/observers.h"
#include "core/backend.h"
#include "core/cpu/conv_probe.h"
#include "train/stages.h"

namespace tandem::profile {

enum class Direction : std::uint8_t { forward, backward, update };

struct Call {
  const OpInfo* op = nullptr;  // null for the update
  Direction direction = Direction::forward;
  // Index of Recorder::shapes: inputs and output of forward, "f16[8,4,4,3] f16[8,3,3,3] → f16[8,4,4,8]".
  std::size_t shapes = 0;
  // Index of Recorder::algorithms: those of its convolutions on a CPU, "winograd" (core/cpu/conv_probe.h),
  // without those of its parts; "" elsewhere.
  std::size_t algorithms = 0;
  // Lower bound on memory traffic, in the dtypes of the tensors: every input, saved tensor, output and
  // gradient once, even if a kernel accumulates into its output. 0 if memory is passed on.
  std::int64_t bytes = 0;
  std::int64_t flop = 0;              // of products, 2 per multiply-add; a backward has both gradients
  DType operands = DType::f32;        // of the product
  std::int32_t part_of = -1;          // index of the call that it is a part of
  std::int32_t inserted_for = -1;     // of a cast: index of the op's call
  std::uint64_t first = 0, last = 0;  // timestamps
  double seconds = 0.0;
};

// Appends to the list `names`, "direct, winograd", the names in `more` that it lacks.
void add_names(std::string& names, std::string_view more);

// Observes the ops of its thread between begin_step and end_step, and the stages of a StageTimer.
class Recorder final : public OpObserver, public train::StageObserver {
 public:
  // `update_bytes`: memory traffic of the update, see optim::Step.
  Recorder(Backend& backend, std::int64_t update_bytes) : backend_(backend), update_bytes_(update_bytes) {}

  void begin_step();
  // Waits for the device and sets all times.
  void end_step();

  // Of the last step.
  const std::vector<Call>& calls() const { return calls_; }
  double step_seconds() const { return step_seconds_; }
  double stage_seconds(train::Stage stage) const { return stage_seconds_[static_cast<std::size_t>(stage)]; }
  // Of all steps.
  const std::string& shapes(const Call& call) const { return texts_[call.shapes]; }
  const std::string& algorithms(const Call& call) const { return texts_[call.algorithms]; }

  void before_forward(const OpInfo& op, std::span<const Tensor> inputs) override;
  void after_forward(const OpInfo& op, std::span<const Tensor> inputs,
                     std::span<const Tensor> outputs) override;
  void before_backward(const Node& node, std::span<const Tensor> dy) override;
  void after_backward(const Node& node, std::span<const Tensor> dx) override;
  void begin(train::Stage stage) override;
  void end(train::Stage stage) override;

 private:
  // Address and size of memory. It is not kept alive: a reference to the tensor would change in-place
  // decisions.
  struct Piece {
    const void* start = nullptr;
    std::int64_t bytes = 0;
    friend bool operator==(const Piece&, const Piece&) = default;
  };
  // An op in execution, or the update.
  struct Frame {
    std::int32_t call = -1;  // -1 if it belongs to an outer call
    Direction direction = Direction::forward;
    std::int64_t flop = 0;  // including inner ops
    DType operands = DType::f32;
  };
  struct Span {
    train::Stage stage;
    std::uint64_t first = 0, last = 0;
    bool open = true;
  };

  static Piece piece_of(const Tensor& tensor);
  static bool add(std::vector<Piece>& pieces, const Tensor& tensor);
  static bool contains(const std::vector<Piece>& pieces, const Tensor& tensor);
  void open(Call call);
  Frame close();
  // Assigns new algorithms of convolutions to the innermost call.
  void note_algorithms();
  std::int64_t forward_bytes(const OpInfo& op, std::span<const Tensor> inputs,
                             std::span<const Tensor> outputs);
  std::size_t text_of(std::span<const Tensor> inputs, std::span<const Tensor> outputs);
  std::size_t index_of(const std::string& text);

  Backend& backend_;
  std::int64_t update_bytes_;
  std::vector<Call> calls_;
  std::vector<Frame> frames_;
  std::vector<Span> stages_;
  std::vector<Piece> read_, written_;  // of the current call
  std::vector<Piece> gradients_;       // output gradients of the current backward
  std::int64_t saved_bytes_ = 0;       // of the other inputs of that backward
  std::unordered_map<const Node*, std::size_t> shapes_of_;
  std::unordered_map<const Node*, std::int64_t> fused_flop_;  // backward FLOP of fused ops with products
  std::vector<std::string> texts_{""};
  std::unordered_map<std::string, std::size_t> text_index_{{"", 0}};
  std::optional<cpu::ConvolutionTrace> convolutions_;  // during a step on a CPU
  std::uint64_t step_first_ = 0;
  double step_seconds_ = 0.0;
  std::array<double, train::kStageNames.size()> stage_seconds_{};
};

}  // namespace tandem::profile
