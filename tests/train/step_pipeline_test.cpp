// The pipeline of steps over a mock device: micro-batches are numbers, and overflow above a loss scale.
#include "train/step_pipeline.h"

#include <fmt/format.h>

#include <limits>
#include <map>
#include <stdexcept>

#include "tests/support/errors.h"

using namespace tandem;
using train::InFlightStep;
using train::MicroBatch;

namespace {

using Key = std::pair<std::size_t, int>;  // phase, micro-batch from 1 on

constexpr std::int64_t kAlways = std::numeric_limits<std::int64_t>::max();

// It notes what it is asked for, and refuses what no device could do: reports of steps long gone, a
// micro-batch that does not begin with what the one before it left, a diagnosis amid gradients of another
// step.
class FakeDevice final : public train::StepDriver, public train::StepListener {
 public:
  explicit FakeDevice(std::size_t phases) : gathered(phases), trained(phases), reports(phases) {}

  tasks::CarriedState backward(std::size_t phase, const MicroBatch& micro_batch) override {
    const int number = static_cast<int>(micro_batch.samples);
    const Tensor before = micro_batch.carry.find("number");
    REQUIRE((before.defined() ? before.item() : 0.0) == number - 1);
    for (std::size_t other = 0; other < gathered.size(); ++other)
      if (other != phase) REQUIRE(gathered[other].empty());
    gathered[phase].push_back(number);
    note("b{}.{}", phase, number);
    tasks::CarriedState carry;
    carry.set("number", Tensor::from(std::vector<float>{static_cast<float>(number)}, {1}));
    return carry;
  }

  Applied apply(std::size_t phase) override {
    note("a{}", phase);
    optim::StepReport report = reports[phase].empty() ? optim::StepReport{} : reports[phase].back();
    report.skip = false;
    report.loss = 1.0;
    for (const int number : gathered[phase]) {
      if (const auto limit = limits.find({phase, number}); limit != limits.end())
        report.skip |= scale > limit->second;
      if (no_number == Key{phase, number}) {
        report.skip = true;
        report.loss = std::numeric_limits<double>::quiet_NaN();
      }
    }
    ++report.attempted;
    ++(report.skip ? report.skipped : report.applied);
    report.consecutive_skips = report.skip ? report.consecutive_skips + 1 : 0;
    report.loss_scale = scale;
    report.exhausted = report.skip && scale == floor;
    if (report.skip) scale = std::max(scale / 2.0, floor);
    if (!report.skip)
      trained[phase].insert(trained[phase].end(), gathered[phase].begin(), gathered[phase].end());
    gathered[phase].clear();
    reports[phase].push_back(report);
    return {.attempted = report.attempted, .iteration = reports[0].back().attempted, .seconds = 1.0};
  }

  std::optional<optim::StepReport> report(std::size_t phase, std::int64_t attempted, bool wait) override {
    const std::int64_t last = reports[phase].back().attempted;
    REQUIRE((attempted == last || attempted == last - 1));
    REQUIRE((wait || attempted == last));
    if (!wait && attempted <= late_until) return {};
    return reports[phase][static_cast<std::size_t>(attempted - 1)];
  }

  void discard(std::size_t phase) override {
    note("d{}", phase);
    gathered[phase].clear();
  }

  bool wants_diagnosis() const override { return diagnoses > 0; }

  std::optional<amp::Overflow> diagnose(const InFlightStep& step, const optim::StepReport& report) override {
    --diagnoses;
    REQUIRE(report.skip);
    for (const auto& numbers : gathered) REQUIRE(numbers.empty());
    note("?{}.{}", step.phase, static_cast<int>(step.micro_batches.front().samples));
    return amp::Overflow{.op = "conv2d"};
  }

  [[noreturn]] void give_up(const InFlightStep& step, const optim::StepReport&,
                            const std::optional<amp::Overflow>& cause) override {
    throw std::runtime_error(
        fmt::format("gave up step {} of {}", step.attempted, cause ? cause->op : "nothing"));
  }

  void on_resolved(const InFlightStep& step, const optim::StepReport& report) override {
    CHECK(step.attempted == report.attempted);
    CHECK(step.micro_batches.empty());
    note("t{}.{}{}", step.phase, report.attempted, report.skip ? "-" : "");
    samples += step.phase == 0 ? step.samples : 0.0;
    seconds += step.seconds;
  }

  template <class... Values>
  void note(fmt::format_string<Values...> format, Values&&... values) {
    noted += (noted.empty() ? "" : " ") + fmt::format(format, std::forward<Values>(values)...);
  }

  std::map<Key, double> limits;  // the greatest scale at which a micro-batch does not overflow
  Key no_number{0, 0};           // whose loss is no number
  double scale = 8.0, floor = 1.0;
  std::int64_t late_until = 0;  // reports up to that one are there only when they are waited for
  int diagnoses = 1;            // so many are wanted

  std::string noted;
  double samples = 0.0, seconds = 0.0;
  std::vector<std::vector<int>> gathered, trained;  // by phase
  std::vector<std::vector<optim::StepReport>> reports;
};

train::StepPipeline pipeline_of(FakeDevice& device, train::RetryPolicy policy) {
  return {device, device, policy, {device.gathered.size(), std::vector<tasks::CarriedState>(1)}};
}

constexpr train::RetryPolicy kRetry{.resolves = true, .retries = true, .max_skips = 5};
constexpr train::RetryPolicy kDrop{.resolves = true, .retries = false, .max_skips = 5};
constexpr train::RetryPolicy kFp32{.resolves = false, .retries = false, .max_skips = 5};

// Iterations of `accumulate` micro-batches each, numbered from 1 on.
void run(FakeDevice& device, train::StepPipeline& pipeline, int iterations, int accumulate = 1) {
  for (int i = 0; i < iterations; ++i) {
    for (std::size_t phase = 0; phase < device.gathered.size(); ++phase) {
      for (int n = 1; n <= accumulate; ++n)
        pipeline.add(phase, {.batch = {}, .samples = static_cast<double>(i * accumulate + n)});
      pipeline.end_step();
    }
  }
}

std::vector<int> first_numbers(int count) {
  std::vector<int> numbers;
  for (int n = 1; n <= count; ++n) numbers.push_back(n);
  return numbers;
}

struct Row {
  const char* what;
  train::RetryPolicy policy;
  std::map<Key, double> limits;
  int accumulate = 1;
  bool late = false;
  std::string noted;  // of three iterations of one phase, or two of several, and a stop
  std::size_t phases = 1;
};

}  // namespace

// b: backward of phase.micro-batch; a: apply; d: discard; ?: diagnosis; t: told, phase.attempted, "-" where
// it was skipped.
TEST_CASE("work and order of steps, by the place of an overflow", "[step_pipeline]") {
  const std::vector<Row> rows{
      {"nothing overflows", kRetry, {}, 1, false, "b0.1 a0 t0.1 b0.2 a0 t0.2 b0.3 a0 t0.3"},
      {"nothing overflows, late reports: told one step late",
       kRetry,
       {},
       1,
       true,
       "b0.1 a0 b0.2 a0 t0.1 b0.3 a0 t0.2 t0.3"},
      {"FP32 does not wait for reports",
       kFp32,
       {{{0, 2}, 4.0}},
       1,
       true,
       "b0.1 a0 b0.2 a0 t0.1 b0.3 a0 t0.2- t0.3"},
      {"step 2", kRetry, {{{0, 2}, 4.0}}, 1, false, "b0.1 a0 t0.1 b0.2 a0 ?0.2 b0.2 a0 t0.3 b0.3 a0 t0.4"},
      {"step 2, known when step 3 has begun",
       kRetry,
       {{{0, 2}, 4.0}},
       1,
       true,
       "b0.1 a0 b0.2 a0 t0.1 b0.3 d0 ?0.2 b0.2 a0 b0.3 a0 t0.3 t0.4"},
      {"step 2, twice: one is diagnosed",
       kRetry,
       {{{0, 2}, 2.0}},
       1,
       false,
       "b0.1 a0 t0.1 b0.2 a0 ?0.2 b0.2 a0 b0.2 a0 t0.4 b0.3 a0 t0.5"},
      {"steps 2 and 3",
       kRetry,
       {{{0, 2}, 4.0}, {{0, 3}, 2.0}},
       1,
       true,
       "b0.1 a0 b0.2 a0 t0.1 b0.3 d0 ?0.2 b0.2 a0 b0.3 a0 t0.3 b0.3 a0 t0.5"},
      {"the last step, when the run stops",
       kRetry,
       {{{0, 3}, 4.0}},
       1,
       true,
       "b0.1 a0 b0.2 a0 t0.1 b0.3 a0 t0.2 ?0.3 b0.3 a0 t0.4"},
      {"within an accumulation",
       kRetry,
       {{{0, 4}, 4.0}},
       2,
       true,
       "b0.1 b0.2 a0 b0.3 b0.4 a0 t0.1 b0.5 d0 ?0.3 b0.3 b0.4 a0 b0.5 b0.6 a0 t0.3 t0.4"},
      {"dropped steps are diagnosed, and the next one is done anew",
       kDrop,
       {{{0, 2}, 4.0}},
       1,
       true,
       "b0.1 a0 b0.2 a0 t0.1 b0.3 d0 ?0.2 b0.3 a0 t0.2- t0.3"},
      {"dropped steps that nobody diagnoses cost nothing",
       kDrop,
       {{{0, 1}, 4.0}, {{0, 2}, 2.0}},
       1,
       true,
       "b0.1 a0 b0.2 d0 ?0.1 b0.2 a0 t0.1- b0.3 a0 t0.2- t0.3"},
      {"the first of two phases",
       kRetry,
       {{{0, 1}, 4.0}},
       1,
       true,
       "b0.1 a0 b1.1 d1 ?0.1 b0.1 a0 b1.1 a1 b0.2 a0 t0.2 b1.2 a1 t1.1 t0.3 t1.2",
       2},
      {"the second of two phases",
       kRetry,
       {{{1, 1}, 4.0}},
       1,
       true,
       "b0.1 a0 b1.1 a1 b0.2 d0 ?1.1 b1.1 a1 b0.2 a0 t0.1 b1.2 a1 t1.2 t0.2 t1.3",
       2},
      {"both phases",
       kRetry,
       {{{0, 1}, 4.0}, {{1, 1}, 2.0}},
       1,
       false,
       "b0.1 a0 ?0.1 b0.1 a0 t0.2 b1.1 a1 b1.1 a1 t1.2 b0.2 a0 t0.3 b1.2 a1 t1.3",
       2},
  };
  for (const Row& row : rows) {
    INFO(row.what);
    FakeDevice device(row.phases);
    device.limits = row.limits;
    if (row.late) device.late_until = kAlways;
    train::StepPipeline pipeline = pipeline_of(device, row.policy);
    const int iterations = row.phases == 1 ? 3 : 2;
    run(device, pipeline, iterations, row.accumulate);
    pipeline.drain();
    CHECK(device.noted == row.noted);
  }
}

TEST_CASE("a step is told before attempts after it take the place of its report", "[step_pipeline]") {
  FakeDevice device(1);
  device.limits = {{{0, 2}, 4.0}};
  device.late_until = 1;
  train::StepPipeline pipeline = pipeline_of(device, kRetry);
  run(device, pipeline, 3);
  CHECK(device.noted == "b0.1 a0 b0.2 a0 t0.1 ?0.2 b0.2 a0 t0.3 b0.3 a0 t0.4");
}

TEST_CASE("a run that retries trains every micro-batch once, in order, wherever steps overflow",
          "[step_pipeline]") {
  for (const std::size_t phases : {1, 2, 3})
    for (const int accumulate : {1, 3})
      for (const bool late : {false, true})
        for (unsigned where = 0; where < 64; ++where) {
          INFO(phases << " phases, " << accumulate << " a step, " << (late ? "late" : "at once") << ", "
                      << where);
          FakeDevice device(phases);
          if (late) device.late_until = kAlways;
          device.scale = 1024.0;
          device.diagnoses = 2;
          // Each of six micro-batches may need a scale of its own.
          double limit = 512.0;
          for (int n = 0; n < 6; ++n)
            if (where >> n & 1U) device.limits[{static_cast<std::size_t>(n) % phases, n + 1}] = limit /= 2.0;
          train::StepPipeline pipeline = pipeline_of(device, kRetry);
          run(device, pipeline, 6 / accumulate, accumulate);
          pipeline.drain();
          const std::vector<int> all = first_numbers(6);
          for (const auto& numbers : device.trained) CHECK(numbers == all);
          CHECK(device.samples == 21.0);
          double attempts = 0.0;
          for (const auto& reports : device.reports) attempts += static_cast<double>(reports.size());
          CHECK(device.seconds == attempts);
        }
}

TEST_CASE("a step that no lower scale helps ends the run, with its cause", "[step_pipeline]") {
  for (const train::RetryPolicy& policy : {kRetry, kDrop}) {
    FakeDevice device(1);
    device.limits = {{{0, 2}, 0.5}};
    device.floor = device.scale;  // cannot fall
    device.diagnoses = 0;         // what ends a run is diagnosed all the same
    train::StepPipeline pipeline = pipeline_of(device, policy);
    CHECK_THROWS_WITH(run(device, pipeline, 3), "gave up step 2 of conv2d");
    CHECK(device.noted == "b0.1 a0 t0.1 b0.2 a0 ?0.2");
  }
  FakeDevice device(1);
  device.limits = {{{0, 1}, 0.0}};
  device.floor = 0.0;
  train::StepPipeline pipeline = pipeline_of(device, kRetry);
  CHECK_THROWS_WITH(run(device, pipeline, 1), "gave up step 5 of conv2d");  // max_skips in a row
}

TEST_CASE("a loss that is no number is not retried", "[step_pipeline]") {
  FakeDevice device(1);
  device.no_number = {0, 2};
  device.late_until = kAlways;
  train::StepPipeline pipeline = pipeline_of(device, kRetry);
  run(device, pipeline, 3);
  pipeline.drain();
  CHECK(device.noted == "b0.1 a0 b0.2 a0 t0.1 b0.3 d0 ?0.2 b0.3 a0 t0.2- t0.3");
}

TEST_CASE("carried state belongs to one shard and phase", "[step_pipeline]") {
  FakeDevice device(2);
  train::StepPipeline pipeline = pipeline_of(device, kFp32);
  run(device, pipeline, 2);
  CHECK(pipeline.carries()[1][0].find("number").item() == 2.0);
  pipeline.forget_carries();
  CHECK(pipeline.carries()[1][0].empty());
  CHECK(pipeline.carries()[0][0].empty());
}

TEST_CASE("steps come one after the other", "[step_pipeline]") {
  FakeDevice device(2);
  train::StepPipeline pipeline = pipeline_of(device, kRetry);
  CHECK_THROWS_AS(pipeline.end_step(), InternalError);
  pipeline.add(0, {.batch = {}, .samples = 1.0});
  CHECK_THROWS_AS(pipeline.drain(), InternalError);
}
