// TrainedState: all that an applied step changes and a skipped one leaves as it was: masters, moments and
// update counts, running statistics, averages, and the working copies that follow the masters.
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
  // Memory for the trainable parameters of `module`, which the optimizers divide among them. Nothing moves
  // before attach(). Throws UserError when a parameter belongs to no optimizer or to two, when an optimizer
  // has one that is not the module's, and as FlatBuffers and Ema do.
  TrainedState(nn::Module& module, const std::vector<Optimizer*>& optimizers, const StepOptions& options);

  // The learning rate of the first optimizer over the run, of which further ones keep their ratio. Throws
  // UserError when the rates contradict each other. To be called once.
  Schedule resolve_rates(const std::optional<Schedule>& schedule);
  // Moves the parameters and the statistics of the module in. What allocates comes first: where that throws,
  // nothing has moved.
  void attach();

  FlatBuffers& buffers() { return buffers_; }
  const FlatBuffers& buffers() const { return buffers_; }
  Ema* ema() const { return ema_.get(); }  // nullptr without StepOptions::ema
  // Flat; absent where the module has none.
  const nn::StatisticBuffers& statistics() const { return statistics_; }
  // Of an update that is divided among processes; absent otherwise.
  const UpdateParts* parts() const { return parts_ ? &*parts_ : nullptr; }
  // Of the parameters that have a gradient in the step under way, as collect() found; what of them is in the
  // own part.
  std::span<const UpdateRange> active() const { return active_; }

  // Which parameters have a gradient. With `zeros` the others take part with a gradient of zero. Throws
  // UserError when none has one. `unscaled`: they carry no scale any more, those of segments neither.
  void collect(bool zeros, bool unscaled = false);
  // See Step::set_segment_scales.
  void set_segment_scales(std::span<const int> log2_scales);
  // One pass for each optimizer over its active ranges, then what commits the rest: by what `state` (a
  // StepState in device memory) says, this changes everything or nothing.
  // `applied`: the applied steps with this one; only a uniform mean (Ema) wants to know.
  void update(const Tensor& state, std::int64_t applied);
  // The host's part of it: whoever saved a tensor of before, or derived something from one, can tell.
  void mark_updated();
  void drop_gradients();
  // Every parameter has a gradient: what lies in its range of the flat buffer.
  void mark_gradients();
  // The statistics of the step under way are those that live.
  void drop_statistics();
  // Copies that another writer of the masters has left behind, such as an Ema::Scope, are renewed by the op
  // that reads them next; this renews them now.
  void refresh_working_copies() const;

  // Of slots with marks whose weights differ from those of dense updates for it (Sparse::lazy).
  const std::vector<std::size_t>& lazy_slots() const { return lazy_slots_; }
  // Rows of unknown gradients take part in the step under way, as when somebody may have changed them; lazy
  // tables are left out.
  void mark_all_rows();
  // To be called by the host before each update: an update of marked rows leaves the working copies of the
  // others as they are, which must be current.
  void prepare_update() const;

  // Bytes that an applied step must move at least, each once: gradients read, masters, moments and averages
  // read and written, working copies written, statistics copied. Of tables by rows: see optim::Step.
  std::int64_t update_bytes() const;
  // Views by name, of what every process holds: of a divided update without the moments. A step's forward
  // writes the next statistics; they are live from its commit on.
  std::vector<NamedTensor> named() const;
  // With the moments. Of a divided update a call of all processes: the first gets copies of all of them, and
  // the others none.
  std::vector<NamedTensor> gathered() const;
  // Of which named_with() gives the optimizer's part.
  const OptimizerState& optimizer_state() const { return *optimizer_state_; }
  std::vector<NamedTensor> named_with(const OptimizerState::Values& moments) const;
  // Every process gets the gradients that the last step was made of, not those of its part alone.
  void gather_gradients() const;
  std::vector<NamedTensor> next_statistics() const;

 private:
  struct Group {  // one optimizer
    const Optimizer* optimizer;
    std::vector<UpdateRange> ranges;  // of all its parameters, in the order of the buffers
    std::vector<UpdateRange> active;  // by their place in the own part's window, where there are parts
  };

  void assign_parameters(const std::vector<Optimizer*>& optimizers);
  void choose_rows(const Optimizer& optimizer, const Optimizer::Entry& entry, UpdateRange& range);
  void check_lazy(const Optimizer& optimizer) const;
  void round_initial();
  void update_groups(const Tensor& state);
  void update_group(const Group& group, const UpdateBuffers& buffers, const Tensor& state);
  void share_update(const Tensor& state);

  nn::Module& module_;
  // Of the step's options.
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
  Tensor working_;  // 16-bit copies of the masters, in the layout of the buffers, or absent
  nn::StatisticBuffers statistics_;
  std::unique_ptr<Ema> ema_;
};

}  // namespace tandem::optim
