#include "tests/tiny/tasks.h"

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "autograd/modes.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/loss.h"
#include "autograd/ops/reduce.h"
#include "core/backend.h"
#include "core/error.h"
#include "core/random.h"
#include "core/shapes_backend.h"
#include "nn/layers/linear.h"
#include "tasks/sections.h"
#include "tasks/task_factory.h"

namespace tandem::test {

namespace {

using datasets::Batch;
using tasks::Json;

struct Data {
  Index batches = 12;                     // of an epoch
  std::optional<Index> poisoned{};        // the batch whose gradients are no numbers,
  std::string poisoned_phase = "second";  // in this phase
  bool validates = false;                 // a split chooses the best epoch
  bool scored = false;                    // the figure "score" is defined
  bool writes = true;                     // files of evaluations can be made
  static const options::Schema& schema() {
    static const options::Schema schema =
        options::Describe<Data>()
            .key("batches", &Data::batches, "of an epoch", {.min = 1, .max = 1e6})
            .key("poisoned", &Data::poisoned, "the batch whose gradients are no numbers",
                 {.min = 0, .max = 1e6})
            .key("poisoned_phase", &Data::poisoned_phase, "where they are none")
            .key("validates", &Data::validates, "a split chooses the best epoch")
            .key("scored", &Data::scored, "the figure score is defined")
            .key("writes", &Data::writes, "files of evaluations can be made");
    return schema;
  }
};

struct Options {
  Data data;
  tasks::Checkpoint<Options> checkpoint;
  std::string parts = "apart";  // of "pair"
  static const tasks::MetricKinds& metrics() {
    static const tasks::MetricKinds kinds{{"loss", {}}, {"score", {.greater_is_better = true}}};
    return kinds;
  }
  static options::Schema schema() {
    return options::Describe<Options>()
        .key("data", &Options::data, "what to train on", {.required = true})
        .key("checkpoint", &Options::checkpoint, "what is saved, and when")
        .key("parts", &Options::parts, "what the phases train", {.choices = {"apart", "shared", "none"}});
  }
};

constexpr Index kLanes = 4, kInputs = 3, kState = 5;

// "x" [lanes, inputs], "y" [lanes, 1] and "number" [1], of a sine that goes on from batch to batch.
class Waves final : public datasets::Source {
 public:
  explicit Waves(Index batches, const datasets::ShardSpec& division = {})
      : Source(division), layout_(division.most(kLanes)), batches_(batches) {
    layout_.add("x", {kInputs}, DType::f32);
    layout_.add("y", {1}, DType::f32);
    layout_.add_whole("number", {1}, DType::i64);
  }
  datasets::SourcePtr divided(const datasets::ShardSpec& division) const override {
    return std::make_shared<Waves>(batches_, this->division().into(division));
  }
  const datasets::BatchLayout& layout() const override { return layout_; }
  Index batches(std::uint32_t) const override { return batches_ * division().count; }
  Index samples_before(const datasets::BatchKey& key) const override {
    return undivided(key).number * kLanes;
  }
  void fill(const datasets::BatchKey& key, bool, datasets::BatchBuffer& buffer) const override {
    const Index number = undivided(key).number;
    const Range part = division().samples(key.number, kLanes);
    const auto lanes = static_cast<Index>(part.count());
    buffer.begin(lanes);
    if (lanes == 0) return;
    const Tensor x = buffer.field("x"), y = buffer.field("y");
    for (Index lane = 0; lane < lanes; ++lane) {
      const double at =
          0.3 * static_cast<double>(number) + static_cast<double>(static_cast<Index>(part.first) + lane);
      for (Index i = 0; i < kInputs; ++i)
        x.data<float>()[lane * kInputs + i] = static_cast<float>(std::sin(at + 0.1 * static_cast<double>(i)));
      y.data<float>()[lane] = static_cast<float>(std::sin(at - 0.3));
    }
    buffer.field("number").data<std::int64_t>()[0] = number;
  }

 private:
  datasets::BatchLayout layout_;
  Index batches_;
};

class WavesData final : public tasks::Data {
 public:
  explicit WavesData(Index batches) : batches_(batches) {}
  static tasks::DataPtr recall(const Json& description) {
    return std::make_shared<WavesData>(description.at("batches").get<Index>());
  }
  Json description() const override { return {{"name", "waves"}, {"batches", batches_}}; }
  Index training_samples() const override { return batches_ * kLanes; }
  void require_like(const Json&, const std::string&) const override {}

 private:
  Index batches_;
};

class Root final : public nn::Module {
 public:
  template <class M>
  std::shared_ptr<M> add(const std::string& name, std::shared_ptr<M> child) {
    return add_child(name, std::move(child));
  }
  std::string describe() const override { return "Root"; }
};

// A grey pixel.
const std::string kPicture(
    "\211\120\116\107\015\012\032\012\000\000\000\015\111\110\104\122\000\000\000\001\000\000\000\001"
    "\010\000\000\000\000\072\176\233\125\000\000\000\012\111\104\101\124\170\332\143\150\000\000\000"
    "\202\000\201\332\105\010\073\000\000\000\000\111\105\116\104\256\102\140\202",
    67);

class MeanLoss final : public tasks::Evaluation {
 public:
  MeanLoss(tasks::Task& task, const Data& data) : task_(task), data_(data) {}
  tasks::Record forward(const Batch& batch) override {
    tasks::RecordWriter writer;
    writer.put(loss(batch));
    return std::move(writer).record();
  }
  void accumulate(std::span<const std::byte> record) override {
    tasks::RecordReader reader(record);
    sum_ += reader.take<double>();
    reader.end();
    ++batches_;
  }
  bool carries() const override { return true; }
  void skip(const Batch& batch) override { loss(batch); }
  tasks::Metrics metrics() const override {
    tasks::Metrics metrics{{"loss", sum_ / batches_}};
    if (data_.scored) metrics.emplace_back("score", -sum_);
    return metrics;
  }
  std::vector<tasks::Artifact> artifacts() const override {
    require(data_.writes, "tiny", "no file can be made of this");
    return {{.file = "pictures/pixel.png", .contents = kPicture, .kept = true}};
  }

 private:
  double loss(const Batch& batch) {
    return task_.loss(batch, {.phase = task_.phases().size() - 1, .carry = &carry_}).item();
  }

  tasks::Task& task_;
  const Data& data_;
  tasks::CarriedState carry_;
  double sum_ = 0.0, batches_ = 0.0;
};

// What both share.
class Tiny : public tasks::Task {
 public:
  Tiny(const Options& options, std::shared_ptr<const WavesData> data)
      : options_(options), data_(std::move(data)) {}

  nn::Module& model() override { return *root_; }
  tasks::DataPtr data() const override { return data_; }
  datasets::SourcePtr training_source(Device, Index) const override {
    return std::make_shared<Waves>(options_.data.batches);
  }
  datasets::SourcePtr evaluation_source(const std::string&, Device) const override {
    return training_source({}, 0);
  }
  std::string validation_split() const override { return options_.data.validates ? "validation" : "test"; }
  Batch synthetic_batch(Index samples, std::uint64_t, Device device) const override {
    const auto field = [&](const Shape& shape, DType dtype) {
      return device == kShapes ? Tensor::empty(shape, {dtype, device, MemoryKind::data})
                               : Tensor::zeros(shape, {dtype, device, MemoryKind::data});
    };
    return {{{"x", field({samples, kInputs}, DType::f32)},
             {"y", field({samples, 1}, DType::f32)},
             {"number", field({1}, DType::i64)}},
            samples};
  }
  std::unique_ptr<tasks::Evaluation> evaluation(bool) override {
    return std::make_unique<MeanLoss>(*this, options_.data);
  }
  std::string text_of(const Batch& batch) const override { return to_string(batch["x"].shape()); }
  std::string text_of_data() const override { return "waves"; }
  std::vector<std::string> predict_options() const override { return {}; }
  void predict(const tasks::PredictRequest&, Device) override {}

 protected:
  // A sum that adds 0 to the loss, and no number to the gradient of what it is of: the root of 0 has none.
  Tensor poisoned(const Tensor& loss, const Tensor& of) const {
    return tandem::add(loss, sum(sqrt(mul(of, 0.0))));
  }
  bool poisons(const Batch& batch, const std::string& phase) const {
    return batch["number"].device() == Device{} && options_.data.poisoned_phase == phase &&
           options_.data.poisoned == batch["number"].to_vector<std::int64_t>().front();
  }

  // With TINY_DIVERGE, the number of a batch, rank 1 of several changes a weight there on its own.
  static void diverge(const Batch& batch, const Tensor& weight) {
    const char* const number = std::getenv("TINY_DIVERGE");
    const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
    if (!number || !rank || std::string(rank) != "1" || batch["number"].device() != Device{}) return;
    if (batch["number"].to_vector<std::int64_t>().front() != std::stoll(number)) return;
    float& value = weight.data<float>()[0];
    value = std::nextafter(value, 2.0f);
  }

  Options options_;
  std::shared_ptr<const WavesData> data_;
  std::shared_ptr<Root> root_ = std::make_shared<Root>();
};

// The first learns waves; the second learns from what the first makes of them.
class Pair final : public Tiny {
 public:
  Pair(const Options& options, const tasks::Context& context, std::shared_ptr<const WavesData> data)
      : Tiny(options, std::move(data)) {
    const RandomScope random(context.seed, 0, 0);
    first_ = root_->add("first", std::make_shared<nn::Linear>(kInputs, kState));
    second_ = root_->add("second", std::make_shared<nn::Linear>(kState, 1));
  }
  std::vector<tasks::Phase> phases() override {
    nn::Module* const last = options_.parts == "apart"    ? static_cast<nn::Module*>(second_.get())
                             : options_.parts == "shared" ? static_cast<nn::Module*>(root_.get())
                                                          : nothing_.get();
    return {{.name = "first", .trained = first_.get(), .losses = 2}, {.name = "second", .trained = last}};
  }
  Tensor loss(const Batch& batch, const tasks::LossContext& context) override {
    if (root_->training()) diverge(batch, first_->weight().value());
    const Tensor made = (*first_)(batch["x"]);
    if (context.ready) context.ready();
    if (context.phase == 0) {
      // Two losses that add up to the one that "first" learns.
      const Tensor half =
          mul(mse_loss(made, tandem::add(mul(made.detach(), 0.0), context.loss == 0 ? 0.5 : -0.25)), 0.5);
      return poisons(batch, "first") ? poisoned(half, first_->weight().tensor()) : half;
    }
    const Tensor error = mse_loss((*second_)(tanh(made.detach())), batch["y"]);
    return poisons(batch, "second") ? poisoned(error, second_->weight().tensor()) : error;
  }
  std::vector<tasks::Signature> signatures() override { return {{first_.get(), {kInputs}}}; }

 private:
  std::shared_ptr<nn::Linear> first_, second_;
  std::shared_ptr<Root> nothing_ = std::make_shared<Root>();
};

// Elman's network over the stream; its state goes from batch to batch. With TINY_TRACE, a line a loss of
// training in that file: number of the batch, sums of the state before and after.
class Stream final : public Tiny {
 public:
  Stream(const Options& options, const tasks::Context& context, std::shared_ptr<const WavesData> data)
      : Tiny(options, std::move(data)) {
    const RandomScope random(context.seed, 0, 0);
    input_ = root_->add("input", std::make_shared<nn::Linear>(kInputs, kState));
    state_ = root_->add("state", std::make_shared<nn::Linear>(kState, kState));
    output_ = root_->add("output", std::make_shared<nn::Linear>(kState, 1));
  }
  Tensor loss(const Batch& batch, const tasks::LossContext& context) override {
    Tensor before = context.carried("h");
    if (!before.defined())
      before = Tensor::zeros({batch["x"].size(0), kState}, {.device = batch["x"].device()});
    const Tensor after = tanh(tandem::add((*input_)(batch["x"]), (*state_)(before)));
    context.set_carried("h", after);
    const Tensor error = mse_loss((*output_)(after), batch["y"]);
    if (context.ready) context.ready();
    if (root_->training() && context.carry) trace(batch, before, after);
    return error;
  }
  std::vector<tasks::Signature> signatures() override { return {{input_.get(), {kInputs}}}; }

 private:
  static double total(const Tensor& state) {
    double sum = 0.0;
    for (const double value : state.to_vector<double>()) sum += value;
    return sum;
  }
  static void trace(const Batch& batch, const Tensor& before, const Tensor& after) {
    const char* const file = std::getenv("TINY_TRACE");
    if (!file || batch["number"].device() != Device{}) return;
    std::ofstream(file, std::ios::app) << Json{{"number", batch["number"].to_vector<std::int64_t>().front()},
                                               {"before", total(before)},
                                               {"after", total(after)}}
                                       << '\n';
  }

  std::shared_ptr<nn::Linear> input_, state_, output_;
};

template <class Made>
class TaskFactory final : public tasks::TaskFactoryOf<Made, Options, WavesData> {
 public:
  using TaskFactory::TaskFactoryOf::TaskFactoryOf;
  tasks::DataPtr open(tasks::SampleReport) const override { return describe(); }
  tasks::DataPtr describe() const override {
    return std::make_shared<WavesData>(this->options().data.batches);
  }
};

}  // namespace

void add_tiny_families() {
  tasks::registry().add([] { return tasks::family_of<TaskFactory<Pair>>("pair", "two networks in turn"); });
  tasks::registry().add(
      [] { return tasks::family_of<TaskFactory<Stream>>("stream", "a state that is carried along"); });
}

}  // namespace tandem::test
