// TrainedState: everything that an applied step changes and a skipped one keeps: masters, moments, update
// counts, running statistics, averages, and the working copies of the masters.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "nn/module.h"
#include "optim/ema.h"
#include "optim/flat_buffers.h"
#include "optim/optimizer.h"
#include "optim/step/optimizer_state.h"
#include "optim/step/options.h"
#include "optim/step/update_parts.h"

namespace tandem::optim {

class TrainedState {
 public:
  // Allocates memory for the trainable parameters of `module`, divided among the optimizers. Nothing moves
  // before attach(). Throws UserError when a parameter belongs to no optimizer or to two, when an optimizer
  // has a parameter of another module, and as FlatBuffers and Ema do.
  TrainedState(nn::Module& module, const std::vector<Optimizer*>& optimizers, const StepOptions& options);

  // The learning-rate schedule of the first optimizer; the others keep their ratio to it. Throws UserError
  // when the rates contradict each other. Call once.
  Schedule resolve_rates(const std::optional<Schedule>& schedule);
  // Moves the parameters and the statistics of the module in. Allocations come first; if one throws, nothing
  // has moved.
  void attach();

  FlatBuffers& buffers() { return buffers_; }
  const FlatBuffers& buffers() const { return buffers_; }
  Ema* ema() const { return ema_.get(); }  // nullptr without StepOptions::ema
  // Flat; absent where the module has none.
  const nn::StatisticBuffers& statistics() const { return statistics_; }
  // For a sharded update; absent otherwise.
  const UpdateParts* parts() const { return parts_ ? &*parts_ : nullptr; }
  // Ranges of the parameters with a gradient in the current step, as collect() found; with a sharded update,
  // within the own part.
  std::span<const UpdateRange> active() const { return active_; }

  // Finds the parameters with a gradient. With `zeros` the others take part with zero gradients. Throws
  // UserError when none has one. `unscaled`: gradients carry no scale any more, nor a segment's.
  void collect(bool zeros, bool unscaled = false);
  // See Step::set_segment_scales.
  void set_segment_scales(std::span<const int> log2_scales);
  // One pass per optimizer over its active ranges, then the commit of everything else. Depending on `state`
  // (a StepState in device memory), everything changes or nothing. `applied`: applied steps including this
  // one, for a uniform mean (Ema).
  void update(const Tensor& state, std::int64_t applied);
  // Host side of an update: invalidates saved tensors and derived values.
  void mark_updated();
  void drop_gradients();
  // Declares that every parameter has a gradient in its range of the flat buffer.
  void mark_gradients();
  // Resets the next statistics to the live ones.
  void drop_statistics();
  // Renews working copies that another writer of the masters, such as an Ema::Scope, has left stale.
  // Otherwise the next op that reads them does.
  void refresh_working_copies() const;

  // Slots whose weights differ from those of dense updates (Sparse::lazy).
  const std::vector<std::size_t>& lazy_slots() const { return lazy_slots_; }
  // Marks every row dirty, e.g. after user code modified gradients; excludes lazy tables.
  void mark_all_rows();
  // Host side, before each update: makes working copies current, because an update of marked rows leaves the
  // copies of the other rows.
  void prepare_update() const;

  // Lower bound on memory traffic of an applied step, in bytes. See optim::Step.
  std::int64_t update_bytes() const;
  // Views by name of what every process holds, without the moments of a sharded update. A step's forward
  // writes the next statistics, which become live with its commit.
  std::vector<NamedTensor> named() const;
  // The same with the moments. Collective with a sharded update: the first process gets copies, the others
  // none.
  std::vector<NamedTensor> gathered() const;
  // named_with() gives the optimizer's part of a state of it.
  const OptimizerState& optimizer_state() const { return *optimizer_state_; }
  std::vector<NamedTensor> named_with(const OptimizerState::Values& moments) const;
  // All-gathers the gradients of the last step of a sharded update.
  void gather_gradients() const;
  std::vector<NamedTensor> next_statistics() const;

 private:
  struct Group {  // one optimizer
    const Optimizer* optimizer;
    std::vector<UpdateRange> ranges;  // of all its parameters, in buffer order
    std::vector<UpdateRange> active;  // with parts: positions in the own part's window
  };

  void assign_parameters(const std::vector<Optimizer*>& optimizers);
  void choose_rows(const Optimizer& optimizer, const Optimizer::Entry& entry, UpdateRange& range);
  void check_lazy(const Optimizer& optimizer) const;
  void round_initial();
  void update_groups(const Tensor& state);
  void update_group(const Group& group, const UpdateBuffers& buffers, const Tensor& state);
  void share_update(const Tensor& state);

  nn::Module& module_;
  // From the step options.
  const double clip_value_;
  const StorageRounding rounding_;
  const std::optional<DType> round_statistics_;
  const bool sharded_, skips_, per_loss_;
  ShardExchange* const exchange_;

  FlatBuffers buffers_;
  std::vector<Owner> owners_;  // by slot
  std::vector<Group> groups_;
  std::vector<UpdateRange> active_;  // of all optimizers
  bool has_marks_ = false;
  std::vector<std::size_t> lazy_slots_;
  std::optional<UpdateParts> parts_;
  std::optional<OptimizerState> optimizer_state_;
  Tensor counts_;   // i64, updates of each slot, and one more: UpdateWork::buffers
  Tensor working_;  // 16-bit copies of the masters in buffer layout, or absent
  nn::StatisticBuffers statistics_;
  std::unique_ptr<Ema> ema_;
};

}  // namespace tandem::optim
