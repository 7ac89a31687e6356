// Times an LSTM layer forward and backward against oneDNN's primitive, over widths and batches of language
// models, to justify Tandem's own implementation (docs/cpu.md).
//
// Both do the work of a training step: they pack changed weights, keep gates for backward, and compute
// gradients of the input, the weights and the biases, those of weights in f32 and in Tandem's layout. Rounds
// alternate between the two. The best round of each counts, in processor time of all threads, which a busy
// machine disturbs less than wall time.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <ctime>
#include <limits>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>
#include <vector>

#include "core/backend.h"
#include "core/cpu/cpu_features.h"
#include "core/cpu/level.h"
#include "core/cpu/onednn.h"
#include "core/error.h"
#include "core/kernels/random.h"
#include "core/kernels/rnn.h"

namespace {

using namespace tandem;
using Memory = dnnl::memory;
using Format = Memory::format_tag;

struct Options {
  std::vector<Index> units{128, 256, 650, 1024, 1500}, rows{1, 20, 64, 128};
  std::vector<std::string> dtypes{"f32", "bf16"};
  Index steps = 35;
  int threads = 1, rounds = 5;
};

struct Case {
  Index steps, rows, units;
  DType dtype;
  // Operations of the products, forward and backward.
  double flop() const { return 48.0 * static_cast<double>(steps * rows * units * units); }
};

struct Operands {
  Tensor x, weight_ih, weight_hh, bias, dy;

  explicit Operands(const Case& c)
      : x(noise({c.steps, c.rows, c.units}, c.dtype, 1, 1.0)),
        weight_ih(noise({4 * c.units, c.units}, c.dtype, 2, 0.05)),
        weight_hh(noise({4 * c.units, c.units}, c.dtype, 3, 0.05)),
        bias(noise({4 * c.units}, DType::f32, 4, 0.05)),
        dy(noise(x.shape(), c.dtype, 5, 1.0)) {}

  static Tensor noise(const Shape& shape, DType dtype, std::uint64_t seed, double bound) {
    const Tensor tensor = Tensor::empty(shape, {.dtype = dtype});
    cpu::backend().random().random_uniform({.seed = seed}, tensor, -bound, bound);
    return tensor;
  }
};

// A timed implementation. `result` is y, to compare both.
class Layer {
 public:
  virtual ~Layer() = default;
  virtual void forward() = 0;
  virtual void backward() = 0;  // of the last forward
  virtual Tensor result() const = 0;
  virtual Tensor gradient() const = 0;  // of weight_hh, [H,4·H]
};

class Own final : public Layer {
 public:
  Own(const Case& c, const Operands& o)
      : in_{.x = o.x, .weight_ih = o.weight_ih, .weight_hh = o.weight_hh, .bias_ih = o.bias}, dy_(o.dy) {
    y_ = Tensor::empty(o.x.shape(), o.x.options());
    h_ = Tensor::empty({c.rows, c.units}, o.x.options());
    c_ = Tensor::empty({c.rows, c.units}, {.dtype = DType::f32});
    gradients_[0].tensor = Tensor::empty(o.x.shape(), o.x.options());
    for (const std::size_t i : {3u, 4u})
      gradients_[i].tensor = Tensor::empty({4 * c.units, c.units}, {.dtype = DType::f32});
    gradients_[5].tensor = Tensor::empty({4 * c.units}, {.dtype = DType::f32});
  }
  void forward() override {
    reserve_ =
        cpu::backend().rnn().rnn({.options = {}, .in = in_, .y = y_, .h_n = h_, .c_n = c_, .keep = true});
  }
  void backward() override {
    RnnBackward args{.options = {}, .in = in_, .y = y_, .reserve = reserve_, .dy = dy_};
    args.gradients = gradients_;
    cpu::backend().rnn().rnn_backward(args);
  }
  Tensor result() const override { return y_; }
  Tensor gradient() const override {
    const Tensor& here = gradients_[4].tensor;
    const Index gates = here.size(0), units = here.size(1);
    const Tensor turned = Tensor::empty({units, gates}, {.dtype = DType::f32});
    for (Index u = 0; u < units; ++u)
      for (Index g = 0; g < gates; ++g)
        turned.data<float>()[u * gates + g] = here.data<float>()[g * units + u];
    return turned;
  }

 private:
  RnnInputs in_;
  Tensor dy_, y_, h_, c_;
  RnnReserve reserve_;
  std::array<GradOutput, 8> gradients_;
};

class Library final : public Layer {
 public:
  Library(const Case& c, const Operands& o)
      : c_(c), type_(c.dtype == DType::bf16 ? Memory::data_type::bf16 : Memory::data_type::f32) {
    y_ = Tensor::empty(o.x.shape(), o.x.options());
    gradient_ = Tensor::empty({c.units, 4 * c.units}, {.dtype = DType::f32});
    // oneDNN also needs incoming gradients as f32; a training step has them so already.
    dy_ = Tensor::empty(o.dy.shape(), {.dtype = DType::f32});
    cpu::backend().cast(o.dy, dy_, false);
    const auto forward = forward_of();
    const auto backward = backward_of(forward);
    forward_ = dnnl::lstm_forward(forward);
    backward_ = dnnl::lstm_backward(backward);
    bind(o, forward, backward);
  }

  void forward() override {
    for (auto& [primitive, arguments] : before_) primitive.execute(stream_, arguments);
    forward_.execute(stream_, arguments_);
    stream_.wait();
  }
  void backward() override {
    for (auto& [primitive, arguments] : between_) primitive.execute(stream_, arguments);
    for (Memory& sum : sums_)
      std::memset(sum.get_data_handle(), 0, sum.get_desc().get_size());  // backward accumulates
    backward_.execute(stream_, back_arguments_);
    for (auto& [primitive, arguments] : after_) primitive.execute(stream_, arguments);
    stream_.wait();
  }
  Tensor result() const override { return y_; }
  Tensor gradient() const override { return gradient_; }

 private:
  using Arguments = std::unordered_map<int, Memory>;
  using Calls = std::vector<std::pair<dnnl::reorder, Arguments>>;
  using Type = Memory::data_type;

  Memory::desc sequence(Type type) const { return {{c_.steps, c_.rows, c_.units}, type, Format::tnc}; }
  Memory::desc weights(Type type, Format format) const {
    return {{1, 1, c_.units, 4, c_.units}, type, format};
  }
  Memory::desc bias() const { return {{1, 1, 4, c_.units}, Type::f32, Format::ldgo}; }

  Memory::desc state(Type type) const { return {{1, 1, c_.rows, c_.units}, type, Format::ldnc}; }

  dnnl::lstm_forward::primitive_desc forward_of() const {
    const Memory::desc own = weights(type_, Format::any), h = state(type_), c = state(Type::f32);
    return {engine_,
            dnnl::prop_kind::forward_training,
            dnnl::rnn_direction::unidirectional_left2right,
            sequence(type_),
            h,
            c,
            own,
            own,
            bias(),
            sequence(type_),
            h,
            c};
  }
  dnnl::lstm_backward::primitive_desc backward_of(const dnnl::lstm_forward::primitive_desc& forward) const {
    const Memory::desc own = weights(type_, Format::any), sums = weights(Type::f32, Format::any),
                       out = sequence(Type::f32), h = state(type_), c = state(Type::f32);
    return {engine_,
            dnnl::prop_kind::backward,
            dnnl::rnn_direction::unidirectional_left2right,
            sequence(type_),
            h,
            c,
            own,
            own,
            bias(),
            sequence(type_),
            h,
            c,
            out,
            c,
            c,
            sums,
            sums,
            bias(),
            out,
            c,
            c,
            forward};
  }

  Memory made(const Memory::desc& desc) { return {desc, engine_}; }
  Memory zeros(const Memory::desc& desc) {
    const Memory memory = made(desc);
    std::memset(memory.get_data_handle(), 0, desc.get_size());
    return memory;
  }
  static Memory::desc of(const dnnl::primitive_desc_base& desc, int argument) {
    return desc.query_md(dnnl::query::exec_arg_md, argument);
  }
  // Copies `from` into the layout of a primitive.
  Memory copied(const Memory& from, const Memory::desc& to, Calls& calls) {
    Memory memory = made(to);
    calls.emplace_back(dnnl::reorder(from, memory), Arguments{{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, memory}});
    return memory;
  }

  void bind(const Operands& o, const dnnl::primitive_desc_base& forward,
            const dnnl::primitive_desc_base& backward) {
    const auto here = [&](const Tensor& t, const Memory::desc& desc) {
      return Memory(desc, engine_, t.raw());
    };
    // Weights have the layout [gates, units, inputs].
    const Memory layer = here(o.weight_ih, weights(type_, Format::ldgoi)),
                 iter = here(o.weight_hh, weights(type_, Format::ldgoi));
    const Memory x = here(o.x, sequence(type_)), y = here(y_, sequence(type_)), b = here(o.bias, bias()),
                 workspace = made(forward.query_md(dnnl::query::workspace_md));
    arguments_ = {{DNNL_ARG_SRC_LAYER, x},
                  {DNNL_ARG_WEIGHTS_LAYER, copied(layer, of(forward, DNNL_ARG_WEIGHTS_LAYER), before_)},
                  {DNNL_ARG_WEIGHTS_ITER, copied(iter, of(forward, DNNL_ARG_WEIGHTS_ITER), before_)},
                  {DNNL_ARG_BIAS, b},
                  {DNNL_ARG_DST_LAYER, y},
                  {DNNL_ARG_SRC_ITER, zeros(state(type_))},
                  {DNNL_ARG_SRC_ITER_C, zeros(state(Type::f32))},
                  {DNNL_ARG_DST_ITER, made(state(type_))},
                  {DNNL_ARG_DST_ITER_C, made(state(Type::f32))},
                  {DNNL_ARG_WORKSPACE, workspace}};
    back_arguments_ = arguments_;
    back_arguments_[DNNL_ARG_WEIGHTS_LAYER] = copied(layer, of(backward, DNNL_ARG_WEIGHTS_LAYER), between_);
    back_arguments_[DNNL_ARG_WEIGHTS_ITER] = copied(iter, of(backward, DNNL_ARG_WEIGHTS_ITER), between_);
    back_arguments_[DNNL_ARG_DIFF_DST_LAYER] = here(dy_, sequence(Type::f32));
    back_arguments_[DNNL_ARG_DIFF_SRC_LAYER] = made(sequence(Type::f32));
    for (const int which :
         {DNNL_ARG_DIFF_SRC_ITER, DNNL_ARG_DIFF_SRC_ITER_C, DNNL_ARG_DIFF_DST_ITER, DNNL_ARG_DIFF_DST_ITER_C})
      back_arguments_[which] = zeros(state(Type::f32));
    for (const int which : {DNNL_ARG_DIFF_WEIGHTS_LAYER, DNNL_ARG_DIFF_WEIGHTS_ITER, DNNL_ARG_DIFF_BIAS}) {
      sums_.push_back(made(of(backward, which)));
      back_arguments_[which] = sums_.back();
    }
    // In memory order: the library's plain format does not matter.
    const Memory::desc plain = weights(Type::f32, Format::ldigo);
    if (sums_[0].get_desc() != plain) copied(sums_[0], plain, after_);
    const Memory to = here(gradient_, plain);
    after_.emplace_back(dnnl::reorder(sums_[1], to), Arguments{{DNNL_ARG_FROM, sums_[1]}, {DNNL_ARG_TO, to}});
  }

  Case c_;
  Type type_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  Tensor y_, dy_, gradient_;
  dnnl::lstm_forward forward_;
  dnnl::lstm_backward backward_;
  Arguments arguments_, back_arguments_;
  Calls before_, between_, after_;
  std::vector<Memory> sums_;
};

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// ‖a - b‖ / ‖b‖
double difference(const Tensor& a, const Tensor& b) {
  const std::vector<double> x = a.to_vector<double>(), y = b.to_vector<double>();
  double between = 0.0, size = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) between += (x[i] - y[i]) * (x[i] - y[i]), size += y[i] * y[i];
  return std::sqrt(between / size);
}

struct Best {
  double forward = std::numeric_limits<double>::infinity(), backward = forward;
  double both() const { return forward + backward; }
};

void measure(const Case& c, int rounds) {
  const Operands operands(c);
  Own own(c, operands);
  Library library(c, operands);
  const std::array<Layer*, 2> layers{&own, &library};
  std::array<Best, 2> best;
  const auto least = [](double& seconds, int calls, auto&& call) {
    const double start = processor_seconds();
    for (int i = 0; i < calls; ++i) call();
    seconds = std::min(seconds, (processor_seconds() - start) / calls);
  };
  for (Layer* layer : layers) layer->forward(), layer->backward();
  const double apart =
      std::max(difference(own.result(), library.result()), difference(own.gradient(), library.gradient()));
  const auto calls = std::max<int>(1, static_cast<int>(2e9 / c.flop()));
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < layers.size(); ++i) {
      least(best[i].forward, calls, [&] { layers[i]->forward(); });
      least(best[i].backward, calls, [&] { layers[i]->backward(); });
    }
  }
  fmt::print("{:<6}{:>6}{:>6}{:>12.3f}{:>12.3f}{:>9.2f}{:>9.2f}{:>10.2f}{:>10.0f}{:>12.1e}\n",
             name_of(c.dtype), c.units, c.rows, 1e3 * best[0].both(), 1e3 * best[1].both(),
             best[1].both() / best[0].both(), best[1].forward / best[0].forward,
             best[1].backward / best[0].backward, 1e-9 * c.flop() / best[0].both(), apart);
  std::fflush(stdout);
}

int run(const Options& options) {
  cpu::bound_threads();
  cpu::set_threads(options.threads);
  const bool bf16 =
      cpu::onednn::multiplies_bf16();  // also limits the library to the level, before its first use
  fmt::print("a layer forward and backward, {} steps, {}, {} thread(s), {}\n", options.steps,
             cpu::name_of(cpu::level()), cpu::threads(), cpu::cpu_model());
  fmt::print("{:<6}{:>6}{:>6}{:>12}{:>12}{:>9}{:>9}{:>10}{:>10}{:>12}\n", "dtype", "units", "rows",
             "tandem, ms", "onednn, ms", "×", "forward", "backward", "GFLOP/s", "difference");
  for (const std::string& dtype : options.dtypes) {
    if (dtype == "bf16" && !bf16) {
      fmt::print("this CPU has no bf16 products\n");
      continue;
    }
    for (const Index units : options.units)
      for (const Index rows : options.rows)
        measure({options.steps, rows, units, dtype == "bf16" ? DType::bf16 : DType::f32}, options.rounds);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app(
      "Times an LSTM layer forward and backward against oneDNN's; × is oneDNN's time over Tandem's,\n"
      "of both passes and of each.\n"
      "TANDEM_ISA selects a lower level.");
  app.add_option("--units", options.units, "units and inputs; repeatable")->check(CLI::Range(1, 8192));
  app.add_option("--rows", options.rows, "sequences of a batch; repeatable")->check(CLI::Range(1, 8192));
  app.add_option("--steps", options.steps)->check(CLI::Range(1, 10'000))->capture_default_str();
  app.add_option("--dtype", options.dtypes, "dtype of x, states and weights; repeatable")
      ->check(CLI::IsMember({"f32", "bf16"}));
  app.add_option("--threads", options.threads, "threads of the team")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--rounds", options.rounds, "measurements of each side; the best counts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  try {
    app.parse(argc, argv);
    return run(options);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_recurrent: {}\n", error.what());
    return 1;
  }
}
