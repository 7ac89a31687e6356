#include "core/cuda/attention_plans.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "core/cuda/capture.h"
#include "core/cuda/lengths.h"
#include "core/error.h"

namespace tandem::cuda {

namespace {

using dnn::AttentionGraph;
using dnn::AttentionTensor;

AttentionGraph graph_of(const AttentionCall& call, DType dtype, bool backward) {
  return {.backward = backward,
          .size = call.size,
          .dtype = dtype,
          .scale = static_cast<float>(call.scale),
          .causal = call.mask.causal,
          .lengths = call.mask.lengths.defined(),
          .window = call.mask.window};
}

void place(AttentionGraph& graph, AttentionTensor which, const HeadRows& rows) {
  graph.places[which] = {rows.text, rows.head, rows.token};
}

void* address_of(const HeadRows& rows) {
  return static_cast<std::byte*>(rows.tensor.raw()) +
         static_cast<std::size_t>(rows.offset) * size_of(rows.tensor.dtype());
}

// Limits of the library's kernels, and where they are not worth a call.
bool is_suited(const AttentionCall& call, DType dtype) {
  const AttentionSizes& s = call.size;
  if (!is_16bit(dtype) || call.dropout > 0.0 || call.alibi || call.mask.documents.defined()) return false;
  if (s.queries < 2 || s.keys < 1 || s.width != s.value_width || s.width % 8 != 0 || s.width > 128)
    return false;
  if (s.texts * s.heads > 65535) return false;
  // With lengths, the library aligns causal masks at each row's end.
  if (call.mask.causal && (s.queries > s.keys || (call.mask.lengths.defined() && s.queries != s.keys)))
    return false;
  if (!call.mask.lengths.defined()) return true;
  if (call.mask.window > 0) return false;  // queries beyond length + window see no key
  const auto* length = call.mask.lengths.data<std::int64_t>();
  return std::none_of(length, length + s.texts, [](std::int64_t l) { return l == 0; });
}

KernelKey key_of(const AttentionGraph& g) {
  // Places follow from sizes and the widths of rows.
  return KernelKey(g.size.texts, g.size.heads, g.size.key_heads, g.size.queries, g.size.keys, g.size.width,
                   static_cast<int>(g.dtype), std::bit_cast<std::int32_t>(g.scale), g.causal, g.lengths,
                   g.window, g.places[dnn::kQuery].token, g.places[dnn::kQuery].head,
                   g.places[dnn::kQuery].text, g.places[dnn::kKey].token, g.places[dnn::kKey].head,
                   g.places[dnn::kKey].text, g.places[dnn::kResult].token, g.places[dnn::kDquery].token,
                   g.places[dnn::kDkey].token);
}

// Whether the relative difference of two tensors is one of rounding.
bool agree(const Tensor& got, const Tensor& wanted, double tolerance) {
  const auto a = got.to_vector<double>(), b = wanted.to_vector<double>();
  double difference = 0.0, norm = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isinf(a[i]) && a[i] == b[i]) continue;  // lse of queries that see no key
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::isfinite(difference) && difference <= tolerance * tolerance * norm + 1e-30;
}

// Overflowed results of the own kernels, such as gradients of a loss scale that is too large, decide nothing
// about an engine.
bool are_finite(const Tensor& t) {
  const auto values = t.to_vector<double>();
  return std::all_of(values.begin(), values.end(), [](double x) { return std::isfinite(x); });
}

double tolerance_of(DType dtype) { return dtype == DType::f16 ? 4e-3 : 3e-2; }

constexpr double kUnwritten = std::numeric_limits<double>::quiet_NaN();  // shows what an engine leaves out

// The same places in other memory.
HeadRows elsewhere(const CudaBackend& backend, const HeadRows& rows) {
  HeadRows copy = rows;
  copy.tensor = backend.workspace(rows.tensor.shape(), rows.tensor.dtype());
  return copy;
}

}  // namespace

AttentionPlans::Plan* AttentionPlans::plan_of(const AttentionGraph& graph) {
  const bool captured = is_captured(backend_.stream());
  Plan& plan = (graph.backward ? backward_ : forward_).get(key_of(graph), [&] {
    auto made = std::make_unique<Plan>();
    made->engine = dnn::attention_engine(backend_, graph);
    return made;
  });
  if (!plan.engine || (captured && !plan.confirmed)) return nullptr;
  return &plan;
}

bool AttentionPlans::run(Plan& plan, const AttentionGraph& graph, const AttentionMask& mask,
                         std::array<void*, dnn::kAttentionTensors> addresses) {
  Tensor lengths, queries;
  if (graph.lengths) {
    lengths = backend_.workspace({graph.size.texts}, DType::i32);
    backend_.cast(lengths_on_device(backend_, mask.lengths, "attention"), lengths, false);
    queries = backend_.workspace({graph.size.texts}, DType::i32);
    backend_.fill(queries, static_cast<double>(graph.size.queries));
    addresses[dnn::kKeyLengths] = lengths.raw();
    addresses[dnn::kQueryLengths] = queries.raw();
  }
  constexpr std::size_t kAlignment = 256;
  const Tensor memory =
      backend_.workspace({plan.engine->workspace + static_cast<Index>(kAlignment)}, DType::u8);
  const auto at = reinterpret_cast<std::uintptr_t>(memory.raw());
  const std::string error =
      plan.engine->run(addresses, reinterpret_cast<void*>((at + kAlignment - 1) / kAlignment * kAlignment));
  if (error.empty()) return true;
  plan.engine.reset();
  return false;
}

bool AttentionPlans::forward(const AttentionForward& args,
                             const std::function<void(const AttentionForward&)>& own) {
  const DType dtype = args.query.tensor.dtype();
  if (!is_suited(args, dtype)) return false;
  AttentionGraph graph = graph_of(args, dtype, false);
  place(graph, dnn::kQuery, args.query);
  place(graph, dnn::kKey, args.key);
  place(graph, dnn::kValue, args.value);
  place(graph, dnn::kResult, args.result);
  Plan* plan = plan_of(graph);
  if (!plan) return false;
  std::array<void*, dnn::kAttentionTensors> addresses{};
  addresses[dnn::kQuery] = address_of(args.query);
  addresses[dnn::kKey] = address_of(args.key);
  addresses[dnn::kValue] = address_of(args.value);
  addresses[dnn::kResult] = address_of(args.result);
  addresses[dnn::kLse] = args.lse.raw();
  if (!plan->confirmed) {
    backend_.fill(args.result.tensor, kUnwritten);
    backend_.fill(args.lse, kUnwritten);
  }
  if (!run(*plan, graph, args.mask, addresses)) return false;
  if (plan->confirmed) return true;
  AttentionForward reference = args;
  reference.result = elsewhere(backend_, args.result);
  reference.lse = backend_.workspace(args.lse.shape(), DType::f32);
  own(reference);
  if (!are_finite(reference.result.tensor)) return false;
  plan->confirmed = agree(args.result.tensor, reference.result.tensor, tolerance_of(dtype)) &&
                    agree(args.lse, reference.lse, tolerance_of(dtype));
  if (!plan->confirmed) plan->engine.reset();
  return plan->confirmed;
}

bool AttentionPlans::backward(const AttentionBackward& args,
                              const std::function<void(const AttentionBackward&)>& own) {
  const DType dtype = args.dquery.tensor.dtype();
  const HeadRows* const all[] = {&args.query, &args.key, &args.value, &args.result, &args.dresult};
  const bool one_type = std::all_of(std::begin(all), std::end(all),
                                    [&](const HeadRows* rows) { return rows->tensor.dtype() == dtype; });
  if (!one_type || !is_suited(args, dtype)) return false;
  AttentionGraph graph = graph_of(args, dtype, true);
  std::array<void*, dnn::kAttentionTensors> addresses{};
  const std::pair<AttentionTensor, const HeadRows*> tensors[] = {
      {dnn::kQuery, &args.query},   {dnn::kKey, &args.key},         {dnn::kValue, &args.value},
      {dnn::kResult, &args.result}, {dnn::kDresult, &args.dresult}, {dnn::kDquery, &args.dquery},
      {dnn::kDkey, &args.dkey},     {dnn::kDvalue, &args.dvalue}};
  for (const auto& [which, rows] : tensors) {
    place(graph, which, *rows);
    addresses[which] = address_of(*rows);
  }
  addresses[dnn::kLse] = args.lse.raw();
  Plan* plan = plan_of(graph);
  if (!plan) return false;
  const HeadRows* const gradients[] = {&args.dquery, &args.dkey, &args.dvalue};
  // Keys of a cache that are not in use stay zero.
  for (int i = 0; i < 3 && !plan->confirmed; ++i)
    if (gradients[i]->tensor.size(-2) == (i == 0 ? args.size.queries : args.size.keys))
      backend_.fill(gradients[i]->tensor, kUnwritten);
  if (!run(*plan, graph, args.mask, addresses)) return false;
  if (plan->confirmed) return true;
  // Gradients of one projection share a tensor.
  AttentionBackward reference = args;
  HeadRows* const copies[] = {&reference.dquery, &reference.dkey, &reference.dvalue};
  for (int i = 0; i < 3; ++i) {
    *copies[i] = elsewhere(backend_, *gradients[i]);
    backend_.copy_bytes(gradients[i]->tensor, copies[i]->tensor);
    for (int j = 0; j < i; ++j)
      if (gradients[i]->tensor.is_same(gradients[j]->tensor)) copies[i]->tensor = copies[j]->tensor;
  }
  own(reference);
  if (!std::all_of(std::begin(copies), std::end(copies),
                   [](const HeadRows* copy) { return are_finite(copy->tensor); }))
    return false;
  plan->confirmed = true;
  for (int i = 0; i < 3; ++i)
    plan->confirmed = plan->confirmed && agree(gradients[i]->tensor, copies[i]->tensor, tolerance_of(dtype));
  if (!plan->confirmed) plan->engine.reset();
  return plan->confirmed;
}

}  // namespace tandem::cuda
