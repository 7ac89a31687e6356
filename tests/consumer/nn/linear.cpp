// A linear layer, an optimizer's step and a plugin, by the component nn alone.
#include <dlfcn.h>
#include <tandem/autograd/modes.h>
#include <tandem/autograd/ops/loss.h>
#include <tandem/core/random.h>
#include <tandem/nn/layers.h>
#include <tandem/optim/all_optimizers.h>
#include <tandem/optim/step.h>

#include <cstdio>

// The program and the plugin share one library: scopes of one are in effect in the other.
static bool plugin_follows_scopes() {
  void* const plugin = dlopen(PLUGIN, RTLD_NOW | RTLD_LOCAL);
  if (!plugin) return false;
  const auto records = reinterpret_cast<bool (*)()>(dlsym(plugin, "plugin_records"));
  if (!records || !records()) return false;
  const tandem::NoGrad no_grad;
  return !records();
}

int main() {
  const tandem::RandomScope random(/*seed=*/7, /*step=*/0, /*micro_batch=*/0);
  tandem::nn::Linear layer(4, 2);
  tandem::optim::Sgd optimizer(layer.parameters(), {});
  tandem::optim::Step step(layer, {&optimizer}, {.schedule = tandem::optim::constant(0.1)});
  const tandem::Tensor features = tandem::Tensor::full({2, 4}, 1.0);
  const tandem::Tensor labels = tandem::Tensor::from(std::vector<std::int64_t>{1, 1}, {2});
  double losses[2];
  for (double& each : losses) {
    const tandem::Tensor loss = tandem::cross_entropy(layer(features), labels);
    step.backward(loss);
    step.apply();
    each = loss.item();
  }
  std::printf("loss fell from %.3f to %.3f\n", losses[0], losses[1]);
  return losses[1] < losses[0] && plugin_follows_scopes() ? 0 : 1;
}
