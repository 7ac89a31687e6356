// Times attention of one projection, forward and with backward, for bench/attention.py: the least processor
// time of all threads, in milliseconds.
#include "autograd/ops/attention.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <ctime>
#include <limits>

#include "autograd/engine.h"
#include "autograd/leaf.h"
#include "autograd/ops/random.h"
#include "core/cpu/cpu_features.h"

namespace {

using namespace tandem;

double milliseconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("times attention forward and backward");
  Index texts = 4, heads = 12, tokens = 1024, width = 64;
  int threads = 1, rounds = 5;
  std::string dtype = "bf16";
  bool causal = false, composed = false;
  app.add_option("--texts", texts);
  app.add_option("--heads", heads);
  app.add_option("--tokens", tokens);
  app.add_option("--width", width, "features of a head");
  app.add_option("--dtype", dtype)->check(CLI::IsMember({"f32", "bf16", "f16"}));
  app.add_option("--threads", threads);
  app.add_option("--rounds", rounds);
  app.add_flag("--causal", causal);
  app.add_flag("--composed", composed, "from products and softmax");
  CLI11_PARSE(app, argc, argv);

  cpu::set_threads(threads);
  const DType type = dtype == "f32" ? DType::f32 : dtype == "bf16" ? DType::bf16 : DType::f16;
  const Tensor x = leaf(random_normal({texts, tokens, 3 * heads * width}, {.dtype = type}));
  const Tensor dy = random_normal({texts, tokens, heads * width}, {.dtype = type});
  double forward = std::numeric_limits<double>::infinity(), both = forward;
  for (int round = 0; round < rounds; ++round) {
    const double begun = milliseconds();
    const Tensor y = multi_head_attention(x, {.queries = heads}, {.causal = causal, .composed = composed});
    const double between = milliseconds();
    gradients(std::span(&y, 1), std::span(&dy, 1), std::span(&x, 1));
    forward = std::min(forward, between - begun);
    both = std::min(both, milliseconds() - begun);
  }
  fmt::print("{:.3f} {:.3f}\n", forward, both);
}
