// Steps of ranks on GPUs: a batch in shards, against the same batch in one process on the same device.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>

#include "autograd/ops/loss.h"
#include "core/backend.h"
#include "core/random.h"
#include "nn/layers/activation.h"
#include "nn/layers/batch_norm.h"
#include "nn/layers/embedding.h"
#include "nn/layers/linear.h"
#include "nn/layers/sequential.h"
#include "optim/adam.h"
#include "optim/recorded_step.h"
#include "optim/sgd.h"
#include "optim/step.h"
#include "parallel/device_exchange.h"
#include "parallel/partition.h"
#include "tests/nccl/checking.h"

namespace tandem::test {

namespace {

using namespace tandem::parallel;

constexpr Index kFeatures = 12, kClasses = 7, kWords = 40;

// What is trained: how, and on what.
struct Case {
  const char* name = "";
  bool language = false;    // a table of words in front, of which a batch reads a few rows
  bool batch_norm = false;  // statistics differ from those of the whole batch
  bool adam = false;
  int accumulate = 1;
  std::size_t bucket_bytes = std::numeric_limits<std::size_t>::max();
  DType wire = DType::f32;
  optim::ScalerOptions scaler = optim::ScalerOptions::fixed(256.0);
  std::optional<double> clip_norm{};
};

float number(std::uint64_t a, std::uint64_t b) {
  RandomStream stream({.seed = a * 1000003 + b});
  return stream.uniform() - 0.5f;
}

struct Learner {
  Learner(const Case& of, Device device, optim::ShardExchange* exchange) {
    model = std::make_unique<nn::Sequential>();
    if (of.language) model->add(std::make_shared<nn::Embedding>(kWords, kFeatures));
    model->add(std::make_shared<nn::Linear>(kFeatures, 16));
    if (of.batch_norm) model->add(std::make_shared<nn::BatchNorm>(16));
    model->add(std::make_shared<nn::Linear>(16, of.language ? kWords : kClasses));
    std::uint64_t seed = 1;
    for (const Parameter& parameter : model->parameters()) {
      std::vector<float> values;
      for (Index i = 0; i < parameter.value().numel(); ++i)
        values.push_back(number(seed, static_cast<std::uint64_t>(i)));
      backend_for(Device{}).copy_bytes(Tensor::from(values, parameter.value().shape()), parameter.value());
      ++seed;
    }
    model->to(device);
    if (of.adam) {
      optimizer = std::make_unique<optim::Adam>(model->parameters(), optim::AdamOptions{.lr = 0.01});
    } else {
      optimizer = std::make_unique<optim::Sgd>(model->parameters(), optim::SgdOptions{.lr = 0.1});
    }
    step = std::make_unique<optim::Step>(
        *model, std::vector<optim::Optimizer*>{optimizer.get()},
        optim::StepOptions{
            .scaler = of.scaler, .clip_norm = of.clip_norm, .accumulate = of.accumulate, .shards = exchange});
  }

  std::unique_ptr<nn::Sequential> model;
  std::unique_ptr<optim::Optimizer> optimizer;
  std::unique_ptr<optim::Step> step;
};

struct Batch {
  Tensor inputs, targets;
};

// Samples `first` … `last` - 1 of batch `number_of`. `spoilt`: the one that is no number, or -1.
Batch batch_of(const Case& of, std::uint64_t number_of, std::size_t first, std::size_t last, Device device,
               std::ptrdiff_t spoilt = -1) {
  std::vector<float> values;
  std::vector<std::int64_t> words, targets;
  const auto drawn = [&](std::size_t sample, std::uint64_t what, Index of_so_many) {
    return static_cast<std::int64_t>((number(number_of * 31 + what, sample) + 0.5f) *
                                     static_cast<float>(of_so_many)) %
           of_so_many;
  };
  for (std::size_t sample = first; sample < last; ++sample) {
    words.push_back(drawn(sample, 7, kWords / 2));  // the other half is never read
    for (Index i = 0; i < kFeatures; ++i)
      values.push_back(static_cast<std::ptrdiff_t>(sample) == spoilt
                           ? std::numeric_limits<float>::quiet_NaN()
                           : number(number_of, sample * kFeatures + static_cast<std::uint64_t>(i)));
    targets.push_back(drawn(sample, 11, of.language ? kWords : kClasses));
  }
  const auto count = static_cast<Index>(last - first);
  return {
      of.language ? Tensor::from(words, {count}, device) : Tensor::from(values, {count, kFeatures}, device),
      Tensor::from(targets, {count}, device)};
}

// What became of a step.
struct Outcome {
  std::vector<float> gradient;  // mean over all samples
  optim::StepReport report;
};

// Trains on the own parts of batches of so many samples each, or on all of each.
class Run {
 public:
  Run(const Joined& joined, const Case& of, bool divided, std::size_t usual)
      : joined_(joined), case_(of), device_(joined.devices.device()) {
    if (divided) {
      const double samples = std::ceil(static_cast<double>(usual) / joined.ranks.size());
      exchange_ = make_device_exchange(joined.ranks, joined.devices,
                                       {.shards = joined.ranks.size(),
                                        .usual_samples = samples,
                                        .deadline_s = joined.deadline_s,
                                        .bucket_bytes = of.bucket_bytes,
                                        .wire = of.wire},
                                       &wire_error);
    }
    learner.emplace(of, device_, exchange_.get());
  }

  // One step over batches of these sizes. `first_alone`: the first rank has all samples.
  Outcome step(const std::vector<std::size_t>& sizes, std::ptrdiff_t spoilt = -1, bool first_alone = false) {
    optim::Step& step = *learner->step;
    double samples = 0.0;
    for (const std::size_t size : sizes) {
      Range part = part_of(size);
      if (first_alone) part = {0, joined_.ranks.rank() == 0 ? size : 0};
      step.enter_shard();
      if (part.count() == 0) {
        step.pass();
      } else {
        const Batch batch = batch_of(case_, next_, part.first, part.last, device_, spoilt);
        pass(batch, static_cast<double>(part.count()));
      }
      samples += static_cast<double>(size);
      ++next_;
    }
    apply();
    Outcome outcome;
    outcome.report = step.synchronize();
    outcome.gradient = step.buffers().gradients().to_vector<float>();
    const double unit = exchange_ ? exchange_->usual_samples() : static_cast<double>(sizes.front());
    for (float& value : outcome.gradient)
      value = static_cast<float>(value * unit / samples / outcome.report.loss_scale);
    return outcome;
  }

  std::map<std::string, std::vector<double>> state() {
    std::map<std::string, std::vector<double>> values;
    for (const auto& [name, tensor] : learner->step->state()) values[name] = tensor.to_vector<double>();
    return values;
  }

  // From now on full micro-batches and the ends of steps of such are recorded, and done from that.
  void record() { records_ = true; }
  int replays() const { return replays_; }

  std::optional<WireError> wire_error;

 private:
  Range part_of(std::size_t size) const {
    return exchange_ ? part_of_rank(size, joined_.ranks.size(), joined_.ranks.rank()) : Range{0, size};
  }

  Tensor loss(const Batch& batch) { return cross_entropy((*learner->model)(batch.inputs), batch.targets); }

  void pass(const Batch& batch, double samples) {
    optim::Step& step = *learner->step;
    const auto slot = static_cast<std::size_t>(step.micro_batches());
    if (!records_ || (inputs_.targets.defined() && inputs_.targets.shape() != batch.targets.shape()))
      return step.backward(loss(batch), samples);
    if (!inputs_.targets.defined()) {
      inputs_ = {batch.inputs.clone(), batch.targets.clone()};
    } else {
      backend_for(device_).copy_bytes(batch.inputs, inputs_.inputs);
      backend_for(device_).copy_bytes(batch.targets, inputs_.targets);
    }
    if (backwards_.size() <= slot) backwards_.resize(slot + 1);
    if (backwards_[slot]) {
      step.backward(*backwards_[slot]);
      ++replays_;
    } else {
      backwards_[slot] = step.record_backward([&] { return loss(inputs_); }, samples);
    }
  }

  void apply() {
    optim::Step& step = *learner->step;
    if (apply_ && step.fits(*apply_)) {
      step.apply(*apply_);
      ++replays_;
    } else if (records_ && !apply_ && backwards_.size() == static_cast<std::size_t>(case_.accumulate)) {
      apply_ = step.record_apply();
    } else {
      step.apply();
    }
  }

  const Joined& joined_;
  const Case& case_;
  const Device device_;
  std::unique_ptr<optim::ShardExchange> exchange_;

 public:
  std::optional<Learner> learner;

 private:
  std::uint64_t next_ = 1;  // number of the next batch
  bool records_ = false;
  int replays_ = 0;
  Batch inputs_{};
  std::vector<std::unique_ptr<optim::RecordedBackward>> backwards_;
  std::unique_ptr<optim::RecordedApply> apply_;
};

double off(const std::vector<float>& got, const std::vector<float>& wanted) {
  double difference = 0.0, norm = 0.0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    difference += std::pow(static_cast<double>(got[i]) - wanted[i], 2);
    norm += std::pow(static_cast<double>(wanted[i]), 2);
  }
  return std::sqrt(difference / std::max(norm, 1e-30));
}

// All ranks have these bits.
void expect_same_everywhere(const Joined& joined, Run& run, const char* name) {
  for (const auto& [of, values] : run.state()) {
    for (const auto& bytes :
         joined.ranks.all_gather_bytes(std::as_bytes(std::span(values)), joined.deadline_s))
      expect(bytes.size() == values.size() * sizeof(double) &&
                 std::memcmp(bytes.data(), values.data(), bytes.size()) == 0,
             "{}: {} is the same on all ranks", name, of);
  }
}

// Sizes of the micro-batches of each step: full ones, uneven ones, one that leaves ranks without samples.
std::vector<std::vector<std::size_t>> sizes_of(const Case& of) {
  if (of.accumulate == 1) return {{24}, {24}, {13}, {1}, {24}};
  return {{24, 24}, {24, 12}, {24, 1}, {24}, {24, 24}};
}

void check_case(const Joined& joined, const Case& of) {
  Run whole(joined, of, false, 24), divided(joined, of, true, 24);
  const double most = of.wire == DType::f32 ? 1e-6 : of.wire == DType::bf16 ? 0.02 : 0.003;
  for (const auto& sizes : sizes_of(of)) {
    const Outcome wanted = whole.step(sizes), got = divided.step(sizes);
    const double error = off(got.gradient, wanted.gradient);
    expect(error <= most, "{}: the gradient of {} samples is off by {:.3g}", of.name, sizes.front(), error);
    expect(std::abs(got.report.loss - wanted.report.loss) <= 1e-6 * std::abs(wanted.report.loss),
           "{}: the loss is {} for {}", of.name, got.report.loss, wanted.report.loss);
    expect(std::abs(got.report.gradient_norm / wanted.report.gradient_norm - 1.0) <= 10 * most,
           "{}: the norm is {} for {}", of.name, got.report.gradient_norm, wanted.report.gradient_norm);
    expect(got.report.applied == wanted.report.applied, "{}: {} steps were applied", of.name,
           got.report.applied);
    if (of.wire != DType::f32) break;  // the weights differ from then on
  }
  if (of.wire == DType::f32)
    for (const auto& [name, values] : whole.state()) {
      if (!name.starts_with("master.")) continue;
      const std::vector<double> own = divided.state().at(name);
      const std::vector<float> a(own.begin(), own.end()), b(values.begin(), values.end());
      expect(off(a, b) <= 2e-6, "{}: {} is off by {:.3g}", of.name, name, off(a, b));
    }
  if (of.wire != DType::f32 && joined.ranks.size() > 1)
    expect(divided.wire_error && divided.wire_error->norm > 0.0 &&
               divided.wire_error->difference < most * divided.wire_error->norm,
           "{}: an error was measured", of.name);
  expect_same_everywhere(joined, divided, of.name);
}

// The mean over samples `part` of batch `number_of` of what the norm sees, by channel.
std::vector<double> seen_means(const Case& of, const std::map<std::string, std::vector<double>>& state,
                               std::uint64_t number_of, const Range& part) {
  const std::vector<float> x =
      batch_of(of, number_of, part.first, part.last, Device{}).inputs.to_vector<float>();
  const std::vector<double>& weight = state.at("master.0.weight");
  std::vector<double> means(state.at("master.0.bias"));
  for (std::size_t c = 0; c < means.size(); ++c)
    for (std::size_t n = 0; n < part.count(); ++n)
      for (std::size_t i = 0; i < kFeatures; ++i)
        means[c] += weight[c * kFeatures + i] * x[n * kFeatures + i] / static_cast<double>(part.count());
  return means;
}

// Statistics are the mean of those of the ranks, of those that had samples.
void check_statistics(const Joined& joined) {
  const Case of{.name = "batch norm", .batch_norm = true};
  const int ranks = joined.ranks.size();
  Run divided(joined, of, true, 24);
  const auto expect_running = [&](const std::map<std::string, std::vector<double>>& before,
                                  const std::vector<double>& means) {
    const std::vector<double>& was = before.at("statistic.1.running_mean");
    const std::vector<double> running = divided.state().at("statistic.1.running_mean");
    for (std::size_t c = 0; c < means.size(); ++c) {
      const double wanted = 0.9 * was[c] + 0.1 * means[c];
      expect(std::abs(running[c] - wanted) < 1e-6, "channel {}: a running mean of {} for {}", c, running[c],
             wanted);
    }
  };
  const auto before = divided.state();
  std::vector<double> means(16, 0.0);
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<double> own = seen_means(of, before, 1, part_of_rank(24, ranks, rank));
    for (std::size_t c = 0; c < means.size(); ++c) means[c] += own[c] / ranks;
  }
  divided.step({24});
  expect_running(before, means);
  const auto later = divided.state();
  divided.step({8}, -1, true);  // the other ranks have no samples
  expect_running(later, seen_means(of, later, 2, {0, 8}));
  expect_same_everywhere(joined, divided, of.name);
}

// What is no number on one rank skips the step on all, and does to the scale what it does in one process.
void check_overflow(const Joined& joined) {
  const Case of{.name = "overflow", .adam = true, .scaler = optim::ScalerOptions::dynamic()};
  Run divided(joined, of, true, 24), whole(joined, of, false, 24);
  divided.step({24});
  whole.step({24});
  const auto before = divided.state();
  const Outcome spoilt = divided.step({24}, 23), wanted = whole.step({24}, 23);  // of the last rank
  expect(spoilt.report.skip && spoilt.report.skipped == 1, "the step was skipped");
  expect(std::isnan(spoilt.report.loss), "the loss of a spoilt step is {}", spoilt.report.loss);
  expect(spoilt.report.next_loss_scale == wanted.report.next_loss_scale, "the next scale is {} for {}",
         spoilt.report.next_loss_scale, wanted.report.next_loss_scale);
  const auto after = divided.state();
  for (const auto& [name, values] : before)
    if (name.starts_with("master.") || name.starts_with("moment."))
      expect(std::memcmp(values.data(), after.at(name).data(), values.size() * sizeof(double)) == 0,
             "{} stays as it was", name);
  expect(!divided.step({24}).report.skip, "the next step is applied");
  expect_same_everywhere(joined, divided, of.name);
}

// A step that is dropped on all ranks leaves nothing behind.
void check_dropped(const Joined& joined) {
  const Case of{.name = "dropped", .accumulate = 2};
  Run straight(joined, of, true, 24), dropping(joined, of, true, 24);
  straight.step({24, 24});
  dropping.step({24, 24});
  optim::Step& step = *dropping.learner->step;
  const Range part = part_of_rank(24, joined.ranks.size(), joined.ranks.rank());
  for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
    const Batch batch = batch_of(of, 99, part.first, part.last, joined.devices.device());
    step.enter_shard();
    step.backward(cross_entropy((*dropping.learner->model)(batch.inputs), batch.targets),
                  static_cast<double>(part.count()));
  }
  step.clear();
  straight.step({24, 24});
  dropping.step({24, 24});
  expect(straight.state() == dropping.state(), "a dropped step left something behind");
}

}  // namespace

void check_steps(const Joined& joined) {
  check_case(joined, {.name = "a classifier"});
  check_case(joined, {.name = "in buckets, clipped", .bucket_bytes = 64, .clip_norm = 0.01});
  check_case(joined, {.name = "accumulated", .accumulate = 2, .bucket_bytes = 512});
  check_case(joined, {.name = "a language model", .language = true, .bucket_bytes = 256});
  check_case(joined, {.name = "bf16 on the wire", .wire = DType::bf16});
  check_case(joined, {.name = "fp16 on the wire", .bucket_bytes = 256, .wire = DType::f16});
  check_statistics(joined);
  check_overflow(joined);
  check_dropped(joined);
}

void check_recorded_steps(const Joined& joined) {
  const std::vector<Case> cases{
      {.name = "a classifier", .batch_norm = true, .adam = true, .bucket_bytes = 64, .clip_norm = 0.1},
      {.name = "accumulated", .accumulate = 2},
      {.name = "a language model", .language = true},
      {.name = "bf16 on the wire", .bucket_bytes = 256, .wire = DType::bf16},
      {.name = "a scale that moves", .scaler = optim::ScalerOptions::dynamic()}};
  for (const Case& of : cases) {
    Run ordinary(joined, of, true, 24), recorded(joined, of, true, 24);
    const std::vector<std::size_t> full(static_cast<std::size_t>(of.accumulate), 24);
    const auto both = [&](const std::vector<std::size_t>& sizes, std::ptrdiff_t spoilt = -1) {
      const Outcome wanted = ordinary.step(sizes, spoilt), got = recorded.step(sizes, spoilt);
      expect(std::memcmp(wanted.gradient.data(), got.gradient.data(),
                         wanted.gradient.size() * sizeof(float)) == 0,
             "{}: a recorded gradient has the bits of an ordinary one", of.name);
      expect(wanted.report.skip == got.report.skip &&
                 wanted.report.next_loss_scale == got.report.next_loss_scale,
             "{}: recorded steps decide alike", of.name);
    };
    both(full);
    recorded.record();
    both(full);
    both(full);
    const std::size_t some = of.batch_norm ? static_cast<std::size_t>(4 * joined.ranks.size()) : 13;
    both(std::vector<std::size_t>(static_cast<std::size_t>(of.accumulate), some));  // not from the recording
    if (!of.batch_norm) both(std::vector<std::size_t>(static_cast<std::size_t>(of.accumulate), 1));
    // The first rank's part is as large as ever, the last one's is not.
    both(std::vector<std::size_t>(static_cast<std::size_t>(of.accumulate), 23));
    both(full);
    if (!of.language) both(full, 0);  // of the first rank
    both(full);
    expect(recorded.replays() >= 6, "{}: {} replays", of.name, recorded.replays());
    expect(ordinary.state() == recorded.state(), "{}: recorded steps leave the bits of ordinary ones",
           of.name);
    expect_same_everywhere(joined, recorded, of.name);
  }
}

}  // namespace tandem::test
