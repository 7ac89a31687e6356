#include "optim/adafactor.h"

#include <limits>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/reduce.h"
#include "optim/matrix_view.h"
#include "optim/registry.h"
#include "optim/update_context.h"

namespace tandem::optim {

namespace {

constexpr double kUnbounded = std::numeric_limits<double>::infinity();

Tensor root_mean_square(const Tensor& x) { return sqrt(mean(square(x))); }

}  // namespace

const OptimizerRegistry::Entry& Adafactor::entry() {
  static const OptimizerRegistry::Entry entry = optimizer_entry<Adafactor, AdafactorOptions>(
      {.name = "adafactor",
       .help = "second moments of matrices factored into row and column means",
       .lr = 1e-2},
      [](options::Describe<AdafactorOptions>& keys) {
        keys.key("beta1", &AdafactorOptions::beta1, "decay of the running mean of updates; 0: no mean",
                 {.min = 0.0, .max = 1.0, .open_max = true})
            .key("beta2_decay", &AdafactorOptions::beta2_decay,
                 "in update t the running mean of squares decays by 1 - t^-beta2_decay",
                 {.min = 0.0, .max = 1.0})
            .key("eps1", &AdafactorOptions::eps1,
                 "lower bound on the root mean square that divides the gradient", {.min = 0.0, .max = 1.0})
            .key("eps2", &AdafactorOptions::eps2,
                 "lower bound on the root mean square of a weight in scale_parameter",
                 {.min = 0.0, .max = 1.0})
            .key("clip_threshold", &AdafactorOptions::clip_threshold,
                 "upper bound on the root mean square of a weight's update; 0: none",
                 {.min = 0.0, .max = 1e6})
            .key("relative_step", &AdafactorOptions::relative_step,
                 "learning rate of at most 1/√t in update t")
            .key("scale_parameter", &AdafactorOptions::scale_parameter,
                 "learning rate times the root mean square of the weight");
      });
  return entry;
}

Adafactor::Adafactor(std::vector<Parameter> parameters, const AdafactorOptions& options)
    : Optimizer(std::move(parameters), entry(), options), options_(options) {}

std::vector<StateTensor> Adafactor::state_of(const Entry& entry) const {
  const Shape& shape = entry.parameter.value().shape();
  std::vector<StateTensor> state;
  if (shape.rank() > 1) {
    const Shape matrix = matrix_shape(shape);
    state = {{"row", {matrix[0], 1}}, {"column", {1, matrix[1]}}};
  } else {
    state = {{"square", shape}};
  }
  if (options_.beta1 > 0.0) state.push_back({"mean", shape});
  return state;
}

// Estimate of the mean of squared gradients; this gradient enters with weight `fresh`.
Tensor Adafactor::square_of(UpdatedParameter& p, const Tensor& gradient, const Tensor& fresh) const {
  const auto moved = [&](const char* name, const Tensor& to) {
    const Tensor value = lerp(p.state(name), to, fresh);
    p.set_state(name, value);
    return value;
  };
  if (gradient.rank() < 2) return moved("square", square(gradient));
  const Tensor squares = square(as_matrix(gradient));
  const Tensor row = moved("row", mean(squares, {1}, true)),
               column = moved("column", mean(squares, {0}, true));
  return (row * column / clamp(mean(row), options_.eps1, kUnbounded)).viewed(gradient.shape());
}

void Adafactor::update(UpdateContext& context) const {
  for (UpdatedParameter& p : context.parameters()) {
    const Tensor gradient = p.gradient(), lr = p.lr(), number = p.number();
    Tensor rate = options_.relative_step ? minimum(lr, rsqrt(number)) : lr;
    if (options_.scale_parameter)
      rate = rate * clamp(root_mean_square(p.weight()), options_.eps2, kUnbounded);

    const Tensor variance = square_of(p, gradient, pow(number, -options_.beta2_decay));
    Tensor update = gradient * rsqrt(clamp(variance, options_.eps1 * options_.eps1, kUnbounded));
    if (options_.clip_threshold > 0.0)
      rate = rate / clamp(root_mean_square(update) / options_.clip_threshold, 1.0, kUnbounded);
    update = update * rate;
    if (options_.beta1 > 0.0) {
      update = lerp(p.state("mean"), update, 1.0 - options_.beta1);
      p.set_state("mean", update);
    }
    p.set_weight(p.weight() * (1.0 - lr * p.weight_decay()) - update);
  }
}

}  // namespace tandem::optim
