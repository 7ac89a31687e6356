// An update divided among processes, here threads: the bits of an undivided one, and states that resume with
// any other division. tests/ranks and tests/program cover processes.
#include "optim/step/update_parts.h"

#include <cmath>
#include <limits>
#include <mutex>
#include <thread>

#include "core/backend.h"
#include "optim/all_optimizers.h"
#include "tests/optim/toy.h"
#include "tests/support/meeting.h"

using namespace tandem;
using namespace tandem::test;

namespace {

// Values that threads exchange. A device is driven by one thread at a time (core/kernel_cache.h): a thread
// holds `device` but where it waits for the others.
class Table {
 public:
  explicit Table(int seats) : given_(static_cast<std::size_t>(seats)), meeting_(seats) {}
  int seats() const { return static_cast<int>(given_.size()); }

  std::mutex device;

  template <class T>
  std::vector<std::vector<T>> all(int seat, std::span<const T> values) {
    const auto bytes = std::as_bytes(values);
    given_[static_cast<std::size_t>(seat)].assign(bytes.begin(), bytes.end());
    device.unlock();
    meeting_.meet();
    std::vector<std::vector<T>> all;
    for (const auto& given : given_) {
      all.emplace_back(given.size() / sizeof(T));
      if (!given.empty()) std::memcpy(all.back().data(), given.data(), given.size());
    }
    meeting_.meet();
    device.lock();
    return all;
  }

 private:
  std::vector<std::vector<std::byte>> given_;
  Meeting meeting_;
};

// Of one thread, which has a shard; sums are taken in the order of threads.
class SeatShards final : public optim::ShardExchange {
 public:
  SeatShards(Table& table, int seat) : table_(table), seat_(seat) {}
  int shards() const override { return table_.seats(); }
  int first() const override { return seat_; }
  int own() const override { return 1; }
  double usual_samples() const override { return 2.0; }
  std::vector<double> gather(std::span<const double> own) override {
    std::vector<double> rows;
    for (const auto& row : table_.all(seat_, own)) rows.insert(rows.end(), row.begin(), row.end());
    return rows;
  }
  void add(std::span<const float> values) override { own_.assign(values.begin(), values.end()); }
  void sum(std::span<float> total) override {
    std::ranges::fill(total, 0.0f);
    for (const Values& values : table_.all(seat_, std::span<const float>(own_)))
      for (std::size_t i = 0; i < total.size(); ++i) total[i] += values[i];
  }
  void drop() override { own_.clear(); }

  // What is not the own part is of no use to anyone.
  void sum_parts(const Tensor& total, std::span<const std::size_t> counts) override {
    const std::span<float> values = span_of(total);
    sum(values);
    const auto [first, last] = part(counts, seat_);
    std::fill(values.begin(), values.begin() + first, std::numeric_limits<float>::quiet_NaN());
    std::fill(values.begin() + last, values.end(), std::numeric_limits<float>::quiet_NaN());
  }
  void gather_parts(const Tensor& whole, std::span<const std::size_t> counts) override {
    const auto [own_first, own_last] = part(counts, seat_);
    const std::span<float> values = span_of(whole);
    const auto parts =
        table_.all(seat_, std::span<const float>(values.begin() + own_first, values.begin() + own_last));
    for (int seat = 0; seat < table_.seats(); ++seat)
      std::ranges::copy(parts[static_cast<std::size_t>(seat)], values.begin() + part(counts, seat).first);
  }
  void tell(std::span<double> values, int process) override {
    const auto all = table_.all(seat_, std::span<const double>(values));
    std::ranges::copy(all[static_cast<std::size_t>(process)], values.begin());
  }
  Tensor part_by_part(const Tensor& own, std::span<const std::size_t>) override {
    Values whole;
    for (const Values& values : table_.all(seat_, std::span<const float>(span_of(own))))
      whole.insert(whole.end(), values.begin(), values.end());
    if (seat_ != 0) return {};
    return Tensor::from(whole, {static_cast<Index>(whole.size())});
  }

 private:
  static std::span<float> span_of(const Tensor& tensor) {
    return {tensor.data<float>(), static_cast<std::size_t>(tensor.numel())};
  }
  static std::pair<std::ptrdiff_t, std::ptrdiff_t> part(std::span<const std::size_t> counts, int seat) {
    std::size_t first = 0;
    for (int before = 0; before < seat; ++before) first += counts[static_cast<std::size_t>(before)];
    return {static_cast<std::ptrdiff_t>(first),
            static_cast<std::ptrdiff_t>(first + counts[static_cast<std::size_t>(seat)])};
  }

  Table& table_;
  int seat_;
  Values own_;
};

// Parameters of odd sizes, one of them larger than a part.
std::shared_ptr<Toy> several_parameters() {
  auto toy = std::make_shared<Toy>();
  const auto wave = [](double phase) {
    return [=](Index i) { return std::sin(1.3 * static_cast<double>(i) + phase); };
  };
  toy->add("table", {900, 20}, wave(0.1));
  toy->add("weight", {700, 7}, wave(0.2));
  toy->add("bias", {7}, wave(0.3));
  toy->add("scale", {1}, wave(0.4));
  toy->add("head", {7, 30}, wave(0.5));
  toy->add_running("mean", {8.0f, 9.0f});
  return toy;
}

Tensor loss_of(Toy& toy, int t, int shard, bool overflows) {
  Tensor loss;
  for (std::size_t p = 0; p < 5; ++p) {
    if (p == 3 && t % 2 == 1) continue;  // a parameter without a gradient
    Values g = golden_gradient(p, toy[p].value().numel(), 3 * t + shard);
    if (overflows && p == 4 && shard == 0) g[11] = std::numeric_limits<float>::infinity();
    const Tensor part = product(toy[p], g);
    loss = loss.defined() ? add(loss, part) : part;
  }
  return loss;
}

using Optimizers = std::vector<std::unique_ptr<optim::Optimizer>>;
using MakeOptimizers = std::function<Optimizers(Toy&)>;

template <class O, class Options>
MakeOptimizers one(Options options) {
  return [=](Toy& toy) {
    Optimizers made;
    made.push_back(std::make_unique<O>(toy.parameters(), options));
    return made;
  };
}

struct Trained {
  Values masters, gradients;
  std::vector<optim::NamedTensor> state, common;  // the state as the first thread has it
  optim::StepReport report;
};

struct Course {
  int steps = 4, overflow_in = -1;
  std::vector<optim::NamedTensor> from{};  // goes on from it
};

// By so many threads of a shard each, in as many parts or undivided; as the first thread ends.
Trained train(int seats, bool divided, const MakeOptimizers& make, optim::StepOptions options,
              const Course& course = {}) {
  Table table(seats);
  std::vector<Trained> trained(static_cast<std::size_t>(seats));
  std::vector<std::thread> threads;
  for (int seat = 0; seat < seats; ++seat)
    threads.emplace_back([&, seat, options]() mutable {
      const std::lock_guard drives(table.device);
      const auto toy = several_parameters();
      SeatShards shards(table, seat);
      options.shards = &shards;
      options.update_parts = divided ? seats : 1;
      options.own_part = divided ? seat : 0;
      const Optimizers made = make(*toy);
      std::vector<optim::Optimizer*> optimizers;
      for (const auto& each : made) optimizers.push_back(each.get());
      optim::Step step(*toy, optimizers, options);
      if (!course.from.empty()) step.load_state(course.from);
      const int begun = static_cast<int>(step.attempted());
      for (int t = begun; t < begun + course.steps; ++t) {
        for (int micro = 0; micro < options.accumulate; ++micro)
          step.backward(loss_of(*toy, t + micro, seat, t == course.overflow_in), 2.0);
        step.apply();
      }
      Trained& end = trained[static_cast<std::size_t>(seat)];
      end.report = step.synchronize();
      step.gather_gradients();
      for (const optim::FlatBuffers::Slot& slot : step.buffers().slots())  // what lies between is nobody's
        for (const float value : values_of(step.buffers().range(step.buffers().gradients(), slot)))
          end.gradients.push_back(value);
      end.masters = values_of(step.buffers().masters());
      for (const auto& [name, tensor] : step.state()) end.state.emplace_back(name, tensor.clone());
      for (const auto& [name, tensor] : step.common_state()) end.common.emplace_back(name, tensor.clone());
    });
  for (std::thread& thread : threads) thread.join();
  // Whatever every process holds is the same for all.
  for (const Trained& other : trained) {
    CHECK(same_bits(other.masters, trained[0].masters));
    REQUIRE(other.common.size() == trained[0].common.size());
    for (std::size_t i = 0; i < other.common.size(); ++i)
      CHECK(same_tensor(other.common[i].second, trained[0].common[i].second));
  }
  return trained[0];
}

void check_same(const Trained& a, const Trained& b) {
  CHECK(same_bits(a.masters, b.masters));
  CHECK(same_bits(a.gradients, b.gradients));
  REQUIRE(a.state.size() == b.state.size());
  for (std::size_t i = 0; i < a.state.size(); ++i) {
    INFO(a.state[i].first);
    CHECK(a.state[i].first == b.state[i].first);
    CHECK(same_tensor(a.state[i].second, b.state[i].second));
  }
  CHECK((a.report.gradient_norm == b.report.gradient_norm ||
         (std::isnan(a.report.gradient_norm) && std::isnan(b.report.gradient_norm))));
  CHECK(a.report.loss == b.report.loss);
  CHECK(a.report.applied == b.report.applied);
}

const MakeOptimizers kAdam = one<optim::Adam>(optim::AdamOptions{.lr = 0.01, .amsgrad = true});

}  // namespace

TEST_CASE("an update in parts has the bits of an undivided one", "[update_parts]") {
  const int seats = GENERATE(2, 3, 5);
  const auto check = [&](const MakeOptimizers& make, const optim::StepOptions& options = {},
                         const Course& course = {}) {
    check_same(train(seats, true, make, options, course), train(seats, false, make, options, course));
  };
  INFO(seats << " processes");
  SECTION("rules of elements") {
    check(kAdam);
    check(one<optim::Sgd>(optim::SgdOptions{.lr = 0.1, .momentum = 0.9}));
    check(one<optim::Sgd>(optim::SgdOptions{.lr = 0.1}));  // no moments at all
    check(one<optim::Adagrad>(
        optim::AdagradOptions{.lr = 0.1, .initial_accumulator = 0.1}));  // a moment that begins so
  }
  SECTION("rules with a norm of each parameter") {
    check(one<optim::Lamb>(optim::LambOptions{.lr = 0.01}));
    check(one<optim::Lars>(optim::LarsOptions{.lr = 0.1, .momentum = 0.9}));
  }
  SECTION("optimizers that declare state of any shape") {
    check(one<optim::Adafactor>(optim::AdafactorOptions{.lr = 0.01, .beta1 = 0.5}));
    check(one<optim::Muon>(optim::MuonOptions{.lr = 0.01}), {.clip_value = 0.2, .working = DType::f16});
    check([](Toy& toy) {
      Optimizers made;
      const auto all = toy.parameters();
      made.push_back(std::make_unique<optim::Adafactor>(std::vector<Parameter>{all[1], all[3]},
                                                        optim::AdafactorOptions{.lr = 0.01}));
      made.push_back(
          std::make_unique<optim::Adagrad>(std::vector<Parameter>{all[0], all[2], all[4]},
                                           optim::AdagradOptions{.lr = 0.01, .initial_accumulator = 0.1}));
      return made;
    });
  }
  SECTION("several optimizers") {
    check([](Toy& toy) {
      Optimizers made;
      const auto all = toy.parameters();
      made.push_back(std::make_unique<optim::Adam>(std::vector<Parameter>{all[1], all[3]},
                                                   optim::AdamOptions{.lr = 0.01}));
      made.push_back(std::make_unique<optim::Sgd>(std::vector<Parameter>{all[0], all[2], all[4]},
                                                  optim::SgdOptions{.lr = 0.1, .momentum = 0.5}));
      return made;
    });
  }
  SECTION("averages, working copies, values that are limited, micro-batches") {
    check(kAdam, {.clip_value = 0.2, .accumulate = 2, .ema = optim::EmaOptions{}, .working = DType::bf16});
    check(kAdam, {.working = DType::f16, .rounding = {.moments = DType::bf16}});
  }
  SECTION("a norm that is clipped") { check(kAdam, {.clip_norm = 0.05}); }
  SECTION("the greatest magnitude moves a scale") {
    optim::StepOptions options;
    options.scaler = optim::ScalerOptions::fixed(64.0);
    options.scaler.estimator = ScaleEstimator::amax;
    check(kAdam, options);
  }
  SECTION("a step that overflows in one part alone") {
    check(kAdam,
          {.scaler =
               {.initial = 1024.0, .growth = 2.0, .backoff = 0.5, .interval = 100, .spare_forward = false},
           .working = DType::f16},
          {.overflow_in = 2});
    const Trained skipped = train(
        seats, true, kAdam,
        {.scaler =
             {.initial = 1024.0, .growth = 2.0, .backoff = 0.5, .interval = 100, .spare_forward = false}},
        {.overflow_in = 3});
    CHECK(skipped.report.skip);
    CHECK(skipped.report.applied == 3);
    CHECK(skipped.report.next_loss_scale == 512.0);
  }
}

TEST_CASE("a state of parts goes on in any other division", "[update_parts]") {
  const auto lamb = one<optim::Lamb>(optim::LambOptions{.lr = 0.01});
  const auto muon = one<optim::Muon>(optim::MuonOptions{.lr = 0.01});
  const auto adafactor = one<optim::Adafactor>(optim::AdafactorOptions{.lr = 0.01});
  for (const MakeOptimizers& make : {kAdam, lamb, muon, adafactor}) {
    const optim::StepOptions options{.ema = optim::EmaOptions{}, .working = DType::bf16};
    const Trained begun = train(3, true, make, options, {.steps = 3});
    const Trained whole = train(3, false, make, options, {.steps = 5});
    check_same(train(3, true, make, options, {.steps = 2, .from = begun.state}), whole);
    check_same(train(3, false, make, options, {.steps = 2, .from = begun.state}), whole);
    const Trained two = train(2, true, make, options, {.steps = 2, .from = begun.state});
    check_same(two, train(2, false, make, options, {.steps = 2, .from = begun.state}));
    // And from an undivided one.
    const Trained undivided = train(3, false, make, options, {.steps = 3});
    check_same(train(3, true, make, options, {.steps = 2, .from = undivided.state}), whole);
  }
}

TEST_CASE("moments take the memory of their part", "[update_parts]") {
  const auto optimizer_bytes = [](int parts, int own) {
    const auto live = [] {
      return backend_for({}).memory().live_by_kind[static_cast<std::size_t>(MemoryKind::optimizer)];
    };
    const auto toy = std::make_shared<Toy>();
    toy->add("weight", {10000, 96}, [](Index i) { return static_cast<double>(i); });
    optim::Adam adam(toy->parameters(), {.lr = 0.1});
    const std::size_t before = live();
    const optim::Step step(*toy, {&adam}, {.update_parts = parts, .own_part = own});
    return live() - before;
  };
  constexpr std::size_t kMoments = 2 * sizeof(float) * 960000;
  CHECK(optimizer_bytes(1, 0) >= kMoments);
  for (const int parts : {2, 3, 4, 8})
    for (int own = 0; own < parts; ++own) {
      const std::size_t bytes = optimizer_bytes(parts, own),
                        part = kMoments / static_cast<std::size_t>(parts);
      INFO("part " << own << " of " << parts << ": " << bytes << " bytes");
      // Cuts lie some thousand elements off, and the allocator gives a little more.
      CHECK(bytes + part / 10 >= part);
      CHECK(bytes <= part + part / 10);
    }
}

TEST_CASE("parts lie beside each other, and are cut where rules allow it", "[update_parts]") {
  const auto toy = several_parameters();
  const optim::FlatBuffers buffers(toy->parameters());
  for (const bool whole : {false, true})
    for (const int parts : {1, 2, 3, 7, 12}) {
      Index first = 0;
      for (int own = 0; own < parts; ++own) {
        const optim::UpdateParts part(buffers, parts, own, whole);
        REQUIRE(part.counts().size() == static_cast<std::size_t>(parts));
        const auto count = static_cast<Index>(part.counts()[static_cast<std::size_t>(own)]);
        CHECK(part.part(buffers.masters()).numel() == count);
        CHECK(part.before(buffers.masters()).numel() == first);
        CHECK(part.behind(buffers.masters()).numel() == buffers.length() - first - count);
        CHECK(part.window_length() == std::max<Index>(count, 16));
        CHECK(part.part_of_window(part.window(buffers.masters())).numel() == count);
        Index covered = 0;
        for (const optim::FlatBuffers::Slot& slot : buffers.slots()) {
          const UpdateRange of_slot{.first = slot.first, .count = slot.count}, own_of = part.own_of(of_slot);
          CHECK(
              (own_of.count == 0 || (own_of.first >= first && own_of.first + own_of.count <= first + count)));
          if (whole) CHECK((own_of.count == 0 || own_of.count == slot.count));
          const UpdateRange inside = part.in_window(of_slot);
          CHECK((inside.count == own_of.count && inside.first >= 0 &&
                 inside.first + inside.count <= part.window_length()));
          CHECK(part.window(buffers.masters()).rows(inside.first, 0).raw() ==
                buffers.masters().rows(own_of.first, 0).raw());
          covered += own_of.count;
        }
        CHECK(covered <= count);
        if (!whole) CHECK(std::abs(count - buffers.length() / parts) <= 4096);
        first += count;
      }
      CHECK(first == buffers.length());
    }
}

TEST_CASE("invalid divided updates are refused", "[update_parts]") {
  const auto toy = several_parameters();
  optim::Adam adam(toy->parameters(), {.lr = 0.1});
  CHECK(message_of([&] { optim::Step(*toy, {&adam}, {.update_parts = 2, .own_part = 2}); }) ==
        "[step] part 2 of an update in 2 parts");
  CHECK(message_of([&] {
          optim::Step(*toy, {&adam},
                      {.rounding = {.weights = DType::bf16, .stochastic = true}, .update_parts = 2});
        }) ==
        "[step] an update in 2 parts excludes stochastic rounding, which draws by an element's place in the "
        "whole");
  Table table(1);
  SeatShards shards(table, 0);
  optim::Step step(*toy, {&adam}, {.shards = &shards, .update_parts = 2});
  step.backward(loss_of(*toy, 0, 0, false), 2.0);
  CHECK_THAT(message_of([&] { step.unscale(); }), Catch::Contains("needs whole gradients"));
  OwnShards without(1, 1.0);
  const auto other = several_parameters();
  optim::Sgd sgd(other->parameters(), {.lr = 0.1});
  optim::Step alone(*other, {&sgd}, {.shards = &without, .update_parts = 2});
  alone.backward(loss_of(*other, 0, 0, false));
  CHECK_THROWS_AS(alone.apply(), InternalError);
}
