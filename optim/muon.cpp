#include "optim/muon.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "optim/adam_rule.h"
#include "optim/matrix_view.h"
#include "optim/update_context.h"

namespace tandem::optim {

namespace {

bool is_orthogonal(const Optimizer::Entry& entry) {
  return entry.adapt && entry.parameter.value().rank() > 1;
}

double ratio_of(MuonRate rate, const Shape& matrix) {
  const double rows = static_cast<double>(matrix[0]), columns = static_cast<double>(matrix[1]);
  switch (rate) {
    case MuonRate::match_rms_adamw:
      return 0.2 * std::sqrt(std::max(rows, columns));
    case MuonRate::spectral_unclamped:
      return std::sqrt(rows / columns);
    case MuonRate::original:
      break;
  }
  return std::sqrt(std::max(1.0, rows / columns));
}

}  // namespace

const OptimizerRegistry::Entry& Muon::entry() {
  static const OptimizerRegistry::Entry entry = optimizer_entry<Muon, MuonOptions>(
      {.name = "muon", .help = "orthogonalised updates for matrices, AdamW for other weights", .lr = 1e-3},
      [](options::Describe<MuonOptions>& keys) {
        keys.key("momentum", &MuonOptions::momentum, "momentum factor",
                 {.min = 0.0, .max = 1.0, .open_max = true, .keyword = "auto"})
            .key("nesterov", &MuonOptions::nesterov, "look ahead along the momentum")
            .key("ns_steps", &MuonOptions::ns_steps, "Newton–Schulz steps (three matrix products each)",
                 {.min = 1, .max = 99})
            .key("eps", &MuonOptions::eps, "lower bound on the norm that divides an update",
                 {.min = 0.0, .max = 1e6, .keyword = "auto"})
            .key("adjust_lr", &MuonOptions::adjust_lr,
                 "factor on the learning rate of a matrix [R,C]: original, √max(1, R/C); "
                 "match_rms_adamw, 0.2·√max(R, C), which suits AdamW's rates; spectral_unclamped, "
                 "times √(R/C)")
            .key("adapt_tables", &MuonOptions::adapt_tables,
                 "orthogonalise the updates of embedding tables too")
            .key("adamw_lr_factor", &MuonOptions::adamw_lr_factor,
                 "factor on the learning rate of weights updated by AdamW", {.min = 0.0, .max = 1e6});
        describe_betas(keys);
        keys.key("adamw_eps", &MuonOptions::adamw_eps, "added to AdamW's denominator",
                 {.min = 0.0, .max = 1.0});
      });
  return entry;
}

Muon::Muon(std::vector<Parameter> parameters, const MuonOptions& options)
    : Optimizer(std::move(parameters), entry(), options), options_(options) {
  for (Entry& each : entries_)
    if (!is_orthogonal(each)) each.lr_factor *= options.adamw_lr_factor;
}

std::vector<StateTensor> Muon::state_of(const Entry& entry) const {
  const Shape& shape = entry.parameter.value().shape();
  if (is_orthogonal(entry)) return {{"momentum", shape}};
  return {{"mean", shape}, {"square", shape}};
}

void Muon::update(UpdateContext& context) const {
  update_rules::AdamW adamw;
  adamw.beta1 = options_.beta1;
  adamw.beta2 = options_.beta2;
  adamw.eps = options_.adamw_eps;
  for (UpdatedParameter& p : context.parameters()) {
    if (!is_orthogonal(p.entry())) {
      p.update(adamw, {"mean", "square"});
      continue;
    }
    const Tensor gradient = p.gradient(), lr = p.lr();
    const Tensor momentum = lerp(p.state("momentum"), gradient, 1.0 - options_.momentum);
    p.set_state("momentum", momentum);
    const Tensor direction =
        as_matrix(options_.nesterov ? lerp(gradient, momentum, options_.momentum) : momentum);
    const Tensor orthogonal = newton_schulz(direction, options_.ns_steps, options_.eps, p.working_dtype());
    const Tensor kept = p.weight() * (1.0 - lr * p.weight_decay());
    const Tensor rate = lr * ratio_of(options_.adjust_lr, direction.shape());
    p.set_weight(kept - rate * orthogonal.viewed(kept.shape()));
  }
}

// Jordan's coefficients of the quintic: the slope at 0 is as large as possible, and values settle between
// about 0.7 and 1.2. Transposing to no more rows than columns keeps the products on the smaller side.
Tensor newton_schulz(const Tensor& matrix, Index steps, double eps, DType dtype) {
  constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;
  const bool tall = matrix.size(0) > matrix.size(1);
  const Tensor length = clamp(norm(matrix), eps, std::numeric_limits<double>::infinity());
  Tensor x = cast(matrix / length, dtype);
  if (tall) x = transpose(x, 0, 1);
  for (Index i = 0; i < steps; ++i) {
    const Tensor gram = matmul(x, x, false, true);
    const Tensor polynomial = gram * kB + matmul(gram, gram) * kC;
    x = x * kA + matmul(polynomial, x);
  }
  if (tall) x = transpose(x, 0, 1);
  return cast(x, DType::f32);
}

}  // namespace tandem::optim
