// An op and a layer outside the tree: gradients of both orders, mixed precision, and errors that name them.
#include <tandem/amp/overflow.h>
#include <tandem/autograd/grad_check.h>
#include <tandem/models/summary.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "core/error.h"
#include "mish.h"

namespace {

int failures = consumer::kNoError;

void expect(bool condition, const char* what) {
  if (condition) return;
  std::printf("not so: %s\n", what);
  ++failures;
}

// Without describe(): it is called as its class is.
struct Block final : tandem::nn::Module {
  Block() : linear(add_child("linear", std::make_shared<tandem::nn::Linear>(8, 8))) {}
  tandem::Tensor forward(const tandem::Tensor& x) override { return consumer::mish((*linear)(x)); }
  std::shared_ptr<tandem::nn::Linear> linear;
};

std::string refusal(const tandem::Tensor& x) {
  try {
    consumer::mish(x);
  } catch (const tandem::UserError& error) {
    return error.what();
  }
  return {};
}

void check_gradients() {
  const auto function = [](const tandem::TensorList& x) { return consumer::mish(x[0]); };
  const tandem::Tensor x = tandem::Tensor::from(std::vector<double>{-3, -0.5, 0, 0.7, 4}, {5});
  const auto first = tandem::grad_check(function, {x}), second = tandem::grad_grad_check(function, {x});
  expect(first.passed && second.passed, (to_string(first) + "; " + to_string(second)).c_str());
}

void check_fp16() {
  const tandem::RandomScope random(3, 0, 0);
  Block block;
  expect(block.describe() == "Block", block.describe().c_str());
  const tandem::amp::ResolvedPrecision plan(tandem::amp::Precision::amp_fp16());
  const tandem::Tensor x = tandem::random_normal({4, 8});
  const tandem::Tensor wide = block(x);
  tandem::Tensor narrow;
  {
    const tandem::amp::Autocast autocast(plan);
    narrow = block(x);  // the product runs in FP16, and mish follows
  }
  expect(wide.dtype() == tandem::DType::f32 && narrow.dtype() == tandem::DType::f16,
         to_string(narrow).c_str());
  const auto a = wide.to_vector<float>();
  const auto b = tandem::cast(narrow, tandem::DType::f32).to_vector<float>();
  for (std::size_t i = 0; i < a.size(); ++i) expect(std::abs(a[i] - b[i]) < 0.02F, "FP16 agrees with FP32");
  tandem::backward(tandem::mean(tandem::cast(narrow, tandem::DType::f32)));
  for (const tandem::Parameter& parameter : block.parameters())
    expect(parameter.gradient().defined() && parameter.gradient().dtype() == tandem::DType::f32,
           "FP32 gradients");
}

// By its name it is moved to another cast rule, and summaries time it.
void check_reports() {
  const tandem::RandomScope random(3, 0, 0);
  Block block;
  tandem::amp::Precision precision = tandem::amp::Precision::amp_fp16();
  precision.lists.deny = {"mish"};
  const tandem::Tensor x = tandem::random_normal({4, 8});
  {
    const tandem::amp::ResolvedPrecision plan(precision);
    const tandem::amp::Autocast autocast(plan);
    expect(block(x).dtype() == tandem::DType::f32, "mish is on the list of FP32");
  }
  const auto summary = tandem::models::summarise(block, {8});
  const auto is_mish = [](const auto& time) { return time.op == &consumer::Mish::info; };
  expect(std::ranges::any_of(summary.times, is_mish), "mish has a time in the summary");
}

}  // namespace

int main() {
  check_gradients();
  check_fp16();
  check_reports();
  const std::string text = refusal(tandem::Tensor::from(std::vector<std::int64_t>{1, 2}, {2}));
  std::printf("%s\n", text.c_str());
  expect(text == "[mish] expects a floating tensor, got i64[2]", text.c_str());
  expect(refusal({}).find("mish") != std::string::npos, "an absent input is refused by name");
  return failures;
}
