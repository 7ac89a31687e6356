#include "autograd/recompute.h"

#include <optional>

#include "autograd/apply.h"
#include "autograd/ops/elementwise.h"
#include "autograd/wide_gradients.h"
#include "core/error.h"
#include "core/random_state.h"

namespace tandem {

namespace {

constexpr OpInfo kRecompute{"recompute", CastRule::none};

enum class Change : std::uint8_t { none, cast, working_copy };

// Casts, working copies and types that precision chose for an op.
struct Decision {
  struct Input {
    Change change = Change::none;
    DType dtype = DType::f32;
  };
  const OpInfo* op = nullptr;
  std::vector<Input> inputs;
  DType result = DType::f32;
  std::optional<DType> for_product;
  bool wide_gradients = false;
};
using Decisions = std::vector<Decision>;

// Decisions of a first pass, in the order of its ops.
class Repetition {
 public:
  explicit Repetition(const Decisions& decisions) : decisions_(decisions) {}

  DType prepare(const OpInfo& info, std::span<Tensor> inputs) {
    require(next_ < decisions_.size() && decisions_[next_].op == &info &&
                decisions_[next_].inputs.size() == inputs.size(),
            kRecompute.name, "the second pass has {} as op {}, the first had {}; {}", info.name, next_,
            next_ < decisions_.size() ? decisions_[next_].op->name : "no more", kWayOut);
    const Decision& decision = decisions_[next_++];
    wide_gradients_.emplace(decision.wide_gradients);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto& [change, dtype] = decision.inputs[i];
      if (change == Change::cast) inputs[i] = cast(inputs[i], dtype);
      if (change == Change::working_copy) inputs[i] = working_copy(inputs[i], dtype);
    }
    return decision.result;
  }
  // Of the op that prepare() was called for.
  DType for_product(DType given) const { return decisions_[next_ - 1].for_product.value_or(given); }
  void finish() const {
    require(next_ == decisions_.size(), kRecompute.name, "the second pass has {} ops, the first had {}; {}",
            next_, decisions_.size(), kWayOut);
  }

 private:
  static constexpr const char* kWayOut = "the function must depend on its inputs and parameters alone";
  const Decisions& decisions_;
  std::size_t next_ = 0;
  std::optional<WideGradients> wide_gradients_;
};

thread_local bool keep_activations = false;
thread_local Decisions* noted = nullptr;      // of the first pass that runs
thread_local Repetition* repeated = nullptr;  // of the second pass that runs

using NotedScope = ScopedValue<Decisions*>;
using RepeatedScope = ScopedValue<Repetition*>;

Decision::Input change_of(const OpInfo& info, const Tensor& before, const Tensor& after) {
  if (!before.defined() || (after.dtype() == before.dtype() && after.is_same(before))) return {};
  const DType dtype = after.dtype();
  require(
      dtype != before.dtype(), kRecompute.name,
      "precision rounds parameters of {} to 16 bits and back, which a second pass cannot repeat; leave it "
      "out of the function, or set precision.batch_norm to fp32",
      info.name);
  const bool copy =
      is_16bit(dtype) && has_working_copy(before, dtype) && working_copy(before, dtype).is_same(after);
  return {copy ? Change::working_copy : Change::cast, dtype};
}

DType decided(const OpInfo& info, std::span<Tensor> inputs, DType common) {
  if (repeated) {
    Repetition& repetition = *repeated;
    const RepeatedScope casts(repeated, nullptr);
    return repetition.prepare(info, inputs);
  }
  PrecisionPolicy* const policy = PrecisionScope::active();
  return policy ? policy->prepare(info, inputs, common) : common;
}

}  // namespace

DType prepared_by_policy(const OpInfo& info, std::span<Tensor> inputs, DType common) {
  if (!noted) return decided(info, inputs, common);
  const TensorList before(inputs.begin(), inputs.end());
  Decision decision{.op = &info, .inputs = {}, .for_product = {}};
  {
    const NotedScope casts(noted, nullptr);
    decision.result = decided(info, inputs, common);
  }
  decision.wide_gradients = WideGradients::enabled();
  for (std::size_t i = 0; i < inputs.size(); ++i)
    decision.inputs.push_back(change_of(info, before[i], inputs[i]));
  noted->push_back(std::move(decision));
  return noted->back().result;
}

DType type_for_product(const OpInfo& info, DType given) {
  PrecisionPolicy* const policy = PrecisionScope::active();
  const DType type = repeated ? repeated->for_product(given)
                     : policy ? policy->for_product(info, given)
                              : given;
  if (noted) noted->back().for_product = type;
  return type;
}

namespace {

class RecomputedPart final : public detail::RecordedNode {
 public:
  // `saved`: the inputs, then the parameters.
  RecomputedPart(const RecomputedFunction& function, TensorList saved, std::size_t inputs,
                 Decisions&& decisions, const RandomKey& random, const TensorList& results)
      : function_(function),
        saved_(std::move(saved)),
        inputs_(inputs),
        decisions_(std::move(decisions)),
        random_(random) {
    keep(saved_, results, saved_);
  }

  const OpInfo& info() const override { return kRecompute; }
  std::span<const Tensor> saved() const override { return saved_; }
  bool is_recomputed() const override { return true; }

  void backward(std::span<Tensor>, std::span<Tensor>, const Needs&) override {
    throw InternalError(kRecompute.name, "backward continues in the recorded ops");
  }

  TensorList record_again() override {
    check_saved(saved_);
    Repetition repetition(decisions_);
    const GradMode gradients(true);
    const RecordLater recorded(false);
    const RandomStateScope random(random_);
    const NotedScope first(noted, nullptr);
    const RepeatedScope second(repeated, &repetition);
    TensorList results = function_({saved_.begin(), saved_.begin() + static_cast<std::ptrdiff_t>(inputs_)});
    repetition.finish();
    return results;
  }

  void release_saved() override {
    saved_.clear();
    function_ = {};
    decisions_.clear();
    mark_released();
  }

 private:
  RecomputedFunction function_;
  TensorList saved_;
  const std::size_t inputs_;
  Decisions decisions_;
  const RandomKey random_;
};

}  // namespace

TensorList recomputed(const RecomputedFunction& function, const TensorList& inputs,
                      std::span<const Parameter> parameters) {
  TensorList saved = inputs;
  for (const Parameter& parameter : parameters) saved.push_back(parameter.tensor());
  if (!GradMode::records() || HigherOrder::active() || keep_activations || !detail::any_requires_grad(saved))
    return function(inputs);
  const RandomKey random = random_state();
  Decisions decisions;
  TensorList results;
  {
    const RecordLater later(true);
    const NotedScope first(noted, &decisions);
    results = function(inputs);
  }
  const Ref<Node> node(
      new RecomputedPart(function, std::move(saved), inputs.size(), std::move(decisions), random, results));
  detail::put_on_tape(node, results);
  return results;
}

KeepActivations::KeepActivations() : ScopedValue(keep_activations, true) {}

bool recomputes() { return repeated != nullptr; }

}  // namespace tandem
