// cuDNN's graphs of attention without a GPU: the frontend accepts those that models need.
#include "core/cuda/dnn_attention.h"

#include <catch2/catch.hpp>

using namespace tandem;
using namespace tandem::cuda::dnn;

namespace {

// Queries, keys and values as columns of one projection, or keys apart if their number differs.
AttentionGraph graph_of(const AttentionSizes& size, bool backward) {
  AttentionGraph graph{.backward = backward, .size = size, .scale = 0.125f, .causal = true};
  const Index parts = size.heads + 2 * size.key_heads;
  const auto place = [&](AttentionTensor which, Index columns, Index tokens) {
    graph.places[which] = {columns * tokens, size.width, columns};
  };
  for (const AttentionTensor which : {kQuery, kDquery}) place(which, parts * size.width, size.queries);
  for (const AttentionTensor which : {kKey, kDkey, kValue, kDvalue})
    place(which, parts * size.width, size.keys);
  for (const AttentionTensor which : {kResult, kDresult}) place(which, size.heads * size.width, size.queries);
  return graph;
}

}  // namespace

TEST_CASE("the frontend accepts the graphs of attention", "[cuda]") {
  const AttentionSizes shapes[] = {
      {.texts = 4,
       .heads = 12,
       .key_heads = 12,
       .queries = 1024,
       .keys = 1024,
       .width = 64,
       .value_width = 64},
      {.texts = 2,
       .heads = 32,
       .key_heads = 8,
       .queries = 512,
       .keys = 512,
       .width = 128,
       .value_width = 128},
      {.texts = 3, .heads = 4, .key_heads = 4, .queries = 7, .keys = 64, .width = 32, .value_width = 32}};
  for (const AttentionSizes& size : shapes) {
    for (const bool backward : {false, true}) {
      AttentionGraph graph = graph_of(size, backward);
      const std::string error = validate(graph);
      if (error.starts_with("cuda_get_device")) {
        WARN("skipped: the frontend asks the driver for a device");
        return;
      }
      CHECK(error == "");
      graph.window = 5;
      CHECK(validate(graph) == "");
      graph.causal = false;
      graph.window = 0;
      graph.lengths = true;
      CHECK(validate(graph) == "");
      graph.dtype = DType::f16;
      CHECK(validate(graph) == "");
    }
  }
}
