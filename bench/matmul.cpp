// Times BF16 products of the shapes of Transformers and LSTMs: Tandem's matmul, and in turns oneDNN's
// primitive on one thread. Prints FLOP rates of both, and the ratio of the least times.
#include "core/kernels/matmul.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <ctime>
#include <limits>
#include <string_view>

#include "core/backend.h"
#include "core/cpu/cpu_features.h"
#include "core/cpu/onednn.h"

namespace {

using namespace tandem;

// Rows, inputs and outputs of linear layers.
constexpr Index kLayers[][3] = {{768, 128, 384},   {768, 128, 512},    {768, 512, 128},   {1024, 384, 1152},
                                {1024, 384, 1536}, {1024, 1536, 384},  {1024, 768, 3072}, {1024, 3072, 768},
                                {8192, 256, 1024}, {8192, 1024, 256},  {2048, 256, 768},  {2048, 256, 1024},
                                {2048, 1024, 256}, {1576, 192, 768},   {1576, 768, 192},  {128, 768, 50257},
                                {700, 650, 2600},  {2048, 2048, 2048}, {2048, 256, 8000}, {100, 100, 100}};

double clock_ms(bool wall) {
  timespec now{};
  clock_gettime(wall ? CLOCK_MONOTONIC : CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Times BF16 products of linear layers by Tandem and, in turns, by oneDNN's primitive.");
  int threads = 1, rounds = 7;
  bool wall = false;
  app.add_option("--threads", threads, "threads of Tandem's products; oneDNN's primitive has one")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--rounds", rounds, "measurements of each; the best counts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_flag("--wall", wall, "wall clock instead of processor time");
  CLI11_PARSE(app, argc, argv);
  cpu::set_threads(threads);
  Backend& backend = backend_for(Device{});
  for (const auto& [rows, inputs, outputs] : kLayers) {
    struct Pass {
      std::string_view name;
      Index m, n, k;
      bool ta, tb;
      DType result;
    };
    for (const Pass& pass : {Pass{"forward", rows, outputs, inputs, false, true, DType::bf16},
                             Pass{"dx", rows, inputs, outputs, false, false, DType::bf16},
                             Pass{"dW", outputs, inputs, rows, true, false, DType::f32}}) {
      const auto make = [](Index r, Index c, bool turned, DType type) {
        const Tensor x = Tensor::empty({turned ? c : r, turned ? r : c}, {.dtype = DType::f32});
        for (Index i = 0; i < x.numel(); ++i)
          x.data<float>()[i] = static_cast<float>((i * 7919) % 17 - 8) / 8;
        const Tensor y = Tensor::empty(x.shape(), {.dtype = type});
        backend_for(Device{}).cast(x, y, false);
        return y;
      };
      const Tensor a = make(pass.m, pass.k, pass.ta, DType::bf16),
                   b = make(pass.k, pass.n, pass.tb, DType::bf16);
      const Tensor c = Tensor::empty({pass.m, pass.n}, {.dtype = pass.result});
      cpu::onednn::Matmul p{.batch = 1,
                            .m = pass.m,
                            .n = pass.n,
                            .k = pass.k,
                            .transpose_a = pass.ta,
                            .transpose_b = pass.tb,
                            .lda = a.size(1),
                            .ldb = b.size(1),
                            .ldc = pass.n,
                            .stride_a = 0,
                            .stride_b = 0,
                            .dtype = DType::bf16,
                            .result = pass.result};
      const auto primitive = cpu::onednn::matmul(p);
      double own = std::numeric_limits<double>::infinity(), library = own;
      const double flop = 2.0 * static_cast<double>(pass.m * pass.n) * static_cast<double>(pass.k);
      const int calls = std::max(1, static_cast<int>(2e9 / flop));
      for (int round = 0; round <= rounds; ++round) {
        const double begun = clock_ms(wall);
        for (int i = 0; i < calls; ++i)
          backend.matmul().matmul(a, b, {}, c, {.transpose_a = pass.ta, .transpose_b = pass.tb});
        const double between = clock_ms(wall);
        for (int i = 0; i < calls; ++i) primitive->run({a.raw(), b.raw(), c.raw()});
        const double ended = clock_ms(wall);
        if (round == 0) continue;
        own = std::min(own, (between - begun) / calls);
        library = std::min(library, (ended - between) / calls);
      }
      fmt::print("{:7} {:5} × {:5} × {:5}  {:6.0f} {:6.0f} GFLOP/s  {:.2f}\n", pass.name, pass.m, pass.n,
                 pass.k, flop / own * 1e-6, flop / library * 1e-6, library / own);
    }
  }
}
