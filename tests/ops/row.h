// One row tests one op, or one form of its call. The harness expands it over dtypes and properties;
// op_test.cpp lists the checks.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "tests/ops/array.h"
#include "tests/support/tensors.h"

namespace tandem::test {

// A tensor of a row's own on the CPU where the row's input is: gradients of other devices are compared with
// those.
inline Tensor beside(const Tensor& input, const Tensor& own) {
  return input.defined() && input.device() == Device{} ? own.to(Device{}) : own;
}

using Shapes = std::vector<Shape>;
using Run = std::function<Tensor(const TensorList&)>;

// How the values of one input are drawn.
struct Draw {
  double low = -2.0, high = 2.0;
  std::vector<double> kinks = {};  // values stay `clearance` away from these
  double clearance = 0.1;
  bool whole = false;               // integers in [low, high]
  bool parameter = false;           // f32 beside 16-bit data (f64 beside f64)
  std::optional<DType> dtype = {};  // this dtype always: indices, labels, conditions
};

inline Draw index_below(Index bound) {
  return {.low = 0, .high = static_cast<double>(bound - 1), .whole = true, .dtype = DType::i64};
}

enum class Result {
  same,  // the dtype of the data
  wide,  // f32 for 16-bit data
  boolean,
  i64,
  f32,
};

// Zeros on the device that is tested.
inline Tensor zeros(const Shape& shape, DType dtype = DType::f32) {
  return Tensor::zeros(shape, {.dtype = dtype, .device = test_device()});
}

// A call that is refused with UserError, and a part of what it says.
struct Refusal {
  std::string says;
  std::function<void()> call;
};

struct Row {
  const char* op;            // OpInfo::name; the run must execute it
  std::string variant = {};  // tells rows of one op apart
  Run run;
  Oracle oracle;                       // in f64, written independently
  std::vector<Shapes> cases;           // the shapes of the inputs
  std::vector<Draw> draws = {Draw{}};  // one for each input; the last serves the rest
  Result result = Result::same;
  std::optional<std::size_t> wide_output = {};  // of several: stays f32 for 16-bit data
  bool gradient = true;                         // differentiable
  bool twice = true;                            // and its gradient too
  bool integers = false;                        // also i64, i32 and u8
  bool normalised = false;                      // many terms a result: compare ‖a-b‖/‖b‖
  double slack = 1.0;                           // times the tolerance; a reason on the line
  std::vector<double> points = {};  // one more case for an op of one input: these values, f32 and f64
  std::vector<Refusal> refusals = {};
  std::string family = {};  // of the op; set where rows are gathered
};

using Rows = std::vector<Row>;

std::string to_string(const Row& row);

Rows elementwise_rows();
Rows reduce_rows();
Rows matmul_rows();
Rows conv_rows();
Rows pool_rows();
Rows norm_rows();
Rows pairs_rows();
Rows softmax_rows();
Rows loss_rows();
Rows index_rows();
Rows shape_rows();
Rows random_rows();
Rows rnn_rows();
Rows attention_rows();
Rows boxes_rows();

const Rows& all_rows();

}  // namespace tandem::test

// RUN(exp(x[0])): the call of a row on its inputs x.
#define RUN(...) [](const ::tandem::TensorList& x) -> ::tandem::Tensor { return __VA_ARGS__; }
// CALL(exp(Tensor{})): the call of a refusal.
#define CALL(...) [] { static_cast<void>(__VA_ARGS__); }
