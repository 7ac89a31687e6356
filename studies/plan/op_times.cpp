#include "studies/plan/op_times.h"

#include <numeric>
#include <string_view>

#include "amp/planned_policy.h"
#include "autograd/node.h"
#include "autograd/recompute.h"
#include "core/backend.h"

namespace tandem::planning {

namespace {

constexpr int kNone = -1;

struct Span {
  std::uint64_t first = 0, last = 0;
};

// Wraps the step's policy to see which ops are planned.
class OpTimer final : public OpObserver, public PrecisionPolicy {
 public:
  OpTimer(Backend& backend, PrecisionPolicy* policy) : backend_(backend), policy_(policy) {}

  DType prepare(const OpInfo& info, std::span<Tensor> inputs, DType common) override {
    if (!frames_.empty() && !preparing_ && amp::is_planned(info, inputs)) {
      frames_.back().op = static_cast<int>(spans_.size());
      spans_.emplace_back();
      flop_.push_back(0);
    }
    if (!policy_ || preparing_) return common;
    preparing_ = true;
    const DType type = policy_->prepare(info, inputs, common);
    preparing_ = false;
    return type;
  }

  void before_forward(const OpInfo&, std::span<const Tensor>) override {
    frames_.push_back({.inserted = preparing_, .first = backend_.timestamp()});
  }

  void after_forward(const OpInfo& info, std::span<const Tensor> inputs,
                     std::span<const Tensor> outputs) override {
    const Frame frame = frames_.back();
    frames_.pop_back();
    const Span span{frame.first, backend_.timestamp()};
    if (frame.inserted) {
      if (!frames_.empty()) frames_.back().casts.push_back(span);
      note(outputs, kNone);
    } else if (frame.op != kNone) {
      const auto op = static_cast<std::size_t>(frame.op);
      spans_[op].push_back(span);
      if (!frame.casts.empty()) without_[op] = frame.casts;
      if (!backward_) flop_[op] += 2 * info.traits.multiply_adds(inputs, outputs);
      note(outputs, frame.op);
    }
  }

  void before_backward(const Node& node, std::span<const Tensor>) override {
    backward_ = true;
    began_ = backend_.timestamp();
    current_ = nodes_.find(&node);
  }

  void after_backward(const Node&, std::span<const Tensor>) override {
    if (current_ == nodes_.end() || current_->second == kNone) return;
    spans_[static_cast<std::size_t>(current_->second)].push_back({began_, backend_.timestamp()});
  }

  StepTimes times() {
    StepTimes times{.flop = flop_};
    for (std::size_t op = 0; op < spans_.size(); ++op) {
      double seconds = total(spans_[op]);
      if (const auto found = without_.find(op); found != without_.end()) seconds -= total(found->second);
      times.ops.push_back(seconds);
    }
    return times;
  }

 private:
  struct Frame {
    bool inserted = false;  // a cast of the policy
    std::uint64_t first = 0;
    int op = kNone;
    std::vector<Span> casts{};
  };

  void note(std::span<const Tensor> outputs, int op) {
    for (const Tensor& output : outputs)
      if (output.defined() && output.requires_grad()) nodes_[node_of(output)] = op;
  }

  double total(const std::vector<Span>& spans) const {
    return std::accumulate(spans.begin(), spans.end(), 0.0, [&](double sum, const Span& span) {
      return sum + backend_.seconds_between(span.first, span.last);
    });
  }

  Backend& backend_;
  PrecisionPolicy* const policy_;
  bool preparing_ = false, backward_ = false;
  std::vector<Frame> frames_;
  std::vector<std::vector<Span>> spans_;  // by op
  std::unordered_map<std::size_t, std::vector<Span>> without_;
  std::vector<std::int64_t> flop_;
  std::unordered_map<const Node*, int> nodes_;
  std::unordered_map<const Node*, int>::iterator current_;
  std::uint64_t began_ = 0;
};

}  // namespace

StepTimes time_step(Subject& subject, const amp::ResolvedPrecision& resolved, std::size_t phase) {
  Backend& backend = subject.backend();
  backend.synchronize();
  const std::uint64_t first = backend.timestamp();
  const amp::Autocast autocast(resolved, phase);
  OpTimer timer(backend, PrecisionScope::active());
  {
    const ObserverScope observed(timer);
    Tensor loss;
    {
      const PrecisionScope asked(&timer);
      const KeepActivations recorded;
      loss = subject.forward(phase);
    }
    autocast.finish();
    const PrecisionScope none(nullptr);
    subject.backward_and_update(loss, phase);
    subject.end();
  }
  const std::uint64_t last = backend.timestamp();
  backend.synchronize();
  StepTimes times = timer.times();
  times.whole = backend.seconds_between(first, last);
  backend.clear_timestamps();
  return times;
}

}  // namespace tandem::planning
