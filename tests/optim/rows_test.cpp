// Sparse updates of tables against dense ones.
#include <set>

#include "autograd/ops/index.h"
#include "autograd/ops/reduce.h"
#include "core/backend.h"
#include "nn/layers/embedding.h"
#include "optim/registry.h"
#include "tests/optim/toy.h"

using namespace tandem;
using namespace tandem::test;

namespace {

using Ids = std::vector<std::int64_t>;
using options::Given;

Tensor ids_of(const Ids& ids) { return Tensor::from(ids, {static_cast<Index>(ids.size())}); }

// A table and a projection; the loss is the mean square of the projected rows, so that gradients follow from
// the weights. 300·17 elements are no whole number of the kernels' blocks, nor a row of a vector's.
class Reader : public nn::Module {
 public:
  static constexpr Index kRows = 300, kColumns = 17, kPadding = 5;

  Reader() {
    table = add_child("table", std::make_shared<nn::Embedding>(kRows, kColumns, kPadding));
    const Values start =
        tabulate(kRows * kColumns, [](Index i) { return std::sin(0.37 * static_cast<double>(i)); });
    backend_for({}).copy_bytes(Tensor::from(start, {kRows, kColumns}), weight().value());
    projection = add_parameter(
        "projection",
        Parameter(Tensor::from(
            tabulate(kColumns * 3, [](Index i) { return std::cos(1.1 * static_cast<double>(i)); }),
            {kColumns, 3})));
  }
  const Parameter& weight() const { return table->weight(); }
  Tensor loss(const Ids& ids, double factor = 1.0) {
    const Tensor y = matmul((*table)(ids_of(ids)), projection);
    return mul(mean(mul(y, y)), factor);
  }
  Tensor forward(const Tensor& x) override { return x; }

  std::shared_ptr<nn::Embedding> table;
  Parameter projection;
};

// A reader in training.
struct Training {
  Training(const std::string& rule, Given given, const std::string& sparse, optim::StepOptions options = {}) {
    given.push_back({"sparse", sparse});
    optimizer = optim::make_optimizer(rule, reader.parameters(), given);
    step = std::make_unique<optim::Step>(reader, std::vector<optim::Optimizer*>{optimizer.get()},
                                         std::move(options));
  }
  void backward(const Ids& ids, double factor = 1.0) { step->backward(reader.loss(ids, factor)); }
  void operator()(const Ids& ids, double factor = 1.0) {
    backward(ids, factor);
    step->apply();
  }

  Reader reader;
  std::unique_ptr<optim::Optimizer> optimizer;
  std::unique_ptr<optim::Step> step;
};

// With ids that repeat, one that comes back after many steps, the padding, and the last row.
Ids ids_of_step(int t) {
  if (t == 9) return {10, Reader::kPadding, 299, 299};
  const std::int64_t a = 10 + 7 * t, b = 290 - 3 * t;
  return {a, b, a, Reader::kPadding, b, a, 11};
}

void check_same(Training& a, Training& b) {
  const auto left = a.step->state(), right = b.step->state();
  REQUIRE(left.size() == right.size());
  for (std::size_t i = 0; i < left.size(); ++i) {
    CAPTURE(left[i].first);
    CHECK(left[i].first == right[i].first);
    CHECK(same_tensor(left[i].second, right[i].second));
  }
}

struct Case {
  std::string rule;
  Given given;
};

std::vector<Case> resting_rules() {
  return {{"sgd", {{"lr", 0.2}}},
          {"adagrad", {{"lr", 0.1}, {"lr_decay", 0.01}}},
          {"adagrad", {{"lr", 0.1}, {"initial_accumulator", 0.1}}}};
}

bool has_marks(const Training& training) {
  for (const auto& slot : training.step->buffers().slots())
    if (slot.marks.defined()) return true;
  return false;
}

std::int64_t count_marked(const Training& training) {
  std::int64_t count = 0;
  for (const auto& slot : training.step->buffers().slots()) {
    if (!slot.marks.defined()) continue;
    for (const double mark : slot.marks.to_vector<double>()) count += mark != 0.0;
  }
  return count;
}

}  // namespace

TEST_CASE("rows: rules that rest give the bits of dense updates", "[rows]") {
  for (const Case& c : resting_rules()) {
    for (const bool clipped : {false, true}) {
      CAPTURE(c.rule, clipped);
      optim::StepOptions options{.scaler = optim::ScalerOptions::dynamic(), .accumulate = 2};
      if (clipped) options.clip_norm = 1e-3;
      options.ema = optim::EmaOptions{.decay = 0.9};
      Training dense(c.rule, c.given, "off", options), rows(c.rule, c.given, "exact", options);
      CHECK_FALSE(has_marks(dense));
      REQUIRE(has_marks(rows));
      for (int t = 0; t < 12; ++t) {
        // Step 4 overflows and is done again; every third has one micro-batch only.
        for (const double factor : t == 4 ? std::vector<double>{INFINITY, 1.0} : std::vector<double>{1.0}) {
          for (Training* training : {&dense, &rows}) {
            if (t == 7) training->backward({30, 31});
            if (t == 7) training->step->clear();
            training->backward(ids_of_step(t));
            if (t % 3 != 2) training->backward(ids_of_step(t + 20), factor);
            training->step->apply();
          }
          const optim::StepReport a = dense.step->synchronize(), b = rows.step->synchronize();
          CHECK(a.skip == b.skip);
          CHECK(a.skip == std::isinf(factor));
          CHECK(std::memcmp(&a.gradient_norm, &b.gradient_norm, sizeof(double)) == 0);
          check_same(dense, rows);
        }
      }
    }
  }
}

TEST_CASE("rows: the buffer holds the dense gradient, and marks say where", "[rows]") {
  Training dense("sgd", {}, "off", {.accumulate = 2}), rows("sgd", {}, "exact", {.accumulate = 2});
  for (const Ids& ids : {Ids{3, 3, 299, 3}, Ids{0, Reader::kPadding}, Ids{Reader::kPadding}}) {
    for (Training* training : {&dense, &rows}) training->backward(ids);
    const std::set<std::int64_t> distinct(ids.begin(), ids.end());
    CHECK(count_marked(rows) ==
          static_cast<std::int64_t>(distinct.size() - distinct.count(Reader::kPadding)));
    for (Training* training : {&dense, &rows}) training->backward({7, 7});
    CHECK(same_bits(values_of(dense.reader.weight().gradient()), values_of(rows.reader.weight().gradient())));
    for (Training* training : {&dense, &rows}) training->step->apply();
    check_same(dense, rows);
  }
}

TEST_CASE("rows: a step that is resumed between its micro-batches goes on to the bit", "[rows]") {
  for (const bool lazy : {false, true}) {
    const std::string rule = lazy ? "adam" : "adagrad", sparse = lazy ? "lazy" : "exact";
    Training whole(rule, {}, sparse, {.accumulate = 2}), first(rule, {}, sparse, {.accumulate = 2});
    for (Training* training : {&whole, &first}) {
      for (int t = 0; t < 3; ++t) (*training)(ids_of_step(t));
      training->backward({1, 2, 2});
    }
    Training second(rule, {}, sparse, {.accumulate = 2});
    second({200, 201});  // leaves rows of its own behind
    second.step->load_state(snapshot(*first.step));
    for (Training* training : {&whole, &second}) {
      training->backward({250});
      training->step->apply();
      for (int t = 5; t < 8; ++t) (*training)(ids_of_step(t));
    }
    check_same(whole, second);
  }
}

TEST_CASE("rows: gradients that somebody may have changed are all applied", "[rows]") {
  Training dense("sgd", {{"lr", 0.2}}, "off"), rows("sgd", {{"lr", 0.2}}, "exact");
  for (Training* training : {&dense, &rows}) {
    training->backward({4, 4});
    training->step->unscale();
    training->reader.weight().gradient().data<float>()[100 * Reader::kColumns] = 3.0f;
    training->step->apply();
    (*training)({8});  // and are gone
  }
  check_same(dense, rows);
}

TEST_CASE("rows: a table that a product uses too is dense", "[rows]") {
  const auto loss = [](Reader& reader, bool product_first) {
    const Tensor x = reader.weight().tensor();
    const Tensor logits = matmul(Tensor::full({2, Reader::kColumns}, 0.5), transpose(x, 0, 1));
    const Tensor direct = mean(mul(logits, logits)), read = reader.loss({1, 1, 40});
    return product_first ? add(read, direct) : add(direct, read);
  };
  for (const bool product_first : {false, true}) {
    Training dense("adagrad", {}, "off"), rows("adagrad", {}, "exact"), lazy("adam", {}, "lazy"),
        adam("adam", {}, "off");
    for (int t = 0; t < 4; ++t) {
      for (Training* training : {&dense, &rows, &lazy, &adam}) {
        training->step->backward(loss(training->reader, product_first));
        training->step->apply();
      }
      CHECK(count_marked(rows) == Reader::kRows);
      CHECK(rows.step->update_bytes() == dense.step->update_bytes() + Reader::kRows);
    }
    check_same(dense, rows);
    check_same(adam, lazy);
    for (Training* training : {&dense, &rows}) (*training)({3});
    CHECK(count_marked(rows) == 1);
    check_same(dense, rows);
    // Gradient, weight and sum of squares: read, and both but the first written.
    CHECK(dense.step->update_bytes() - rows.step->update_bytes() ==
          (Reader::kRows - 1) * Reader::kColumns * 5 * 4 - Reader::kRows);
  }
}

TEST_CASE("rows: working copies of rows that rest are current", "[rows]") {
  optim::StepOptions options{.working = DType::bf16};
  options.ema = optim::EmaOptions{.decay = 0.5};
  Training dense("sgd", {{"lr", 0.2}}, "off", options), rows("sgd", {{"lr", 0.2}}, "exact", options);
  for (int t = 0; t < 4; ++t) {
    for (Training* training : {&dense, &rows}) {
      (*training)(ids_of_step(t));
      const Tensor copy = working_copy(training->reader.weight().value(), DType::bf16);
      const Tensor fresh = Tensor::empty(copy.shape(), {.dtype = DType::bf16});
      backend_for({}).cast(training->reader.weight().value(), fresh);
      CHECK(same_tensor(copy, fresh));
      // The copies are those of the averages when the next step begins.
      const optim::Ema::Scope averaged(*training->step->ema());
      working_copy(training->reader.weight().value(), DType::bf16);
    }
    check_same(dense, rows);
  }
  // Of rows that rest averages are moved all the same, for which their weights are read.
  constexpr std::int64_t kUpdated = 4 + 2 * 4 + 2, kRead = 4;  // bytes: gradient, weight, copy; weight
  CHECK(dense.step->update_bytes() - rows.step->update_bytes() ==
        (Reader::kRows - count_marked(rows)) * Reader::kColumns * (kUpdated - kRead) - Reader::kRows);
}

TEST_CASE("rows: what the update cannot leave alone is dense", "[rows]") {
  CHECK(has_marks(Training("sgd", {}, "exact")));
  CHECK(has_marks(Training("adagrad", {}, "exact")));
  CHECK_FALSE(has_marks(Training("sgd", {{"momentum", 0.9}}, "exact")));
  CHECK_FALSE(has_marks(Training("sgd", {{"weight_decay", 1e-4}}, "exact")));
  CHECK_FALSE(has_marks(Training("adagrad", {{"weight_decay", 1e-4}}, "exact")));
  CHECK_FALSE(has_marks(Training("adagrad", {{"eps", 0.0}}, "exact")));
  for (const char* rule : {"adam", "adamw", "rmsprop"}) CHECK_FALSE(has_marks(Training(rule, {}, "exact")));
  OwnShards shards(2, 1.0);
  CHECK_FALSE(has_marks(Training("sgd", {}, "exact", {.shards = &shards})));
  CHECK_FALSE(has_marks(Training("sgd", {}, "exact", {.rounding = {.weights = DType::bf16}})));
  CHECK_FALSE(has_marks(
      Training("sgd", {}, "exact", {.scaler = optim::ScalerOptions::fixed(8.0), .skip_non_finite = false})));
  Reader reader;
  const auto lamb = optim::make_optimizer("lamb", reader.parameters());
  const optim::Step step(reader, {lamb.get()});
  for (const auto& slot : step.buffers().slots()) CHECK_FALSE(slot.marks.defined());
  CHECK(message_of([&] {
          optim::make_optimizer("lars", reader.parameters(), {{"sparse", "lazy"}});
        }).find("sparse") != std::string::npos);
}

TEST_CASE("rows: lazy updates say so, and refuse what they cannot know", "[rows]") {
  CHECK(Training("sgd", {}, "lazy").step->lazy_tables().empty());  // the bits of dense updates
  CHECK(Training("adam", {}, "exact").step->lazy_tables().empty());
  CHECK(Training("adam", {}, "lazy").step->lazy_tables() == std::vector<std::string>{"table.weight"});
  OwnShards shards(2, 1.0);
  CHECK(message_of([&] { Training("adam", {}, "lazy", {.shards = &shards}); }) ==
        "[step] adam: sparse \"lazy\" needs an undivided batch and one loss scale; with a batch in "
        "shards, or a scale for each loss, use \"exact\"");
}

// w = 1, gradients 1, none, none, 0.5 at a learning rate of 0.1: tests/golden/sparse.py.
TEST_CASE("rows: momentum and Adam, dense and lazy, as in PyTorch", "[rows]") {
  struct Row {
    std::string rule;
    Given given;
    const char* sparse;
    double expected;
  };
  const Row table[] = {{"sgd", {{"momentum", 0.9}}, "exact", 0.6061},
                       {"sgd", {{"momentum", 0.9}}, "lazy", 0.76},
                       {"adam", {}, "exact", 0.717241},
                       {"adam", {}, "lazy", 0.827202}};
  class One : public nn::Module {
   public:
    One() { table = add_child("table", std::make_shared<nn::Embedding>(2, 1)); }
    Tensor forward(const Tensor& x) override { return x; }
    std::shared_ptr<nn::Embedding> table;
  };
  for (const Row& row : table) {
    CAPTURE(row.rule, row.sparse);
    One one;
    backend_for({}).fill(one.table->weight().value(), 1.0);
    Given given = row.given;
    given.push_back({"lr", 0.1});
    given.push_back({"sparse", row.sparse});
    const auto optimizer = optim::make_optimizer(row.rule, one.parameters(), given);
    optim::Step step(one, {optimizer.get()});
    const std::pair<Ids, float> course[] = {{{0}, 1.0f}, {{1}, 1.0f}, {{1}, 1.0f}, {{0}, 0.5f}};
    for (const auto& [ids, gradient] : course) {
      step.backward(product((*one.table)(ids_of(ids)), {gradient}));
      step.apply();
    }
    CHECK(static_cast<double>(values_of(one.table->weight().value())[0]) ==
          Approx(row.expected).epsilon(2e-6));
  }
}
