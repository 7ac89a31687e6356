#include "optim/step/trained_state.h"

#include <algorithm>
#include <limits>

#include "autograd/modes.h"
#include "autograd/observers.h"
#include "core/backend.h"
#include "core/error.h"
#include "core/kernels/update.h"
#include "core/kernels/update_rules.h"
#include "core/names.h"

namespace tandem::optim {

TrainedState::TrainedState(nn::Module& module, const std::vector<Optimizer*>& optimizers,
                           const StepOptions& options)
    : module_(module),
      clip_value_(options.clip_value.value_or(std::numeric_limits<double>::infinity())),
      rounding_(options.rounding),
      round_statistics_(options.round_statistics),
      sharded_(options.shards != nullptr),
      skips_(options.skip_non_finite),
      per_loss_((options.shared_scaler ? options.shared_scaler->options() : options.scaler).scope ==
                ScalerScope::loss),
      exchange_(options.shards),
      buffers_(module.parameters()) {
  assign_parameters(optimizers);
  if (options.update_parts > 1) {
    const bool whole = std::ranges::any_of(groups_, [](const Group& group) {
      const UpdateRule* const rule = group.optimizer->rule();
      return !rule || rule->adapts();
    });
    parts_.emplace(buffers_, options.update_parts, options.own_part, whole);
  }
  optimizer_state_.emplace(buffers_, owners_, parts());
  counts_ = Tensor::zeros({static_cast<Index>(buffers_.slots().size()) + 1},
                          {DType::i64, buffers_.device(), MemoryKind::optimizer});
  if (const auto dtype = options.working) {
    require(is_16bit(*dtype), "step", "working copies are f16 or bf16, not {}", name_of(*dtype));
    working_ = Tensor::zeros({buffers_.length()}, {*dtype, buffers_.device(), MemoryKind::weights});
  }
  if (!options.ema) return;
  Index statistics = 0;
  for (const nn::Statistic& statistic : module_.statistics()) statistics += statistic.live.numel();
  ema_ = std::make_unique<Ema>(buffers_, statistics, *options.ema);
}

void TrainedState::assign_parameters(const std::vector<Optimizer*>& optimizers) {
  require(!optimizers.empty(), "step", "there is no optimizer");
  const std::vector<Parameter> all = module_.parameters();
  const auto& slots = buffers_.slots();
  owners_.resize(slots.size());
  for (const Optimizer* optimizer : optimizers) {
    require(optimizer != nullptr, "step", "an optimizer is null");
    for (const Optimizer::Entry& entry : optimizer->entries()) {
      require(std::ranges::find(all, entry.parameter) != all.end(), "step",
              "parameter {} of {} does not belong to the module", entry.parameter.name(), optimizer->name());
      for (std::size_t s = 0; s < slots.size(); ++s) {
        if (!(slots[s].parameter == entry.parameter)) continue;
        require(!owners_[s].optimizer, "step", "parameter {} belongs to two optimizers",
                entry.parameter.name());
        owners_[s] = {optimizer, &entry};
      }
    }
  }
  std::vector<std::string> orphans;
  for (std::size_t s = 0; s < slots.size(); ++s) {
    if (!owners_[s].optimizer) orphans.push_back(slots[s].parameter.name());
  }
  require(orphans.empty(), "step", "no optimizer has {}; add them to one, or freeze them", listed(orphans));

  for (const Optimizer* optimizer : optimizers) {
    check_lazy(*optimizer);
    Group& group = groups_.emplace_back(Group{optimizer, {}, {}});
    for (std::size_t s = 0; s < slots.size(); ++s) {
      if (owners_[s].optimizer != optimizer) continue;
      const Optimizer::Entry& entry = *owners_[s].entry;
      group.ranges.push_back({.first = slots[s].first,
                              .count = slots[s].count,
                              .slot = static_cast<Index>(s),
                              .lr_factor = static_cast<float>(entry.lr_factor),
                              .weight_decay = static_cast<float>(entry.weight_decay),
                              .adapt = entry.adapt});
      choose_rows(*optimizer, entry, group.ranges.back());
    }
    group.active.reserve(group.ranges.size());
  }
  active_.reserve(slots.size());
}

void TrainedState::check_lazy(const Optimizer& optimizer) const {
  if (optimizer.sparse() != Sparse::lazy) return;
  require(!sharded_ && !per_loss_, "step",
          "{}: sparse \"lazy\" needs an undivided batch and one loss scale; with a batch in shards, or a "
          "scale for each loss, use \"exact\"",
          optimizer.name());
}

// Marks the rows of a table that the model reads by rows, if the update may skip unmarked rows. Dense updates
// remain for
// - optimizers without an elementwise rule;
// - rules that change an element whose gradient is 0, and weight decay. For SGD with momentum and for
//   decoupled decay the skipped steps have a closed form, but in real numbers: it does not give the bits of
//   single steps, and a changing learning rate needs all rates since;
// - gradients written by other code: sums over shards, and over losses with a scale each;
// - steps that apply non-finite gradients, where a clip factor of NaN makes every element NaN;
// - 16-bit storage, whose first update rounds the initial moments.
void TrainedState::choose_rows(const Optimizer& optimizer, const Optimizer::Entry& entry,
                               UpdateRange& range) {
  if (!entry.parameter.by_rows()) return;
  range.row = entry.parameter.value().size(1);
  const UpdateRule* const rule = optimizer.rule();
  if (optimizer.sparse() == Sparse::off || !rule || rule->adapts()) return;
  const bool rounds = rounding_.weights != DType::f32 || rounding_.moments != DType::f32;
  const bool exact =
      rule->zero_grad_is_noop() && entry.weight_decay == 0.0 && !sharded_ && !per_loss_ && skips_ && !rounds;
  if (!exact && optimizer.sparse() != Sparse::lazy) return;
  const auto slot = static_cast<std::size_t>(range.slot);
  buffers_.mark_rows_of(slot);
  range.marks = buffers_.slots()[slot].marks.data<std::uint8_t>();
  has_marks_ = true;
  if (!exact) lazy_slots_.push_back(slot);
}

Schedule TrainedState::resolve_rates(const std::optional<Schedule>& schedule) {
  const Optimizer& first = *groups_[0].optimizer;
  const double base = schedule ? schedule->peak() : first.lr().value_or(first.default_lr());
  require(!schedule || !first.lr() || *first.lr() == base, "step",
          "{} has the learning rate {}, the schedule {}: give one of the two", first.name(),
          first.lr().value_or(0.0), base);
  for (Group& group : groups_) {
    const double lr = group.optimizer->lr().value_or(schedule ? base : group.optimizer->default_lr());
    if (lr == base) continue;
    require(base > 0.0, "step",
            "{} has the learning rate {} beside {} with 0, and further rates are ratios to the first",
            group.optimizer->name(), lr, first.name());
    for (UpdateRange& range : group.ranges)
      range.lr_factor = static_cast<float>(static_cast<double>(range.lr_factor) * (lr / base));
  }
  return schedule ? *schedule : constant(base);
}

void TrainedState::attach() {
  statistics_ = module_.flatten_statistics(buffers_.device());
  buffers_.attach();
  round_initial();
  if (working_.defined()) {
    for (const FlatBuffers::Slot& slot : buffers_.slots())
      set_working_copy(slot.parameter, buffers_.range(working_, slot));
  }
  if (ema_) ema_->start(statistics_.live);
}

// Rounds the initial parameters and statistics to their storage type.
void TrainedState::round_initial() {
  Backend& backend = backend_for(buffers_.device());
  if (rounding_.weights != DType::f32) {
    backend.update().round_to(buffers_.masters(), rounding_.weights);
    buffers_.masters().storage()->bump_version();
  }
  if (!round_statistics_ || !statistics_.live.defined()) return;
  for (const Tensor& statistics : {statistics_.live, statistics_.next}) {
    backend.update().round_to(statistics, *round_statistics_);
    statistics.storage()->bump_version();
  }
}

void TrainedState::set_segment_scales(std::span<const int> log2_scales) {
  constexpr int kMost = 126;
  require(log2_scales.size() == buffers_.slots().size(), "step", "{} scales for {} parameters",
          log2_scales.size(), buffers_.slots().size());
  for (Group& group : groups_) {
    for (UpdateRange& range : group.ranges) {
      const int log2 = log2_scales[static_cast<std::size_t>(range.slot)];
      require(log2 >= -kMost && log2 <= kMost, "step", "segment scale 2^{} times the loss scale", log2);
      range.gradient_log2 = static_cast<std::int8_t>(log2);
    }
  }
}

void TrainedState::collect(bool zeros, bool unscaled) {
  Backend& backend = backend_for(buffers_.device());
  const auto& slots = buffers_.slots();
  active_.clear();
  for (Group& group : groups_) {
    group.active.clear();
    for (UpdateRange range : group.ranges) {
      if (unscaled) range.gradient_log2 = 0;
      const bool has_gradient = slots[static_cast<std::size_t>(range.slot)].parameter.gradient().defined();
      if (!has_gradient && !zeros) continue;
      if (!has_gradient) backend.fill(buffers_.gradients().rows(range.first, range.count), 0.0);
      group.active.push_back(parts_ ? parts_->in_window(range) : range);
      active_.push_back(parts_ ? parts_->own_of(range) : range);
    }
  }
  require(!active_.empty(), "step",
          "no trainable parameter has a gradient: the loss depends on none of them");
}

void TrainedState::mark_all_rows() {
  for (std::size_t s = 0; s < buffers_.slots().size(); ++s) {
    if (std::ranges::find(lazy_slots_, s) == lazy_slots_.end())
      buffers_.slots()[s].parameter.leaf().mark_all_rows();
  }
}

void TrainedState::prepare_update() const {
  if (has_marks_) refresh_working_copies();
}

void TrainedState::update_groups(const Tensor& state) {
  const auto own = [&](const Tensor& buffer) {
    return parts_ && buffer.defined() ? parts_->window(buffer) : buffer;
  };
  const UpdateBuffers buffers{.master = own(buffers_.masters()),
                              .gradient = own(buffers_.gradients()),
                              .working = own(working_),
                              .moment1 = optimizer_state_->moment(0),
                              .moment2 = optimizer_state_->moment(1),
                              .moment3 = optimizer_state_->moment(2),
                              .counts = counts_,
                              .rounding = rounding_};
  const NoGrad untaped;
  const PrecisionScope full_precision(nullptr);
  for (const Group& group : groups_)
    if (!group.active.empty()) update_group(group, buffers, state);
}

// Parameters in other parts have empty ranges; their updates are counted all the same.
void TrainedState::update_group(const Group& group, const UpdateBuffers& buffers, const Tensor& state) {
  const Optimizer& optimizer = *group.optimizer;
  UpdateWork work{.optimizer = optimizer,
                  .backend = backend_for(buffers_.device()),
                  .buffers = buffers,
                  .clip_value = clip_value_,
                  .step = state,
                  .ranges = group.active};
  if (optimizer.rule()) {
    UpdateContext context(work);
    return optimizer.update(context);
  }
  if (buffers_.device() == Device{} && static_cast<const StepState*>(state.raw())->skip != 0) return;
  std::vector<UpdateRange> present, elsewhere;
  for (const UpdateRange& range : group.active) {
    (range.count > 0 ? present : elsewhere).push_back(range);
    if (range.count == 0) continue;
    const auto slot = static_cast<std::size_t>(range.slot);
    work.entries.push_back(owners_[slot].entry);
    work.state.push_back(optimizer_state_->tensors(slot));
  }
  if (!elsewhere.empty()) work.backend.update().update(update_rules::Assign{}, elsewhere, buffers, state);
  work.ranges = present;
  UpdateContext context(work);
  optimizer.update(context);
}

// All-gathers the masters; each process rounds those of the others itself.
void TrainedState::share_update(const Tensor& state) {
  if (static_cast<const StepState*>(state.raw())->skip != 0) return;
  ensure(exchange_ != nullptr, "step", "a sharded update without an exchange");
  exchange_->gather_parts(buffers_.masters(), parts_->counts());
  if (!working_.defined()) return;
  Backend& backend = backend_for(buffers_.device());
  backend.cast(parts_->before(buffers_.masters()), parts_->before(working_));
  backend.cast(parts_->behind(buffers_.masters()), parts_->behind(working_));
}

void TrainedState::gather_gradients() const {
  if (parts_) exchange_->gather_parts(buffers_.gradients(), parts_->counts());
}

void TrainedState::update(const Tensor& state, std::int64_t applied) {
  update_groups(state);
  if (parts_) share_update(state);
  if (statistics_.live.defined()) {
    Backend& backend = backend_for(buffers_.device());
    if (round_statistics_) backend.update().round_to(statistics_.next, *round_statistics_);
    backend.update().commit_or_restore(statistics_.next, statistics_.live, state);
  }
  if (ema_) ema_->update(state, applied);
}

void TrainedState::mark_updated() {
  buffers_.masters().storage()->bump_version();
  if (working_.defined()) {
    working_.storage()->bump_version();
    for (const FlatBuffers::Slot& slot : buffers_.slots())
      mark_working_copy_current(slot.parameter, working_.dtype());
  }
  if (statistics_.live.defined()) {
    statistics_.live.storage()->bump_version();
    statistics_.next.storage()->bump_version();
  }
}

void TrainedState::drop_gradients() {
  for (const FlatBuffers::Slot& slot : buffers_.slots()) slot.parameter.leaf().clear_gradient();
}

void TrainedState::mark_gradients() {
  for (const FlatBuffers::Slot& slot : buffers_.slots()) slot.parameter.leaf().mark_written();
}

void TrainedState::drop_statistics() {
  if (!statistics_.live.defined()) return;
  backend_for(buffers_.device()).copy_bytes(statistics_.live, statistics_.next);
  statistics_.next.storage()->bump_version();
}

// One renewal renews all copies.
void TrainedState::refresh_working_copies() const {
  if (working_.defined()) working_copy(buffers_.slots().front().parameter.value(), working_.dtype());
}

std::int64_t TrainedState::update_bytes() const {
  constexpr std::int64_t kValue = sizeof(float), kBoth = 2 * kValue;  // f32 read; read and written
  std::int64_t bytes = 0;
  for (const Group& group : groups_) {
    std::int64_t each = kValue + kBoth;
    if (working_.defined()) each += static_cast<std::int64_t>(size_of(working_.dtype()));
    for (const UpdateRange& whole : group.ranges) {
      const UpdateRange range = parts_ ? parts_->own_of(whole) : whole;
      const Tensor& marks = buffers_.slots()[static_cast<std::size_t>(range.slot)].marks;
      std::int64_t moved = range.count;
      if (range.marks) {
        const auto marked = marks.to_vector<std::uint8_t>();
        moved = range.row * std::count(marked.begin(), marked.end(), 1);
        bytes += marks.numel();
      }
      bytes += each * moved;
      if (whole.count > 0)
        bytes +=
            kBoth * optimizer_state_->elements(static_cast<std::size_t>(range.slot)) * moved / whole.count;
      // Averages follow all masters, including those that this process or this step does not change.
      if (ema_) bytes += kBoth * whole.count + kValue * (whole.count - moved);
    }
  }
  if (statistics_.live.defined()) bytes += 2 * static_cast<std::int64_t>(statistics_.live.bytes());
  return bytes;
}

std::vector<NamedTensor> TrainedState::named() const { return named_with(optimizer_state_->held()); }

std::vector<NamedTensor> TrainedState::gathered() const {
  return named_with(optimizer_state_->gathered(exchange_));
}

std::vector<NamedTensor> TrainedState::named_with(const OptimizerState::Values& moments) const {
  std::vector<NamedTensor> state;
  const auto& slots = buffers_.slots();
  for (const Group& group : groups_) {
    for (const UpdateRange& range : group.ranges) {
      const FlatBuffers::Slot& slot = slots[static_cast<std::size_t>(range.slot)];
      const std::string& name = slot.parameter.name();
      state.emplace_back("master." + name, buffers_.range(buffers_.masters(), slot));
      optimizer_state_->add_named(static_cast<std::size_t>(range.slot), moments, state);
      state.emplace_back("updates." + name, counts_.rows(range.slot, 1));
      if (ema_) state.emplace_back("average." + name, buffers_.range(ema_->average(), slot));
    }
  }
  Index first = 0;
  for (const nn::Statistic& statistic : module_.statistics()) {
    const Index count = statistic.live.numel();
    state.emplace_back("statistic." + statistic.name, statistic.live.detach());
    if (ema_)
      state.emplace_back("average_statistic." + statistic.name,
                         ema_->average_statistics().rows(first, count).viewed(statistic.live.shape()));
    first += count;
  }
  return state;
}

std::vector<NamedTensor> TrainedState::next_statistics() const {
  std::vector<NamedTensor> state;
  for (const nn::Statistic& statistic : module_.statistics())
    state.emplace_back("next_statistic." + statistic.name, statistic.next.detach());
  return state;
}

}  // namespace tandem::optim
