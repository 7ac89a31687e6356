// What a step asks of the device, op by op, with the time each took.
//
// An op that another one is made of belongs to it: a loss that is composed of public ops, and the gradient
// ops that a backward rule calls, are one call, of the outermost. Apart are
//  - the casts that precision puts before an op: calls of their own, whose time is not the op's;
//  - the products and bias sums of a backward rule (conv2d_filter_gradient …): parts of the call, listed
//    beneath it and counted in it.
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
  const OpInfo* op = nullptr;  // absent: the update
  Direction direction = Direction::forward;
  // Of inputs and output of forward, "f16[8,4,4,3] f16[8,3,3,3] → f16[8,4,4,8]"; index of Recorder::shapes.
  std::size_t shapes = 0;
  // What computed its convolutions on a CPU, "winograd" (core/cpu/conv_probe.h), those of its parts apart; ""
  // elsewhere. Index of Recorder::algorithms.
  std::size_t algorithms = 0;
  // What must be read and written at least, in the dtypes of the tensors: every input, saved tensor, output
  // and gradient once, also where a kernel adds to what it overwrites. 0 where memory is only handed on.
  std::int64_t bytes = 0;
  std::int64_t flop = 0;        // of products: 2 for each multiply-add; a backward's two gradients together
  DType operands = DType::f32;  // of the product
  std::int32_t part_of = -1;    // the call it is listed beneath
  std::int32_t inserted_for = -1;     // of a cast: the call it was put before
  std::uint64_t first = 0, last = 0;  // timestamps
  double seconds = 0.0;
};

// Appends to a list "direct, winograd" each name of another that it lacks.
void add_names(std::string& names, std::string_view more);

// Observes the ops of its thread between begin_step and end_step; stages are told by a StageTimer.
class Recorder final : public OpObserver, public train::StageObserver {
 public:
  // `update_bytes` is what the update moves, see optim::Step.
  Recorder(Backend& backend, std::int64_t update_bytes) : backend_(backend), update_bytes_(update_bytes) {}

  void begin_step();
  // Waits for the device, and sets the seconds of everything.
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
  // A piece of memory, which is not kept alive: a tensor that is held would change what ops do in place.
  struct Piece {
    const void* start = nullptr;
    std::int64_t bytes = 0;
    friend bool operator==(const Piece&, const Piece&) = default;
  };
  // An op under way, or the update.
  struct Frame {
    std::int32_t call = -1;  // absent for what belongs to an outer one
    Direction direction = Direction::forward;
    std::int64_t flop = 0;  // of the ops within
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
  // Gives the innermost call what computed convolutions since the last time.
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
  std::vector<Piece> read_, written_;  // of the call that is looked at
  std::vector<Piece> gradients_;       // of the outputs of the backward under way
  std::int64_t saved_bytes_ = 0;       // of what that backward reads beside them
  std::unordered_map<const Node*, std::size_t> shapes_of_;
  std::unordered_map<const Node*, std::int64_t> fused_flop_;  // of the backward of ops that hold products
  std::vector<std::string> texts_{""};
  std::unordered_map<std::string, std::size_t> text_index_{{"", 0}};
  std::optional<cpu::ConvolutionTrace> convolutions_;  // within a step on a CPU
  std::uint64_t step_first_ = 0;
  double step_seconds_ = 0.0;
  std::array<double, train::kStageNames.size()> stage_seconds_{};
};

}  // namespace tandem::profile
