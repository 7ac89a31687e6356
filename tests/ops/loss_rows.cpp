// Rows of autograd/ops/loss.h. tests/autograd/loss_test.cpp compares options with PyTorch's values.
#include <catch2/catch.hpp>
#include <cmath>

#include "autograd/engine.h"
#include "autograd/leaf.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/loss.h"
#include "autograd/ops/matmul.h"
#include "core/backend.h"
#include "tests/ops/harness.h"
#include "tests/support/tensors.h"
#include "tests/support/tolerance.h"

using namespace tandem;
using namespace tandem::test;

namespace {

constexpr Index kClasses = 5;
constexpr Index kIgnored = 2;

Tensor targets(std::vector<std::int64_t> values) {
  const auto count = static_cast<Index>(values.size());
  return Tensor::from(values, {count}, test_device());
}

Array folded(const Array& each, Reduce reduce, double divisor) {
  if (reduce == Reduce::none) return each;
  double total = 0.0;
  for (const double v : each.values) total += v;
  return Array({}, {reduce == Reduce::mean ? total / divisor : total});
}

const char* name_of(Reduce reduce) {
  return reduce == Reduce::none ? "none" : reduce == Reduce::mean ? "mean" : "sum";
}

constexpr Reduce kReductions[] = {Reduce::mean, Reduce::none, Reduce::sum};

// ---- losses of classes

std::vector<double> class_weights() { return {0.5, 1.0, 2.0, 0.25, 1.5}; }

// log softmax of row r.
std::vector<double> log_probabilities(const Array& logits, std::size_t r) {
  const auto classes = static_cast<std::size_t>(logits.shape.at(-1));
  const auto first = logits.values.begin() + static_cast<std::ptrdiff_t>(r * classes);
  std::vector<double> row(first, first + static_cast<std::ptrdiff_t>(classes));
  double total = 0.0;
  for (const double v : row) total += std::exp(v);
  for (double& v : row) v -= std::log(total);
  return row;
}

struct ClassWay {
  const char* name;
  double smoothing = 0.0;
  bool weighted = false, ignoring = false;
};

// logs(r): the log-probabilities of row r. PyTorch's definition, smoothing included.
template <class Logs>
Array class_loss(const Array& x, const Array& target, const ClassWay& way, Reduce reduce, Logs&& logs) {
  const auto classes = static_cast<double>(x.shape.at(-1));
  Array each(target.shape);
  double divisor = 0.0;
  for (std::size_t r = 0; r < each.values.size(); ++r) {
    const auto t = static_cast<std::size_t>(target.values[r]);
    if (way.ignoring && t == kIgnored) continue;
    const std::vector<double> row = logs(r);
    const auto weight = [&](std::size_t c) { return way.weighted ? class_weights()[c] : 1.0; };
    double smooth = 0.0;
    for (std::size_t c = 0; c < row.size(); ++c) smooth -= weight(c) * row[c];
    each.values[r] = -(1 - way.smoothing) * weight(t) * row[t] + way.smoothing / classes * smooth;
    divisor += weight(t);
  }
  return folded(each, reduce, divisor == 0.0 ? 1.0 : divisor);
}

CrossEntropyLossOptions options_of(const ClassWay& way, Reduce reduce, const Tensor& like) {
  CrossEntropyLossOptions options{.label_smoothing = way.smoothing, .reduce = reduce};
  if (way.ignoring) options.ignore_index = kIgnored;
  if (way.weighted)
    options.class_weights =
        beside(like, tensor_of(class_weights(), {kClasses},
                               like.defined() && like.dtype() == DType::f64 ? DType::f64 : DType::f32));
  return options;
}

// Logits of a linear layer: weight [V,C] and, if there is one, bias [V].
Array linear_logits(const Array& x, const Array& weight, const Array* bias) {
  const Index classes = weight.shape[0], features = weight.shape[1];
  Array logits(x.shape.with(x.shape.rank() - 1, classes));
  for (std::size_t i = 0; i < logits.values.size(); ++i) {
    const Index row = static_cast<Index>(i) / classes, c = static_cast<Index>(i) % classes;
    double sum = bias ? (*bias)(c) : 0.0;
    for (Index k = 0; k < features; ++k)
      sum += x.values[static_cast<std::size_t>(row * features + k)] * weight(c, k);
    logits.values[i] = sum;
  }
  return logits;
}

// In chunks of four rows, the last one smaller, and at once.
Rows linear_class_rows() {
  const ClassWay ways[] = {
      {"plain"}, {"smoothed", 0.1}, {"ignoring", 0, false, true}, {"all options", 0.2, true, true}};
  Rows rows;
  for (const ClassWay& way : ways) {
    for (const Reduce reduce : {Reduce::mean, Reduce::sum}) {
      for (const Index chunk : {4, 0}) {
        const bool biased = chunk == 4;
        std::vector<Shapes> cases;
        for (const Shape& at : {Shape{6}, {1}, {0}, {2, 5}}) {
          cases.push_back({at.inserted(at.rank(), 3), {kClasses, 3}, at});
          if (biased) cases.back().push_back({kClasses});
        }
        rows.push_back(
            {.op = "linear_cross_entropy",
             .variant = std::string(way.name) + ", " + name_of(reduce) + (biased ? ", chunks" : ""),
             .run =
                 [=](const TensorList& x) {
                   return linear_cross_entropy(x[0], x[1], x[2], biased ? x[3] : Tensor(),
                                               options_of(way, reduce, x[0]), chunk);
                 },
             .oracle =
                 [=](const Arrays& x) {
                   const Array logits = linear_logits(x[0], x[1], biased ? &x[3] : nullptr);
                   return class_loss(logits, x[2], way, reduce,
                                     [&](std::size_t r) { return log_probabilities(logits, r); });
                 },
             .cases = cases,
             .draws = {{}, {}, index_below(kClasses), {}},
             .result = Result::wide,
             .wide_output = 0,
             // An f32 loss of logits of 16 bits; the test below compares each dtype closely.
             .slack = 4000.0});
      }
    }
  }
  rows[0].refusals = {{"[linear_cross_entropy] weight must be floating [V,3] for x f32[2,3], got f32[5,4]",
                       CALL(linear_cross_entropy(zeros({2, 3}), zeros({5, 4}), targets({0, 1})))},
                      {"[linear_cross_entropy] target 5 in row 1 lies outside [0,5)",
                       CALL(linear_cross_entropy(zeros({2, 3}), zeros({5, 3}), targets({0, 5})))},
                      {"[linear_cross_entropy] f32[2,3] needs one class per row, got the target i64[3]",
                       CALL(linear_cross_entropy(zeros({2, 3}), zeros({5, 3}), targets({0, 1, 2})))},
                      {"[linear_cross_entropy] gives the mean or the sum of all rows",
                       CALL(linear_cross_entropy(zeros({2, 3}), zeros({5, 3}), targets({0, 1}), {},
                                                 {.reduce = Reduce::none}))}};
  return rows;
}

Rows class_rows() {
  const ClassWay ways[] = {{"plain"},
                           {"smoothed", 0.1},
                           {"weighted", 0, true},
                           {"ignoring", 0, false, true},
                           {"all options", 0.2, true, true}};
  const std::vector<Shapes> cases = {
      {{6, kClasses}, {6}}, {{1, kClasses}, {1}}, {{0, kClasses}, {0}}, {{2, 3, kClasses}, {2, 3}}};
  Rows rows;
  for (const ClassWay& way : ways) {
    for (const Reduce reduce : kReductions) {
      const std::string variant = std::string(way.name) + ", " + name_of(reduce);
      rows.push_back(
          {.op = "cross_entropy",
           .variant = variant,
           .run =
               [=](const TensorList& x) { return cross_entropy(x[0], x[1], options_of(way, reduce, x[0])); },
           .oracle =
               [=](const Arrays& x) {
                 return class_loss(x[0], x[1], way, reduce,
                                   [&](std::size_t r) { return log_probabilities(x[0], r); });
               },
           .cases = cases,
           .draws = {{.low = -3, .high = 3}, index_below(kClasses)},
           .result = Result::wide});
      if (!way.weighted && !way.ignoring) rows.back().cases.push_back({{67, 301}, {67}});
      if (way.smoothing != 0.0) continue;
      rows.push_back(
          {.op = "nll_loss",
           .variant = variant,
           .run = [=](const TensorList& x) { return nll_loss(x[0], x[1], options_of(way, reduce, x[0])); },
           .oracle =
               [=](const Arrays& x) {
                 const auto logs = [&](std::size_t r) {
                   const auto first = x[0].values.begin() + static_cast<std::ptrdiff_t>(r * kClasses);
                   return std::vector<double>(first, first + kClasses);
                 };
                 return class_loss(x[0], x[1], way, reduce, logs);
               },
           .cases = cases,
           .draws = {{.low = -4, .high = -0.1}, index_below(kClasses)},
           .result = Result::wide});
    }
  }
  for (std::size_t i = 0, count = rows.size(); i < count; ++i) {
    Row bytes = rows[i];
    bytes.variant += ", bytes";
    bytes.draws[1].dtype = DType::u8;
    if (bytes.variant.find("mean") != std::string::npos) rows.push_back(std::move(bytes));
  }
  rows[0].refusals = {{"[cross_entropy] target 5 in row 1 lies outside [0,5)",
                       CALL(cross_entropy(zeros({2, 5}), targets({0, 5})))},
                      {"[cross_entropy] target -1 in row 0 lies outside [0,5)",
                       CALL(cross_entropy(zeros({2, 5}), targets({-1, 0})))},
                      {"[cross_entropy] f32[2,5] needs one class per row, got the target i64[3]",
                       CALL(cross_entropy(zeros({2, 5}), targets({0, 1, 2})))},
                      {"[cross_entropy] label smoothing 1 lies outside [0,1)",
                       CALL(cross_entropy(zeros({1, 5}), targets({0}), {.label_smoothing = 1.0}))},
                      {"[cross_entropy] class weights must be floating [5], got f32[4]",
                       CALL(cross_entropy(zeros({1, 5}), targets({0}), {.class_weights = zeros({4})}))},
                      {"[cross_entropy] classes must be i64, i32 or u8, got bool[1]",
                       CALL(cross_entropy(zeros({1, 5}), Tensor::zeros({1}, {.dtype = DType::boolean,
                                                                             .device = test_device()})))},
                      {"[cross_entropy] logits f32[1,5] need as many probabilities, the target is f32[1,4]",
                       CALL(cross_entropy(zeros({1, 5}), zeros({1, 4})))},
                      {"[cross_entropy] ignore_index 3 has no meaning for probabilities",
                       CALL(cross_entropy(zeros({1, 5}), zeros({1, 5}), {.ignore_index = 3}))}};
  rows[1].refusals = {
      {"[nll_loss] target 7 in row 0 lies outside [0,5)", CALL(nll_loss(zeros({1, 5}), targets({7})))},
      {"[nll_loss] label smoothing 0.1 is for cross_entropy",
       CALL(nll_loss(zeros({1, 5}), targets({0}), {.label_smoothing = 0.1}))}};
  return rows;
}

Rows soft_rows() {
  const ClassWay ways[] = {{"plain"}, {"smoothed", 0.1}, {"weighted", 0.1, true}};
  Rows rows;
  for (const ClassWay& way : ways) {
    for (const Reduce reduce : kReductions) {
      rows.push_back(
          {.op = "soft_cross_entropy",
           .variant = std::string(way.name) + ", " + name_of(reduce),
           .run =
               [=](const TensorList& x) { return cross_entropy(x[0], x[1], options_of(way, reduce, x[0])); },
           .oracle =
               [=](const Arrays& x) {
                 Array each(x[0].shape.without(x[0].shape.rank() - 1));
                 for (std::size_t r = 0; r < each.values.size(); ++r) {
                   const std::vector<double> row = log_probabilities(x[0], r);
                   for (std::size_t c = 0; c < row.size(); ++c) {
                     const double t =
                         (1 - way.smoothing) * x[1].values[r * kClasses + c] + way.smoothing / kClasses;
                     each.values[r] -= t * row[c] * (way.weighted ? class_weights()[c] : 1.0);
                   }
                 }
                 return folded(each, reduce, static_cast<double>(each.values.size()));
               },
           .cases = {{{4, kClasses}, {4, kClasses}}, {{2, 3, kClasses}, {2, 3, kClasses}}},
           .draws = {{.low = -3, .high = 3}, {.low = 0, .high = 0.4}},
           .result = Result::wide});
    }
  }
  return rows;
}

// ---- dice

struct DiceWay {
  const char* name;
  DiceLossOptions options{};
};

const DiceWay kDiceWays[] = {{"plain"},
                             {"squared", {.epsilon = 1.0, .squared = true}},
                             // an epsilon that f16 can tell from 0, where nothing of a class is left
                             {"ignoring", {.epsilon = 0.1, .ignore_index = 2}},
                             {"squared, ignoring", {.epsilon = 0.1, .squared = true, .ignore_index = 2}},
                             {"without epsilon", {.epsilon = 0.0}}};

// probability(r, c) of row r; the truth of class c in a row of target t is given(t, c).
template <class Probability, class Given>
Array dice_of(const Array& target, std::size_t classes, const DiceLossOptions& options,
              const Probability& probability, const Given& given) {
  double total = 0.0;
  for (std::size_t c = 0; c < classes; ++c) {
    double numerator = options.epsilon, denominator = options.epsilon;
    for (std::size_t r = 0; r < target.values.size(); ++r) {
      const auto t = static_cast<Index>(target.values[r]);
      if (t == options.ignore_index) continue;
      const double p = probability(r, c), g = given(t, c);
      numerator += 2.0 * p * g;
      denominator += options.squared ? p * p + g * g : p + g;
    }
    total += denominator == 0.0 ? 1.0 : numerator / denominator;
  }
  return Array({}, {1.0 - total / static_cast<double>(classes)});
}

Rows dice_rows() {
  Rows rows;
  for (const DiceWay& way : kDiceWays) {
    for (const DType dtype : {DType::i64, DType::u8}) {
      const std::string suffix = dtype == DType::u8 ? ", bytes" : "";
      Draw index = index_below(kClasses), mask = index_below(way.options.ignore_index ? 3 : 2);
      index.dtype = mask.dtype = dtype;
      rows.push_back(
          {.op = "dice_loss",
           .variant = way.name + suffix,
           .run = [way](const TensorList& x) { return dice_loss(x[0], x[1], way.options); },
           .oracle =
               [way](const Arrays& x) {
                 return dice_of(
                     x[1], static_cast<std::size_t>(x[0].shape.at(-1)), way.options,
                     [&](std::size_t r, std::size_t c) { return std::exp(log_probabilities(x[0], r)[c]); },
                     [](Index t, std::size_t c) { return t == static_cast<Index>(c) ? 1.0 : 0.0; });
               },
           .cases = {{{6, kClasses}, {6}},
                     {{1, kClasses}, {1}},
                     {{0, kClasses}, {0}},
                     {{2, 3, 4, kClasses}, {2, 3, 4}},
                     {{3001, kClasses}, {3001}},
                     {{12, 33}, {12}},  // more classes than a group of a GPU has lanes
                     {{9, 130}, {9}}},
           .draws = {{.low = -3, .high = 3}, index},
           .result = Result::wide});
      rows.push_back(
          {.op = "dice_loss",
           .variant = "binary, " + (way.name + suffix),
           .run = [way](const TensorList& x) { return binary_dice_loss(x[0], x[1], way.options); },
           .oracle =
               [way](const Arrays& x) {
                 return dice_of(
                     x[1], 1, way.options,
                     [&](std::size_t r, std::size_t) { return 1.0 / (1.0 + std::exp(-x[0].values[r])); },
                     [](Index t, std::size_t) { return static_cast<double>(t); });
               },
           .cases =
               {{{6}, {6}}, {{}, {}}, {{0, 3}, {0, 3}}, {{2, 3, 4, 1}, {2, 3, 4}}, {{2, 5, 1}, {2, 5, 1}}},
           .draws = {{.low = -3, .high = 3}, mask},
           .result = Result::wide});
    }
  }
  Row many = rows[0];
  many.variant = "of more classes than are fused";
  many.cases = {{{3, 5}, {3}}, {{7, 301}, {7}}};
  many.slack = 5.0;  // gradients of 1/301 of a difference are subnormal in f16
  rows.push_back(std::move(many));
  rows[0].refusals = {
      {"[dice_loss] target 5 in row 1 lies outside [0,5)", CALL(dice_loss(zeros({2, 5}), targets({0, 5})))},
      {"[dice_loss] f32[2,5] needs one class per row, got the target i64[3]",
       CALL(dice_loss(zeros({2, 5}), targets({0, 1, 2})))},
      {"[dice_loss] classes must be i64, i32 or u8, got f32[1]", CALL(dice_loss(zeros({1, 5}), zeros({1})))},
      {"[dice_loss] logits f32[2,1] have fewer than 2 classes; use binary_dice_loss for one",
       CALL(dice_loss(zeros({2, 1}), targets({0, 0})))},
      {"[dice_loss] epsilon -1 is negative",
       CALL(dice_loss(zeros({1, 5}), targets({0}), {.epsilon = -1.0}))}};
  rows[1].refusals = {
      {"[binary_dice_loss] target 2 in row 1 lies outside [0,2)",
       CALL(binary_dice_loss(zeros({2}), targets({0, 2})))},
      {"[binary_dice_loss] logits f32[2,5] need a mask with the same number of elements, got i64[2]",
       CALL(binary_dice_loss(zeros({2, 5}), targets({0, 0})))},
      {"[binary_dice_loss] classes must be i64, i32 or u8, got f32[2]",
       CALL(binary_dice_loss(zeros({2}), zeros({2})))}};
  return rows;
}

// ---- losses of corresponding elements

using Pair = double (*)(double, double);
using Loss = Tensor (*)(const Tensor&, const Tensor&, Reduce);

Rows pairs(const char* op, const char* name, Loss loss, Pair oracle, std::vector<Draw> draws) {
  Rows rows;
  for (const Reduce reduce : kReductions) {
    rows.push_back(
        {.op = op,
         .variant = std::string(name) + (*name ? ", " : "") + name_of(reduce),
         .run = [=](const TensorList& x) { return loss(x[0], x[1], reduce); },
         .oracle =
             [=](const Arrays& x) {
               return folded(each(oracle)(x), reduce, static_cast<double>(x[0].values.size()));
             },
         .cases = {{{3, 4}, {3, 4}}, {{1}, {1}}, {{}, {}}, {{2, 2, 3}, {2, 2, 3}}, {{67, 301}, {67, 301}}},
         .draws = draws,
         .result = Result::wide,
         .normalised = reduce != Reduce::none});
    if (reduce != Reduce::mean) rows.back().cases.push_back({{0, 4}, {0, 4}});
  }
  const std::string place = std::string("[") + op + "] ";
  rows[0].refusals = {{place + "the target must have the shape of f32[2,3], got f32[3]",
                       [=] {
                         loss(zeros({2, 3}), zeros({3}), Reduce::mean);
                       }},
                      {place + "expects a floating tensor, got i64[2]", [=] {
                         loss(Tensor::zeros({2}, {.dtype = DType::i64, .device = test_device()}), zeros({2}),
                              Reduce::mean);
                       }}};
  return rows;
}

double binary_entropy(double x, double t) {
  return -(t * std::log(1 / (1 + std::exp(-x))) + (1 - t) * std::log(1 / (1 + std::exp(x))));
}
double huber_of(double d, double delta) {
  return std::abs(d) < delta ? 0.5 * d * d : delta * (std::abs(d) - 0.5 * delta);
}
double focal_of(double x, double t, double alpha, double gamma) {
  const double p = 1 / (1 + std::exp(-x)), q = p * (1 - t) + (1 - p) * t;
  return (alpha < 0 ? 1.0 : alpha * t + (1 - alpha) * (1 - t)) * std::pow(q, gamma) * binary_entropy(x, t);
}

// x and target apart by an interval that keeps them off the kinks at distance 0, 0.5 and 1.
const std::vector<Draw> kNear{{.low = 1.05, .high = 1.2}, {.low = 0.8, .high = 0.95}};
const std::vector<Draw> kBetween{{.low = 1.6, .high = 1.7}, {.low = 0.8, .high = 0.95}};
const std::vector<Draw> kFar{{.low = -2.5, .high = -1.5}, {.low = 0.0, .high = 0.5}};

Rows pair_rows() {
  const std::vector<Draw> any{{}}, logits{{.low = -4, .high = 4}, {.low = 0, .high = 1}};
  Rows rows;
  const auto append = [&](Rows more) {
    for (Row& row : more) rows.push_back(std::move(row));
  };
  append(pairs(
      "mse_loss", "", mse_loss, [](double x, double t) { return (x - t) * (x - t); }, any));
  append(pairs(
      "l1_loss", "", l1_loss, [](double x, double t) { return std::abs(x - t); }, kNear));
  const Loss smooth = [](const Tensor& x, const Tensor& t, Reduce r) { return smooth_l1_loss(x, t, 0.5, r); };
  const Loss sharp = [](const Tensor& x, const Tensor& t, Reduce r) { return smooth_l1_loss(x, t, 0.0, r); };
  const Loss huber = [](const Tensor& x, const Tensor& t, Reduce r) { return huber_loss(x, t, 0.5, r); };
  const Pair smooth_of = [](double x, double t) { return huber_of(x - t, 0.5) / 0.5; };
  const Pair huber_half = [](double x, double t) { return huber_of(x - t, 0.5); };
  append(pairs("smooth_l1_loss", "within", smooth, smooth_of, kNear));
  append(pairs("smooth_l1_loss", "just beyond", smooth, smooth_of, kBetween));
  append(pairs("smooth_l1_loss", "beyond", smooth, smooth_of, kFar));
  append(pairs(
      "smooth_l1_loss", "beta 0", sharp, [](double x, double t) { return std::abs(x - t); }, kFar));
  append(pairs("huber_loss", "within", huber, huber_half, kNear));
  append(pairs("huber_loss", "just beyond", huber, huber_half, kBetween));
  append(pairs("huber_loss", "beyond", huber, huber_half, kFar));
  append(pairs("bce_with_logits", "", bce_with_logits, binary_entropy, logits));
  append(pairs("bce_loss", "", bce_loss,
               [](double x, double t) { return -(t * std::log(x) + (1 - t) * std::log(1 - x)); },
               {{.low = 0.1, .high = 0.9}, {.low = 0, .high = 1}}));
  append(pairs("kl_div", "", kl_div, [](double x, double t) { return t * (std::log(t) - x); },
               {{.low = -3, .high = -0.1}, {.low = 0.1, .high = 1}}));
  const Loss balanced = [](const Tensor& x, const Tensor& t, Reduce r) {
    return focal_loss(x, t, 0.25, 2.0, r);
  };
  const Loss unbalanced = [](const Tensor& x, const Tensor& t, Reduce r) {
    return focal_loss(x, t, -1.0, 1.5, r);
  };
  const Loss flat = [](const Tensor& x, const Tensor& t, Reduce r) { return focal_loss(x, t, 0.5, 0.0, r); };
  append(pairs(
      "focal_loss", "", balanced, [](double x, double t) { return focal_of(x, t, 0.25, 2.0); }, logits));
  append(pairs(
      "focal_loss", "no balance", unbalanced, [](double x, double t) { return focal_of(x, t, -1, 1.5); },
      logits));
  append(pairs(
      "focal_loss", "gamma 0", flat, [](double x, double t) { return focal_of(x, t, 0.5, 0); }, logits));
  const auto refuse = [&](const char* op, Refusal refusal) {
    for (Row& row : rows) {
      if (row.op != std::string(op)) continue;
      row.refusals.push_back(std::move(refusal));
      return;
    }
  };
  refuse("smooth_l1_loss",
         {"[smooth_l1_loss] beta -1 is negative", CALL(smooth_l1_loss(zeros({1}), zeros({1}), -1.0))});
  refuse("huber_loss",
         {"[huber_loss] delta 0 is not positive", CALL(huber_loss(zeros({1}), zeros({1}), 0.0))});
  refuse("focal_loss", {"[focal_loss] alpha 2 exceeds 1", CALL(focal_loss(zeros({1}), zeros({1}), 2.0))});
  refuse("focal_loss",
         {"[focal_loss] gamma -1 is negative", CALL(focal_loss(zeros({1}), zeros({1}), 0.25, -1.0))});
  return rows;
}

}  // namespace

Rows tandem::test::loss_rows() {
  Rows rows;
  for (Rows (*part)() : {class_rows, linear_class_rows, soft_rows, dice_rows, pair_rows}) {
    for (Row& row : part()) rows.push_back(std::move(row));
  }
  return rows;
}

namespace {

// The loss, and the gradients of x, weight and bias.
TensorList loss_and_gradients(DType dtype, bool composed, Index chunk_rows) {
  constexpr Index kRows = 150, kFeatures = 24, kWords = 301;
  const Tensor x = leaf(random_tensor({kRows, kFeatures}, dtype, 1));
  const Tensor weight = leaf(random_tensor({kWords, kFeatures}, dtype, 2));
  const Tensor bias = leaf(random_tensor({kWords}, dtype, 3));
  std::vector<std::int64_t> words;
  for (std::int64_t r = 0; r < kRows; ++r) words.push_back(r * 37 % kWords);
  const CrossEntropyLossOptions options{.label_smoothing = 0.1, .ignore_index = 74};
  const Tensor loss = composed ? cross_entropy(linear(x, weight, bias), targets(words), options)
                               : linear_cross_entropy(x, weight, targets(words), bias, options, chunk_rows);
  const Tensor dloss = Tensor::full({}, 3.0, loss.options()), wanted[] = {x, weight, bias};
  TensorList results{loss};
  for (const Tensor& gradient : gradients(std::span(&loss, 1), std::span(&dloss, 1), wanted))
    results.push_back(gradient);
  return results;
}

}  // namespace

TEST_CASE("a chunked loss is that of stored logits", "[ops][loss]") {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    const TensorList expected = loss_and_gradients(dtype, true, 0);
    for (const Index chunk_rows : {0, 32, 1}) {
      INFO(name_of(dtype) << " in chunks of " << chunk_rows);
      const TensorList got = loss_and_gradients(dtype, false, chunk_rows);
      const double error = dtype == DType::f64   ? 1e-13
                           : dtype == DType::f32 ? 1e-6
                           : dtype == DType::f16 ? 1e-3
                                                 : 6e-3;
      for (std::size_t i = 0; i < got.size(); ++i) {
        INFO("result " << i);
        CHECK(got[i].dtype() == expected[i].dtype());
        CHECK(normalised_error(got[i].to_vector<double>(), expected[i].to_vector<double>()) < error);
      }
    }
  }
}

TEST_CASE("a chunked loss stores no logits", "[ops][loss]") {
  constexpr Index kRows = 512, kFeatures = 8, kWords = 4096;  // 8 MiB of logits
  CachingAllocator& allocator = backend_for(test_device()).allocator();
  const Tensor x = leaf(random_tensor({kRows, kFeatures}, DType::f32, 1));
  const Tensor weight = leaf(random_tensor({kWords, kFeatures}, DType::f32, 2));
  const Tensor words = Tensor::zeros({kRows}, {.dtype = DType::i64, .device = test_device()});
  const std::size_t before = allocator.figures().live;
  allocator.reset_peak();
  const Tensor loss = linear_cross_entropy(x, weight, words, {}, {}, 16);
  CHECK(loss.requires_grad());
  CHECK(allocator.figures().peak - before < 2u << 20u);
}
