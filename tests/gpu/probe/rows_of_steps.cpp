// Ops of every step: updates, the check before them, and element-wise ops.
#include <fmt/format.h>

#include "core/kernels/elementwise.h"
#include "core/kernels/formulas.h"
#include "core/kernels/update.h"
#include "core/kernels/update_rules.h"
#include "tests/gpu/probe/rows.h"

namespace tandem::probe {

namespace {

constexpr Index kParameters = 25'557'032;  // of a ResNet-50

// State and scale of a step that was decided upon: not skipped, of a learning rate.
struct StepMemory {
  Tensor state, scale, counts;
  UpdateRange range;
};

StepMemory step_memory(Operands& make, Index parameters) {
  StepState state;
  state.learning_rate = 1e-3;
  state.applied = 1;
  const ScaleState scale{};
  const auto on_device = [&](const void* value, std::size_t bytes) {
    const auto* first = static_cast<const std::uint8_t*>(value);
    return Tensor::from(std::vector<std::uint8_t>(first, first + bytes), {static_cast<Index>(bytes)},
                        make.backend().device());
  };
  return {.state = on_device(&state, sizeof state),
          .scale = on_device(&scale, sizeof scale),
          .counts = Tensor::from(std::vector<std::int64_t>{1}, {1}, make.backend().device()),
          .range = {.count = parameters, .weight_decay = 1e-4f}};
}

// Master, gradient and moments are read, all but the gradient written, and the 16-bit copy.
Row update(Extents cut, const char* rule_name, const UpdateRule& rule, int moments) {
  const Index parameters = cut(kParameters, 1000);
  return {.name = fmt::format("update_{} {} parameters", rule_name, kParameters),
          .family = "update",
          .bytes = bytes_of(parameters * (3 + 2 * moments), DType::f32) + bytes_of(parameters, DType::bf16),
          .make = [=](Operands& make) -> Work {
            const StepMemory step = step_memory(make, parameters);
            UpdateBuffers buffers{.master = make.noise({parameters}, DType::f32),
                                  .gradient = make.noise({parameters}, DType::f32),
                                  .working = make.empty({parameters}, DType::bf16),
                                  .moment1 = make.noise({parameters}, DType::f32)};
            if (moments > 1) {
              buffers.moment2 = make.empty({parameters}, DType::f32);
              make.backend().fill(buffers.moment2, 1.0);
            }
            buffers.counts = step.counts;
            return [=, &backend = make.backend()] {
              backend.update().update(rule, {&step.range, 1}, buffers, step.state);
            };
          }};
}

Row gradient_check(Extents cut) {
  const Index parameters = cut(kParameters, 1000);
  return {.name = fmt::format("check_gradients {} parameters", kParameters),
          .family = "update",
          .bytes = bytes_of(parameters, DType::f32),
          .make = [=](Operands& make) -> Work {
            const StepMemory step = step_memory(make, parameters);
            const Tensor gradient = make.noise({parameters}, DType::f32);
            return [=, &backend = make.backend()] {
              backend.update().check_gradients(gradient, {&step.range, 1}, {}, step.state, step.scale);
            };
          }};
}

Row relu(Extents cut) {
  const Index count = cut(Index{64} << 20, 1000);
  return {.name = "relu 67108864 bf16",
          .family = "elementwise",
          .bytes = 2.0 * bytes_of(count, DType::bf16),
          .make = [=](Operands& make) -> Work {
            const Tensor x = make.noise({count}, DType::bf16), y = make.empty({count}, DType::bf16);
            return [=, &backend = make.backend()] {
              backend.elementwise().pointwise(formula_id<formulas::Relu>(), {}, {&x, 1}, y);
            };
          }};
}

// As position embeddings are added: a row to every row.
Row add_row(Extents cut) {
  const Index count = cut(8192, 8), width = cut(3072, 32);
  return {.name = "add 8192x3072, 3072 bf16",
          .family = "elementwise",
          .bytes = 2.0 * bytes_of(count * width, DType::bf16),
          .make = [=](Operands& make) -> Work {
            const std::vector<Tensor> terms{make.noise({count, width}, DType::bf16),
                                            make.noise({width}, DType::bf16)};
            const Tensor y = make.empty({count, width}, DType::bf16);
            return [=, &backend = make.backend()] {
              backend.elementwise().pointwise(formula_id<formulas::Add>(), {}, terms, y);
            };
          }};
}

Row cast(Extents cut) {
  const Index count = cut(Index{64} << 20, 1000);
  return {.name = "cast 67108864 f32 to bf16",
          .family = "elementwise",
          .bytes = bytes_of(count, DType::f32) + bytes_of(count, DType::bf16),
          .make = [=](Operands& make) -> Work {
            const Tensor x = make.noise({count}, DType::f32), y = make.empty({count}, DType::bf16);
            return [=, &backend = make.backend()] { backend.cast(x, y); };
          }};
}

}  // namespace

void add_step_rows(Extents cut, std::vector<Row>& rows) {
  rows.push_back(update(cut, "sgd", update_rules::Sgd{.momentum = 0.9}, 1));
  update_rules::Adam adam;
  adam.beta1 = 0.9;
  adam.beta2 = 0.999;
  adam.eps = 1e-8;
  rows.push_back(update(cut, "adam", adam, 2));
  rows.push_back(gradient_check(cut));
  rows.push_back(relu(cut));
  rows.push_back(add_row(cut));
  rows.push_back(cast(cut));
}

}  // namespace tandem::probe
