// Trains a small network on random data with only the installed package, as a C++ user would.
#include <tandem.h>  // the same as <tandem/tandem.h>
#include <tandem/core/kernels/random.h>

#include <cstdio>

int main() {
  const tandem::RandomScope random(/*seed=*/7, /*step=*/0, /*micro_batch=*/0);
  auto model = tandem::models::mlp({.in_features = 16, .hidden = {32}, .num_classes = 4});
  tandem::optim::Sgd optimizer(model->parameters(), {.momentum = 0.9});
  tandem::optim::Step step(*model, {&optimizer},
                           {.schedule = tandem::optim::cosine(0.1, 50), .clip_norm = 1.0});

  tandem::Tensor images = tandem::Tensor::empty({64, 16});
  tandem::backend_for({}).random().random_normal({.seed = 1}, images, 0.0, 1.0);
  std::vector<std::int64_t> classes(64);
  for (std::size_t i = 0; i < classes.size(); ++i) classes[i] = static_cast<std::int64_t>(i % 4);
  const tandem::Tensor labels = tandem::Tensor::from(classes, {64});

  double first = 0.0, last = 0.0;
  for (int i = 0; i < 50; ++i) {
    const tandem::Tensor loss = tandem::cross_entropy((*model)(images), labels);
    step.backward(loss);
    step.apply();
    last = loss.item();
    if (i == 0) first = last;
  }
  std::printf("loss fell from %.3f to %.3f\n", first, last);
  try {
    tandem::matmul(images, images);
    return 1;
  } catch (const tandem::UserError& error) {
    std::printf("%s\n", error.what());
  }
  return last < 0.5 * first ? 0 : 1;
}
