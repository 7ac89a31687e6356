// Sums of gradients of several losses with different scales.
#include "optim/step/loss_gradients.h"

#include <cstring>
#include <limits>

#include "tests/optim/toy.h"

using namespace tandem;
using namespace tandem::test;

TEST_CASE("gradients of several losses are unscaled one by one and added up", "[optim]") {
  const auto toy = weight_and_bias();
  optim::FlatBuffers buffers(toy->parameters());
  buffers.attach();
  optim::LossScaler scaler({.initial = 4.0, .scope = optim::ScalerScope::loss, .losses = 2});
  scaler.set(16.0, 1);
  optim::LossGradients gradients(buffers, scaler);
  const Tensor state = Tensor::zeros({static_cast<Index>(sizeof(StepState))}, {.dtype = DType::u8});
  // Slots lie in reverse order: the bias is 0, the weight 1.
  const auto leave = [&](std::size_t parameter, float value) {
    const Parameter& p = (*toy)[parameter];
    float* const range = buffers.range(buffers.gradients(), buffers.slots()[1 - parameter]).data<float>();
    std::fill_n(range, p.value().numel(), value);
    p.leaf().mark_written();
  };
  leave(0, 8.0f);
  gradients.add(0, state);
  CHECK_FALSE((*toy)[0].gradient().defined());
  CHECK(gradients.has(1));
  CHECK_FALSE(gradients.has(0));
  leave(0, 8.0f);
  leave(1, 32.0f);
  gradients.add(1, state);
  CHECK(gradients.has(0));
  gradients.give_back();
  CHECK(values_of((*toy)[0].gradient()) == Values(6, 2.5f));
  CHECK(values_of((*toy)[1].gradient()) == Values(3, 2.0f));
  CHECK_FALSE(gradients.has(0));
  CHECK(scaler.state_of(0).found_inf == 0);

  // What overflows counts against its own loss alone, and the next step begins anew.
  for (const Parameter& p : {(*toy)[0], (*toy)[1]}) p.leaf().clear_gradient();
  leave(1, std::numeric_limits<float>::infinity());
  gradients.add(1, state);
  CHECK(scaler.state_of(0).found_inf == 0);
  CHECK(scaler.state_of(1).found_inf == 1);
  StepState host;
  std::memcpy(&host, state.raw(), sizeof(host));
  CHECK(host.non_finite == 3);
  gradients.clear();
  leave(1, 16.0f);
  gradients.add(1, state);
  gradients.give_back();
  CHECK(values_of((*toy)[1].gradient()) == Values(3, 1.0f));
  CHECK_FALSE((*toy)[0].gradient().defined());
}
