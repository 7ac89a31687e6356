#include "optim/step/trained_state.h"

#include <algorithm>
#include <limits>

#include "core/backend.h"
#include "core/error.h"
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
    const bool whole =
        std::ranges::any_of(groups_, [](const Group& group) { return group.optimizer.rule().adapts(); });
    parts_.emplace(buffers_, options.update_parts, options.own_part, whole);
  }
  allocate_moments();
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
  std::vector<const Optimizer*> owners(slots.size());
  std::vector<const Optimizer::Entry*> entries(slots.size());
  for (const Optimizer* optimizer : optimizers) {
    require(optimizer != nullptr, "step", "an optimizer is null");
    for (const Optimizer::Entry& entry : optimizer->entries()) {
      require(std::ranges::find(all, entry.parameter) != all.end(), "step",
              "parameter {} of {} does not belong to the module", entry.parameter.name(), optimizer->name());
      for (std::size_t s = 0; s < slots.size(); ++s) {
        if (!(slots[s].parameter == entry.parameter)) continue;
        require(!owners[s], "step", "parameter {} belongs to two optimizers", entry.parameter.name());
        owners[s] = optimizer;
        entries[s] = &entry;
      }
    }
  }
  std::vector<std::string> orphans;
  for (std::size_t s = 0; s < slots.size(); ++s) {
    if (!owners[s]) orphans.push_back(slots[s].parameter.name());
  }
  require(orphans.empty(), "step", "no optimizer has {}; give them to one, or freeze them", listed(orphans));

  for (const Optimizer* optimizer : optimizers) {
    check_lazy(*optimizer);
    Group& group = groups_.emplace_back(Group{*optimizer, {}, {}});
    for (std::size_t s = 0; s < slots.size(); ++s) {
      if (owners[s] != optimizer) continue;
      group.ranges.push_back({.first = slots[s].first,
                              .count = slots[s].count,
                              .slot = static_cast<Index>(s),
                              .lr_factor = static_cast<float>(entries[s]->lr_factor),
                              .weight_decay = static_cast<float>(entries[s]->weight_decay),
                              .adapt = entries[s]->adapt});
      choose_rows(*optimizer, *entries[s], group.ranges.back());
    }
    group.active.reserve(group.ranges.size());
  }
  active_.reserve(slots.size());
}

void TrainedState::check_lazy(const Optimizer& optimizer) const {
  if (optimizer.sparse() != Sparse::lazy) return;
  require(!sharded_ && !per_loss_, "step",
          "{}: sparse \"lazy\" knows the rows of a whole batch and of one loss scale; with a batch in "
          "shards, or a "
          "scale for each loss, use \"exact\"",
          optimizer.name());
}

// The rows of a table that a model reads by rows are marked where the update may leave the others alone.
// Dense stay
// - rules that change an element whose gradient is 0, and weight decay. For SGD with momentum and for
//   decoupled decay the missed steps have a closed form, but one of real numbers: it does not give the bits
//   of the steps one by one, and with a learning rate that changes from step to step it needs all rates
//   since;
// - gradients that others write: sums over shards, and over losses that have a scale each;
// - steps that apply what is not finite, after which a clip factor of NaN makes every element NaN;
// - storage of 16 bits, whose first update rounds the start of the moments.
void TrainedState::choose_rows(const Optimizer& optimizer, const Optimizer::Entry& entry,
                               UpdateRange& range) {
  if (!entry.parameter.by_rows()) return;
  range.row = entry.parameter.value().size(1);
  if (optimizer.sparse() == Sparse::off || optimizer.rule().adapts()) return;
  const bool rounds = rounding_.weights != DType::f32 || rounding_.moments != DType::f32;
  const bool exact =
      optimizer.rule().rests() && entry.weight_decay == 0.0 && !sharded_ && !per_loss_ && skips_ && !rounds;
  if (!exact && optimizer.sparse() != Sparse::lazy) return;
  const auto slot = static_cast<std::size_t>(range.slot);
  buffers_.mark_rows_of(slot);
  range.marks = buffers_.slots()[slot].marks.data<std::uint8_t>();
  has_marks_ = true;
  if (!exact) lazy_slots_.push_back(slot);
}

Schedule TrainedState::resolve_rates(const std::optional<Schedule>& schedule) {
  const Optimizer& first = groups_[0].optimizer;
  const double base = schedule ? schedule->peak() : first.lr().value_or(first.default_lr());
  require(!schedule || !first.lr() || *first.lr() == base, "step",
          "{} has the learning rate {}, the schedule {}: give one of the two", first.name(),
          first.lr().value_or(0.0), base);
  for (Group& group : groups_) {
    const double lr = group.optimizer.lr().value_or(schedule ? base : group.optimizer.default_lr());
    if (lr == base) continue;
    require(base > 0.0, "step",
            "{} has the learning rate {} beside {} with 0, and further rates are ratios to the first",
            group.optimizer.name(), lr, first.name());
    for (UpdateRange& range : group.ranges)
      range.lr_factor = static_cast<float>(static_cast<double>(range.lr_factor) * (lr / base));
  }
  return schedule ? *schedule : constant(base);
}

void TrainedState::allocate_moments() {
  Backend& backend = backend_for(buffers_.device());
  for (const Group& group : groups_) {
    for (std::size_t m = 0; m < moments_.size(); ++m) {
      const Moment& moment = group.optimizer.moments()[m];
      if (moment.name.empty()) continue;
      if (!moments_[m].defined())
        moments_[m] = Tensor::zeros({parts_ ? parts_->window_length() : buffers_.length()},
                                    {DType::f32, buffers_.device(), MemoryKind::optimizer});
      if (moment.initial == 0.0) continue;
      for (const UpdateRange& whole : group.ranges) {
        const UpdateRange range = parts_ ? parts_->in_window(whole) : whole;
        backend.fill(moments_[m].rows(range.first, range.count), moment.initial);
      }
    }
  }
  counts_ = Tensor::zeros({static_cast<Index>(buffers_.slots().size())},
                          {DType::i64, buffers_.device(), MemoryKind::optimizer});
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

// The parameters start on the grid of the type that holds them, and so do the statistics.
void TrainedState::round_initial() {
  Backend& backend = backend_for(buffers_.device());
  if (rounding_.weights != DType::f32) {
    backend.round_to(buffers_.masters(), rounding_.weights);
    buffers_.masters().storage()->bump_version();
  }
  if (!round_statistics_ || !statistics_.live.defined()) return;
  for (const Tensor& statistics : {statistics_.live, statistics_.next}) {
    backend.round_to(statistics, *round_statistics_);
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
      require(log2 >= -kMost && log2 <= kMost, "step", "a segment's scale of 2^{} times the loss scale",
              log2);
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
  Backend& backend = backend_for(buffers_.device());
  const auto own = [&](const Tensor& buffer) {
    return parts_ && buffer.defined() ? parts_->window(buffer) : buffer;
  };
  for (const Group& group : groups_) {
    if (group.active.empty()) continue;
    UpdateRule rule = group.optimizer.rule();
    rule.clip_value = clip_value_;
    // What is in no own part has an empty range: its updates are counted all the same.
    backend.update(rule, group.active,
                   {.master = own(buffers_.masters()),
                    .gradient = own(buffers_.gradients()),
                    .working = own(working_),
                    .moment1 = moments_[0],
                    .moment2 = moments_[1],
                    .moment3 = moments_[2],
                    .counts = counts_,
                    .rounding = rounding_},
                   state);
  }
}

// Every process gets the masters of all parts, and rounds those of the others by itself.
void TrainedState::share_update(const Tensor& state) {
  if (static_cast<const StepState*>(state.raw())->skip != 0) return;
  ensure(exchange_ != nullptr, "step", "an update in parts without those who have the others");
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
    if (round_statistics_) backend.round_to(statistics_.next, *round_statistics_);
    backend.commit_or_restore(statistics_.next, statistics_.live, state);
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

// One of them renews all.
void TrainedState::refresh_working_copies() const {
  if (working_.defined()) working_copy(buffers_.slots().front().parameter.value(), working_.dtype());
}

std::int64_t TrainedState::update_bytes() const {
  constexpr std::int64_t kValue = sizeof(float), kBoth = 2 * kValue;  // f32 read; read and written
  std::int64_t bytes = 0;
  for (const Group& group : groups_) {
    std::int64_t each = kValue + kBoth;
    for (const Moment& moment : group.optimizer.moments()) each += moment.name.empty() ? 0 : kBoth;
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
      // Averages follow all masters, also those that this process or this step does not move.
      if (ema_) bytes += kBoth * whole.count + kValue * (whole.count - moved);
    }
  }
  if (statistics_.live.defined()) bytes += 2 * static_cast<std::int64_t>(statistics_.live.bytes());
  return bytes;
}

std::vector<NamedTensor> TrainedState::named() const { return named_with(parts_ ? Moments() : moments_); }

std::vector<NamedTensor> TrainedState::gathered() const {
  if (!parts_) return named();
  Moments whole;
  for (std::size_t m = 0; m < whole.size(); ++m)
    if (moments_[m].defined())
      whole[m] = exchange_->part_by_part(parts_->part_of_window(moments_[m]), parts_->counts());
  return named_with(whole);
}

TrainedState::Moments TrainedState::moments_to_load() const {
  if (!parts_) return moments_;
  Moments whole;
  for (std::size_t m = 0; m < whole.size(); ++m)
    if (moments_[m].defined()) whole[m] = buffers_.make(MemoryKind::workspace);
  return whole;
}

void TrainedState::take_moments(const Moments& whole) {
  if (!parts_) return;
  for (std::size_t m = 0; m < whole.size(); ++m)
    if (moments_[m].defined())
      backend_for(buffers_.device()).copy_bytes(parts_->part(whole[m]), parts_->part_of_window(moments_[m]));
}

std::vector<NamedTensor> TrainedState::named_with(const Moments& moments) const {
  std::vector<NamedTensor> state;
  const auto& slots = buffers_.slots();
  for (const Group& group : groups_) {
    for (const UpdateRange& range : group.ranges) {
      const FlatBuffers::Slot& slot = slots[static_cast<std::size_t>(range.slot)];
      const std::string& name = slot.parameter.name();
      state.emplace_back("master." + name, buffers_.range(buffers_.masters(), slot));
      for (std::size_t m = 0; m < moments_.size(); ++m) {
        const Moment& moment = group.optimizer.moments()[m];
        if (!moment.name.empty() && moments[m].defined())
          state.emplace_back("moment." + moment.name + "." + name, buffers_.range(moments[m], slot));
      }
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
