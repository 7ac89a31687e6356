// Times tokens that GPT-2 124M generates with its cache and random weights, and reads as many bytes as the
// weights of its matrix products have: the least time of a token.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <thread>
#include <vector>

#include "core/cpu/cpu_features.h"
#include "models/gpt.h"
#include "tandem.h"

namespace {

using namespace tandem;
using Clock = std::chrono::steady_clock;

template <class Work>
double seconds_of(const Work& work) {
  const auto begun = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - begun).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Reads memory once with all threads, each its own part.
class ReadTest {
 public:
  ReadTest(Index bytes, int threads) : threads_(threads), memory_(Tensor::full({bytes}, 1.0, {DType::u8})) {}

  double seconds() {
    return seconds_of([&] {
      std::vector<std::jthread> readers;
      for (int thread = 0; thread < threads_; ++thread)
        readers.emplace_back([this, thread] { read(thread); });
    });
  }

 private:
  using Line = std::uint64_t __attribute__((vector_size(64)));  // of the cache

  void read(int thread) const {
    const Index lines = memory_.numel() / static_cast<Index>(sizeof(Line));
    const auto* const first = reinterpret_cast<const Line*>(memory_.data<std::uint8_t>());
    const Line *line = first + lines * thread / threads_, *const end =
                                                              first + lines * (thread + 1) / threads_;
    Line all{};
    for (; line < end; ++line) all ^= *line;
    volatile std::uint64_t used = all[0] ^ all[7];
    static_cast<void>(used);
  }

  int threads_;
  Tensor memory_;
};

// One text, as `tandem predict` reads it.
class Writer {
 public:
  explicit Writer(models::Gpt& model) : model_(model), state_(model.begin(1)) {}

  void read(const std::vector<std::int64_t>& words) {
    const auto count = static_cast<Index>(words.size());
    const auto advanced = model_.advance(Tensor::from(words, {count, 1}), state_);
    state_ = advanced.state;
    const std::vector<float> scores = model_.scores(advanced.hidden.rows(count - 1, 1)).to_vector<float>();
    next_ = std::ranges::max_element(scores) - scores.begin();
  }
  void write() { read({next_}); }

 private:
  models::Gpt& model_;
  models::State state_;
  std::int64_t next_ = 0;
};

// Bytes of the matrices of products; the table is that of the output layer.
Index bytes_of_products(models::Gpt& model, std::size_t bytes_of_element) {
  Index elements = 0;
  for (const Parameter& parameter : model.parameters())
    if (parameter.value().rank() == 2 && parameter.name() != "wpe.weight")
      elements += parameter.value().numel();
  return elements * static_cast<Index>(bytes_of_element);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("compares the time of a generated token of GPT-2 124M with that of reading its weights");
  const std::map<std::string, amp::Precision> precisions{{"fp32", amp::Precision::fp32()},
                                                         {"amp_bf16", amp::Precision::amp_bf16()},
                                                         {"amp_fp16", amp::Precision::amp_fp16()}};
  int threads = 1;
  Index prompt = 64, tokens = 64;
  std::vector<std::string> names{"fp32", "amp_bf16"};
  app.add_option("--threads", threads)->check(CLI::PositiveNumber);
  app.add_option("--prompt", prompt, "tokens of the prompt")->check(CLI::PositiveNumber);
  app.add_option("--tokens", tokens, "tokens to generate, of which the median time is printed")
      ->check(CLI::PositiveNumber);
  app.add_option("--precision", names)->check(CLI::IsMember(precisions));
  CLI11_PARSE(app, argc, argv);

  cpu::set_threads(threads);
  const NoGrad no_grad;
  models::Gpt model({.activation = nn::BlockActivation::gelu_tanh});
  model.eval();
  fmt::print("| precision | token, ms | weights, MB | reading them, ms | bandwidth, GB/s | ratio |\n");
  fmt::print("| --- | ---: | ---: | ---: | ---: | ---: |\n");
  for (const std::string& name : names) {
    const amp::ResolvedPrecision precision(precisions.at(name));
    const amp::Autocast autocast(precision);
    const Index bytes = bytes_of_products(model, name == "fp32" ? sizeof(float) : sizeof(std::uint16_t));
    ReadTest reading(bytes, threads);
    Writer writer(model);
    writer.read(std::vector<std::int64_t>(static_cast<std::size_t>(prompt), 1));
    std::vector<double> of_tokens, of_reading;  // in turns
    for (Index token = 0; token < tokens; ++token) {
      of_tokens.push_back(seconds_of([&] { writer.write(); }));
      of_reading.push_back(reading.seconds());
    }
    const double token = median(of_tokens), least = median(of_reading);
    fmt::print("| {} | {:.2f} | {:.0f} | {:.2f} | {:.1f} | {:.2f} |\n", name, 1e3 * token,
               1e-6 * static_cast<double>(bytes), 1e3 * least, 1e-9 * static_cast<double>(bytes) / least,
               token / least);
  }
}
