// Networks of sequences: language models of 20 streams and 35 steps, a translator of 128 pairs, a GPT-2 of 8
// times 1024 tokens.
#include <fmt/format.h>

#include "core/kernels/attention.h"
#include "core/kernels/index.h"
#include "core/kernels/matmul.h"
#include "core/kernels/norm.h"
#include "core/kernels/rnn.h"
#include "core/kernels/softmax.h"
#include "tests/gpu/probe/rows.h"

namespace tandem::probe {

namespace {

constexpr Index kSteps = 35, kStreams = 20;

// ---- recurrent layers

// The product of a step: h [N,H] and the recurrent weights [4H,H].
Row step_product(Extents cut, Index width) {
  const Index rows = cut(kStreams, 2), units = cut(width, 10);
  return {.name = fmt::format("product 20x{}, {}x{} transposed bf16", width, 4 * width, width),
          .family = "product",
          .bytes = bytes_of(rows * units + 4 * units * units, DType::bf16) +
                   bytes_of(rows * 4 * units, DType::f32),
          .flop = 2.0 * static_cast<double>(rows * 4 * units * units),
          .make = [=](Operands& make) -> Work {
            const Tensor h = make.noise({rows, units}, DType::bf16);
            const Tensor weight = make.noise({4 * units, units}, DType::bf16, 0.05);
            const Tensor gates = make.empty({rows, 4 * units}, DType::f32);
            return [=, &backend = make.backend()] {
              backend.matmul().matmul(h, weight, {}, gates, {.transpose_b = true});
            };
          }};
}

RnnForward layer_of(Operands& make, Index steps, Index rows, Index units) {
  const auto weights = [&] { return make.noise({4 * units, units}, DType::bf16, 0.05); };
  RnnForward args;
  args.in.x = make.noise({steps, rows, units}, DType::bf16);
  args.in.h0 = make.noise({rows, units}, DType::bf16);
  args.in.c0 = make.noise({rows, units}, DType::f32);
  args.in.weight_ih = weights();
  args.in.weight_hh = weights();
  args.in.bias_ih = make.noise({4 * units}, DType::f32);
  args.in.bias_hh = make.noise({4 * units}, DType::f32);
  args.y = make.empty({steps, rows, units}, DType::bf16);
  args.h_n = make.empty({rows, units}, DType::bf16);
  args.c_n = make.empty({rows, units}, DType::f32);
  args.keep = true;
  return args;
}

// One layer over all steps: a product for the inputs, then two kernels a step. What must be moved are the
// weights, once; the chain of kernels takes longer.
Row lstm(Extents cut, Index width, bool backward) {
  const Index steps = cut(kSteps, 3), rows = cut(kStreams, 2), units = cut(width, 12);
  const double products = 2.0 * static_cast<double>(steps * rows * 4 * units * 2 * units);
  return {
      .name = fmt::format("lstm_{} 35x20x{} bf16", backward ? "backward" : "forward", width),
      .family = "rnn",
      .bytes = bytes_of(8 * units * units + 2 * steps * rows * units, DType::bf16) * (backward ? 2.0 : 1.0),
      .flop = backward ? 2.0 * products : products,
      .kernels = static_cast<int>(backward ? 2 * steps + 6 : 2 * steps + 1),
      .make = [=](Operands& make) -> Work {
        const RnnForward forward = layer_of(make, steps, rows, units);
        Backend& backend = make.backend();
        if (!backward) return [&backend, forward] { backend.rnn().rnn(forward); };
        RnnBackward args;
        args.in = forward.in;
        args.y = forward.y;
        args.reserve = backend.rnn().rnn(forward);
        args.dy = make.noise({steps, rows, units}, DType::bf16);
        const Tensor* const inputs[] = {&args.in.x,         &args.in.h0,        &args.in.c0,
                                        &args.in.weight_ih, &args.in.weight_hh, &args.in.bias_ih,
                                        &args.in.bias_hh};
        for (std::size_t i = 0; i < std::size(inputs); ++i) {
          const bool weights = i == 3 || i == 4;
          args.gradients[i].tensor =
              make.empty(inputs[i]->shape(), weights ? DType::f32 : inputs[i]->dtype());
        }
        return [&backend, args] { backend.rnn().rnn_backward(args); };
      }};
}

// ---- attention

Row scores(Extents cut, bool backward) {
  const Shape shape{cut(8, 2), cut(16, 2), cut(1024, 16), cut(1024, 16)};
  const double map = bytes_of(shape.numel(), DType::bf16);
  return {.name = backward ? "masked_softmax_backward 8x16x1024x1024 bf16, causal"
                           : "masked_softmax 8x16x1024x1024 bf16, causal",
          .family = "attention",
          .bytes = map * (backward ? 2.0 : 1.5),  // half of what is read is not seen
          .make = [=](Operands& make) -> Work {
            AttentionMask mask;
            mask.causal = true;
            const Tensor x = make.noise(shape, DType::bf16), y = make.empty(shape, DType::bf16);
            Backend& backend = make.backend();
            if (!backward) return [=, &backend] { backend.attention().masked_softmax(x, mask, y); };
            backend.attention().masked_softmax(x, mask, y);
            const Tensor dx = make.empty(shape, DType::bf16);
            return [=, &backend] { backend.attention().masked_softmax_backward(y, x, mask, dx); };
          }};
}

// A translator's decoder over all its steps.
Row additive(Extents cut, bool backward) {
  const Index queries = cut(50, 3), keys = cut(50, 4), rows = cut(128, 2), units = cut(1024, 16);
  const Index vectors = (queries + 2 * keys) * rows * units;
  return {.name = fmt::format("additive_attention{} 50x50x128x1024 bf16", backward ? "_backward" : ""),
          .family = "attention",
          .bytes = bytes_of(vectors + queries * rows * (units + keys), DType::bf16) * (backward ? 2.0 : 1.0),
          .kernels = backward ? 4 : 2,
          .make = [=](Operands& make) -> Work {
            AdditiveForward args;
            args.in.query = make.noise({queries, rows, units}, DType::bf16);
            args.in.key = make.noise({keys, rows, units}, DType::bf16);
            args.in.value = make.noise({keys, rows, units}, DType::bf16);
            args.in.v = make.noise({units}, DType::f32, 0.05);
            args.context = make.empty({queries, rows, units}, DType::bf16);
            args.weights = make.empty({queries, rows, keys}, DType::bf16);
            Backend& backend = make.backend();
            if (!backward) return [&backend, args] { backend.attention().additive_attention(args); };
            backend.attention().additive_attention(args);
            AdditiveBackward back;
            back.in = args.in;
            back.weights = args.weights;
            back.dcontext = make.noise({queries, rows, units}, DType::bf16);
            const Tensor* const inputs[] = {&back.in.query, &back.in.key, &back.in.value, &back.in.v};
            for (std::size_t i = 0; i < std::size(inputs); ++i)
              back.gradients[i].tensor = make.empty(inputs[i]->shape(), inputs[i]->dtype());
            return [&backend, back] { backend.attention().additive_attention_backward(back); };
          }};
}

// ---- words

struct Logits {
  Index rows, words;
};

Row cross_entropy(Extents cut, Logits of, bool backward) {
  const Index count = cut(of.rows, 4), words = cut(of.words, 50);
  const double map = bytes_of(count * words, DType::bf16);
  return {
      .name = fmt::format("cross_entropy{} {}x{} bf16", backward ? "_backward" : "", of.rows, of.words),
      .family = "softmax",
      .bytes = backward ? 2.0 * map : map,
      .make = [=](Operands& make) -> Work {
        const Tensor logits = make.noise({count, words}, DType::bf16), loss = make.empty({count}, DType::f32);
        const Tensor weight = make.empty({count}, DType::f32), lse = make.empty({count}, DType::f32);
        const Tensor targets = make.numbers({count}, words);
        Backend& backend = make.backend();
        const auto forward = [=, &backend] {
          backend.softmax().cross_entropy(logits, targets, {}, {}, loss, weight, lse);
        };
        if (!backward) return forward;
        forward();
        const Tensor dloss = make.noise({count}, DType::f32),
                     dlogits = make.empty({count, words}, DType::bf16);
        return [=, &backend] {
          backend.softmax().cross_entropy_backward(logits, targets, {}, {}, lse, dloss, dlogits);
        };
      }};
}

struct Table {
  Index words, width, tokens;
};

Row select(Extents cut, Table of) {
  const Index words = cut(of.words, 50), width = cut(of.width, 16), tokens = cut(of.tokens, 20);
  return {
      .name = fmt::format("select {} of {}x{} f32 to bf16", of.tokens, of.words, of.width),
      .family = "index",
      .bytes = bytes_of(tokens * width, DType::f32) + bytes_of(tokens * width, DType::bf16),
      .make = [=](Operands& make) -> Work {
        const Tensor table = make.noise({words, width}, DType::f32), index = make.numbers({tokens}, words);
        const Tensor y = make.empty({tokens, width}, DType::bf16);
        return [=, &backend = make.backend()] { backend.index().index_select(table, index, 0, y); };
      }};
}

Row layer_norm(Extents cut, bool backward) {
  const Index count = cut(8192, 16), width = cut(768, 32);
  const double map = bytes_of(count * width, DType::bf16);
  return {
      .name = fmt::format("layer_norm{} 8192x768 bf16", backward ? "_backward" : ""),
      .family = "norm",
      .bytes = map * (backward ? 3.0 : 2.0),
      .kernels = backward ? 2 : 1,
      .make = [=](Operands& make) -> Work {
        const Tensor x = make.noise({count, width}, DType::bf16), y = make.empty({count, width}, DType::bf16);
        const Tensor gamma = make.noise({width}, DType::f32), beta = make.noise({width}, DType::f32);
        const Tensor mean = make.empty({count}, DType::f32), rstd = make.empty({count}, DType::f32);
        Backend& backend = make.backend();
        const auto forward = [=, &backend] {
          backend.norm().layer_norm(
              {.x = x, .gamma = gamma, .beta = beta, .y = y, .mean = mean, .rstd = rstd, .eps = 1e-5});
        };
        if (!backward) return forward;
        forward();
        const Tensor dy = make.noise({count, width}, DType::bf16);
        const Tensor dgamma = make.empty({width}, DType::f32), dbeta = make.empty({width}, DType::f32);
        return [=, &backend] {
          backend.norm().layer_norm_backward({.x = x,
                                              .gamma = gamma,
                                              .mean = mean,
                                              .rstd = rstd,
                                              .dy = dy,
                                              .dx = y,
                                              .dgamma = dgamma,
                                              .dbeta = dbeta});
        };
      }};
}

}  // namespace

void add_sequence_rows(Extents cut, std::vector<Row>& rows) {
  // 650 and 1500 are the widths of the models, the others those that rows of 16 bytes ask for.
  for (const Index width : {650, 656, 1500, 1504}) rows.push_back(step_product(cut, width));
  for (const Index width : {650, 1500})
    for (const bool backward : {false, true}) rows.push_back(lstm(cut, width, backward));
  for (const bool backward : {false, true}) {
    rows.push_back(scores(cut, backward));
    rows.push_back(additive(cut, backward));
    for (const Logits logits : {Logits{700, 10000}, {8192, 50304}})
      rows.push_back(cross_entropy(cut, logits, backward));
    rows.push_back(layer_norm(cut, backward));
  }
  for (const Table table : {Table{10000, 650, 700}, {50304, 768, 8192}}) rows.push_back(select(cut, table));
}

}  // namespace tandem::probe
