// Recurrent layers on a device, beyond the rows of the harness: recordings, lengths of many rows, unaligned
// parameters, and no host wait.
#include "core/kernels/rnn.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "core/error.h"
#include "tests/device/emulator.h"
#include "tests/support/errors.h"
#include "tests/support/tensors.h"

using namespace tandem;
using namespace tandem::test;

namespace {

struct Layer {
  RnnForward forward;
  RnnBackward backward;

  // Projected where `outputs` is given.
  Layer(RnnCell cell, Index steps, Index rows, Index units, DType dtype, Device device, Index outputs = 0,
        Index inputs = 3) {
    const Index gates = gates_of(cell) * units;
    const bool projected = outputs != 0;
    if (!projected) outputs = units;
    const DType wide = wide_of(dtype);
    std::uint64_t seed = 7;
    const auto random = [&](const Shape& shape, DType of) {
      return random_tensor(shape, of, ++seed).to(Device{}).to(device);
    };
    const auto empty = [&](const Shape& shape, DType of) {
      return Tensor::zeros(shape, {.dtype = of, .device = device});
    };
    RnnInputs in{.x = random({steps, rows, inputs}, dtype),
                 .h0 = random({rows, outputs}, dtype),
                 .c0 = {},
                 .weight_ih = random({gates, inputs}, dtype),
                 .weight_hh = random({gates, outputs}, dtype),
                 .bias_ih = random({gates}, wide),
                 .bias_hh = random({gates}, wide),
                 .weight_hr = {}};
    if (cell == RnnCell::lstm) in.c0 = random({rows, units}, wide);
    if (projected) in.weight_hr = random({outputs, units}, dtype);
    forward.options.cell = cell;
    forward.in = in;
    forward.y = empty({steps, rows, outputs}, dtype);
    forward.h_n = empty({rows, outputs}, dtype);
    if (cell == RnnCell::lstm) forward.c_n = empty({rows, units}, wide);
    forward.keep = true;
    backward.in = in;
    backward.y = forward.y;
    backward.dy = random({steps, rows, outputs}, dtype);
    backward.dh_n = random({rows, outputs}, dtype);
    const Tensor* const inputs_in_order[] = {&in.x,         &in.h0,      &in.c0,      &in.weight_ih,
                                             &in.weight_hh, &in.bias_ih, &in.bias_hh, &in.weight_hr};
    for (std::size_t i = 0; i < backward.gradients.size(); ++i) {
      if (inputs_in_order[i]->defined())
        backward.gradients[i].tensor = empty(inputs_in_order[i]->shape(), wide);
    }
  }

  void pass() {
    Backend& backend = backend_for(forward.in.x.device());
    backward.options = forward.options;
    backward.reserve = backend.rnn().rnn(forward);
    backend.rnn().rnn_backward(backward);
  }

  std::vector<double> results() const {
    std::vector<double> all;
    const auto add = [&](const Tensor& t) {
      if (!t.defined()) return;
      const std::vector<double> values = t.to_vector<double>();
      all.insert(all.end(), values.begin(), values.end());
    };
    for (const Tensor& t : {forward.y, forward.h_n, forward.c_n}) add(t);
    for (const GradOutput& to : backward.gradients) add(to.tensor);
    return all;
  }
  void clear() {
    Backend& backend = backend_for(forward.in.x.device());
    for (const Tensor& t : {forward.y, forward.h_n}) backend.fill(t, 0.0);
    for (const GradOutput& to : backward.gradients) {
      if (to.tensor.defined()) backend.fill(to.tensor, 0.0);
    }
  }
};

constexpr RnnCell kCells[] = {RnnCell::lstm, RnnCell::gru, RnnCell::rnn_tanh, RnnCell::rnn_relu};

double most_different(const std::vector<double>& found, const std::vector<double>& expected) {
  REQUIRE(found.size() == expected.size());
  double most = 0.0;
  for (std::size_t i = 0; i < found.size(); ++i)
    most = std::max(most, std::abs(found[i] - expected[i]) / (1.0 + std::abs(expected[i])));
  return most;
}

Tensor lengths_of(Index rows, Index steps) {
  std::vector<std::int64_t> lengths;
  for (Index row = 0; row < rows; ++row) lengths.push_back(row * 7 % (steps + 1));
  return Tensor::from(lengths, Shape{rows});
}

}  // namespace

TEST_CASE("a recorded recurrent layer has the bits of an ordinary one", "[rnn][recording]") {
  Backend& backend = backend_for(test_device());
  if (!backend.records()) return;
  for (const RnnCell cell : kCells) {
    for (const bool recompute : {false, true}) {
      for (const Index units : {8, 9}) {
        CAPTURE(name_of(cell), recompute, units);
        Layer layer(cell, 18, 3, units, DType::f16, test_device());
        layer.forward.options.recompute = recompute;
        layer.pass();
        const std::vector<double> ordinary = layer.results();
        const auto recording = backend.record([&] { layer.pass(); });
        for (int replay = 0; replay < 2; ++replay) {
          layer.clear();
          recording->replay();
          CHECK(layer.results() == ordinary);
        }
      }
    }
  }
}

TEST_CASE("products of steps have rows on 16 bytes whatever the width", "[rnn][device]") {
  const Emulator emulated = emulator();
  if (!emulated) return;
  struct Width {
    RnnCell cell;
    Index units, outputs;
  };
  const Width widths[] = {{RnnCell::lstm, 10, 0},     {RnnCell::lstm, 9, 0},     {RnnCell::gru, 10, 0},
                          {RnnCell::rnn_tanh, 10, 0}, {RnnCell::rnn_relu, 8, 0}, {RnnCell::lstm, 12, 5},
                          {RnnCell::lstm, 16, 5},     {RnnCell::lstm, 12, 8}};
  for (const auto& [cell, units, outputs] : widths) {
    for (const bool recompute : {false, true}) {
      CAPTURE(name_of(cell), units, outputs, recompute);
      const auto unaligned = [&](Index steps) {
        Layer layer(cell, steps, 3, units, DType::bf16, test_device(), outputs, 8);
        layer.forward.options.recompute = recompute;
        const std::uint64_t before = emulated.counts().unaligned_products;
        layer.pass();
        return emulated.counts().unaligned_products - before;
      };
      CHECK(unaligned(9) == unaligned(2));  // those over all steps
    }
  }
}

TEST_CASE("a recurrent layer of any width is that of the host", "[rnn][device]") {
  for (const RnnCell cell : kCells) {
    for (const bool recompute : {false, true}) {
      for (const bool ragged : {false, true}) {
        for (const Index outputs : {0, 5}) {
          if (outputs != 0 && cell != RnnCell::lstm) continue;
          CAPTURE(name_of(cell), recompute, ragged, outputs);
          Layer here(cell, 20, 4, 9, DType::f64, test_device(), outputs),
              host(cell, 20, 4, 9, DType::f64, {}, outputs);
          for (Layer* layer : {&here, &host}) {
            layer->forward.options.recompute = recompute;
            if (ragged) layer->forward.options.lengths = lengths_of(4, 20);
            layer->pass();
          }
          CHECK(most_different(here.results(), host.results()) < 1e-12);
        }
      }
    }
  }
}

TEST_CASE("kernels of steps start before the products before them have ended", "[rnn][device]") {
  const Emulator emulated = emulator();
  if (!emulated) return;
  const auto early = [&](Index steps) {
    Layer layer(RnnCell::lstm, steps, 3, 8, DType::bf16, test_device());
    const std::uint64_t before = emulated.counts().early_launches;
    layer.pass();
    return emulated.counts().early_launches - before;
  };
  CHECK(early(9) - early(4) == 2 * 5);  // forward and backward
}

TEST_CASE("lengths of rows cannot be recorded", "[rnn][recording]") {
  Backend& backend = backend_for(test_device());
  if (!backend.records()) return;
  Layer layer(RnnCell::lstm, 4, 5, 3, DType::f32, test_device());
  layer.forward.options.lengths = lengths_of(5, 4);
  layer.pass();
  const std::vector<double> ordinary = layer.results();
  CHECK_FAILS(VendorError, backend.record([&] { layer.pass(); }), "[lstm] row lengths are in host memory");
  layer.clear();
  layer.pass();
  CHECK(layer.results() == ordinary);
}

TEST_CASE("parameters of a recurrent layer lie anywhere in a buffer", "[rnn][device]") {
  for (const RnnCell cell : kCells) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      CAPTURE(name_of(cell), name_of(dtype));
      Layer aligned(cell, 3, 2, 8, dtype, test_device()), shifted(cell, 3, 2, 8, dtype, test_device());
      const auto shift = [](Tensor& t) {
        if (!t.defined()) return;
        const Tensor buffer = Tensor::zeros({t.numel() + 1}, t.options());
        const Tensor view = buffer.rows(1, t.numel()).viewed(t.shape());
        backend_for(t.device()).copy_bytes(t, view);
        t = view;
      };
      RnnInputs& in = shifted.forward.in;
      for (Tensor* t : {&in.h0, &in.c0, &in.weight_ih, &in.weight_hh, &in.bias_ih, &in.bias_hh}) shift(*t);
      shift(shifted.backward.dy);
      shifted.backward.in = in;
      aligned.pass();
      shifted.pass();
      // Another alignment may have another product.
      CHECK(most_different(shifted.results(), aligned.results()) < (dtype == DType::f32 ? 1e-3 : 2e-2));
    }
  }
}

TEST_CASE("lengths of many rows reach the device without a wait", "[rnn][device]") {
  for (const RnnCell cell : kCells) {
    for (const bool reverse : {false, true}) {
      CAPTURE(name_of(cell), reverse);
      Layer here(cell, 3, 900, 2, DType::f64, test_device()), host(cell, 3, 900, 2, DType::f64, {});
      for (Layer* layer : {&here, &host}) {
        layer->forward.options.lengths = lengths_of(900, 3);
        layer->forward.options.reverse = reverse;
      }
      const Emulator emulated = emulator();
      const std::uint64_t waits = emulated ? emulated.counts().host_waits : 0;
      here.pass();
      if (emulated) CHECK(emulated.counts().host_waits == waits);
      host.pass();
      CHECK(most_different(here.results(), host.results()) < 1e-12);
    }
  }
}
