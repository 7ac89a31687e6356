// Gradients summed in buckets while backward continues.
#include "optim/step/gradient_buckets.h"

#include "autograd/ops/elementwise.h"
#include "autograd/ops/reduce.h"
#include "optim/sgd.h"
#include "tests/optim/toy.h"

using namespace tandem;
using namespace tandem::test;

namespace {

// One of two processes of which the other has the same gradients: sums are twice the own ones. Writes down
// what is begun when.
class Twin final : public optim::ShardExchange {
 public:
  explicit Twin(std::size_t bucket_bytes) : bucket_bytes_(bucket_bytes) {}

  int shards() const override { return 2; }
  int first() const override { return 0; }
  int own() const override { return 1; }
  double usual_samples() const override { return 1.0; }
  std::vector<double> gather(std::span<const double> own) override {
    ++gathered;
    std::vector<double> rows(own.begin(), own.end());
    rows.insert(rows.end(), own.begin(), own.end());
    return rows;
  }
  void add(std::span<const float> values) override { only_ = values; }
  void sum(std::span<float> total) override {
    for (std::size_t i = 0; i < total.size(); ++i) total[i] = only_[i] * 2.0f;
  }
  void drop() override {}
  std::size_t bucket_bytes() const override { return bucket_bytes_; }
  void begin(const Tensor& range) override {
    begun.push_back(range.numel());
    early += gathered == 0 ? 1 : 0;
    under_way_.push_back(range);
  }
  void finish() override {
    for (const Tensor& range : under_way_)
      for (Index i = 0; i < range.numel(); ++i) range.data<float>()[i] *= 2.0f;
    under_way_.clear();
  }

  std::vector<Index> begun;
  int early = 0;     // begun before the figures of the step were gathered
  int gathered = 0;  // since the test cleared it

 private:
  std::size_t bucket_bytes_;
  std::span<const float> only_;
  std::vector<Tensor> under_way_;
};

// Three parameters of 16, 32 and 4 elements, which lie in the flat buffers the other way round.
std::unique_ptr<Toy> three() {
  auto toy = std::make_unique<Toy>();
  const auto formula = [](Index i) { return 0.1 * static_cast<double>(i + 1); };
  toy->add("a", {16}, formula);
  toy->add("b", {32}, formula);
  toy->add("c", {4}, formula);
  return toy;
}

Tensor loss_of(Toy& toy, bool all) {
  const Tensor a = sum(toy[0].tensor() * toy[0].tensor()), c = sum(toy[2].tensor() * toy[2].tensor());
  return all ? a + sum(toy[1].tensor() * toy[1].tensor()) + c : a + c;
}

struct Trained {
  Values masters;
  std::vector<Index> begun;
  int early = 0;
};

// Some steps of so many micro-batches.
Trained train(std::size_t bucket_bytes, int accumulate = 1, bool all = true) {
  const auto toy = three();
  Twin twin(bucket_bytes);
  optim::Sgd sgd(toy->parameters(), {.lr = 0.01, .momentum = 0.9});
  optim::Step step(*toy, {&sgd}, {.accumulate = accumulate, .shards = &twin});
  Trained trained;
  for (int t = 0; t < 3; ++t) {
    twin.gathered = 0;
    twin.begun.clear();
    for (int i = 0; i < accumulate; ++i) step.backward(loss_of(*toy, all));
    step.apply();
  }
  step.synchronize();
  trained.masters = values_of(step.buffers().masters());
  trained.begun = twin.begun;
  trained.early = twin.early;
  return trained;
}

}  // namespace

TEST_CASE("buckets are whole parameters, as many bytes as asked for or a parameter more", "[buckets]") {
  const auto toy = three();
  const optim::FlatBuffers buffers(toy->parameters());
  using Ranges = std::vector<Range>;
  CHECK(optim::bucket_slots(buffers.slots(), 1) == Ranges{{0, 1}, {1, 2}, {2, 3}});
  CHECK(optim::bucket_slots(buffers.slots(), 17) == Ranges{{0, 2}, {2, 3}});
  CHECK(optim::bucket_slots(buffers.slots(), 144) == Ranges{{0, 2}, {2, 3}});
  CHECK(optim::bucket_slots(buffers.slots(), 145) == Ranges{{0, 3}});
  CHECK(optim::bucket_slots(buffers.slots(), std::size_t(-1)) == Ranges{{0, 3}});
}

TEST_CASE("steps are the same, whatever the buckets", "[buckets]") {
  for (const int accumulate : {1, 3}) {
    const Values at_once = train(0, accumulate).masters;
    for (const std::size_t bytes : {std::size_t{1}, std::size_t{64}, std::size_t(-1)})
      CHECK(train(bytes, accumulate).masters == at_once);
  }
}

TEST_CASE("buckets are begun in the order of the buffer, while backward goes on", "[buckets]") {
  for (const int accumulate : {1, 2}) {
    const Trained trained = train(1, accumulate);
    CHECK(trained.begun == std::vector<Index>{4, 32, 16});
    CHECK(trained.early == 9);  // of three steps
  }
  const auto toy = three();
  Twin twin(1);
  optim::Sgd sgd(toy->parameters(), {.lr = 0.01});
  optim::Step step(*toy, {&sgd}, {.accumulate = 2, .shards = &twin});
  step.backward(loss_of(*toy, true));
  CHECK(twin.begun.empty());  // gradients of a step are there after its last backward
  step.backward(loss_of(*toy, true));
  CHECK(twin.begun.size() == 3);
}

TEST_CASE("parameters without a gradient contribute zeros after backward", "[buckets]") {
  const Trained some = train(1, 1, false);
  CHECK(some.begun == std::vector<Index>{4, 32, 16});
  CHECK(some.early == 9);  // before the figures of the step, which all processes tell after it
  CHECK(some.masters == train(0, 1, false).masters);
}

TEST_CASE("buckets of a step that is dropped do not count", "[buckets]") {
  const auto toy = three();
  Twin twin(1);
  optim::Sgd sgd(toy->parameters(), {.lr = 0.01, .momentum = 0.9});
  optim::Step step(*toy, {&sgd}, {.shards = &twin});
  step.backward(loss_of(*toy, true));
  step.clear();
  for (int t = 0; t < 3; ++t) {
    step.backward(loss_of(*toy, true));
    step.apply();
  }
  CHECK(values_of(step.buffers().masters()) == train(0).masters);
}

TEST_CASE("a shard that passes begins its buckets at the end", "[buckets]") {
  const auto toy = three();
  Twin twin(1);
  optim::Sgd sgd(toy->parameters(), {.lr = 0.01});
  optim::Step step(*toy, {&sgd}, {.shards = &twin});
  const Values before = values_of(step.buffers().masters());
  step.pass();
  step.apply();
  CHECK(twin.begun == std::vector<Index>{4, 32, 16});
  CHECK(twin.early == 3);  // others, which had samples, began theirs in backward
  CHECK(values_of(step.buffers().masters()) == before);
}

TEST_CASE("a shard that has passed begins what the others began of a step that is dropped", "[buckets]") {
  const auto toy = three();
  Twin twin(1);
  optim::Sgd sgd(toy->parameters(), {.lr = 0.01});
  optim::Step step(*toy, {&sgd}, {.accumulate = 2, .shards = &twin});
  step.pass();
  step.clear();
  CHECK(twin.begun.empty());  // the step could have had a backward more
  step.pass();
  step.pass();
  step.clear();
  CHECK(twin.begun == std::vector<Index>{4, 32, 16});
}

TEST_CASE("buckets wait for the end of backward where processes say other things meanwhile", "[buckets]") {
  const auto toy = three();
  Twin twin(1);
  optim::Sgd sgd(toy->parameters(), {.lr = 0.01});
  optim::Step step(*toy, {&sgd}, {.shards = &twin});
  step.enter_shard(/*overlap=*/false);
  step.backward(loss_of(*toy, true));
  CHECK(twin.begun.empty());
  step.clear();
  CHECK(twin.begun.empty());
  step.enter_shard(false);
  step.backward(loss_of(*toy, true));
  step.apply();
  CHECK(twin.begun == std::vector<Index>{4, 32, 16});
  twin.begun.clear();
  step.enter_shard();
  step.backward(loss_of(*toy, true));
  CHECK(twin.begun.size() == 3);
  step.apply();
}
