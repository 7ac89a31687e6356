// Computes a typed graph forward and backward on short vectors, as the engine does: every op computes in f32
// and rounds once to the type of what it writes; gradients have the types of their tensors, and several of
// them are added before they are rounded.
#pragma once

#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "amp/plan/typed_graph.h"
#include "core/convert.h"

namespace tandem::test {

inline float stored(double value, DType type) {
  if (type == DType::f16) return widen(convert<Half>(value));
  if (type == DType::bf16) return widen(convert<BFloat16>(value));
  return static_cast<float>(value);
}

class TypedValues {
 public:
  using Vector = std::vector<double>;

  explicit TypedValues(const amp::plan::TypedGraph& graph) : graph_(graph) {
    for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) forward(n);
    for (const auto& results : values_) {
      gradients_.emplace_back();
      for (const Vector& value : results) gradients_.back().emplace_back(value.size(), 0.0);
    }
    for (int n = static_cast<int>(graph.nodes.size()); n-- > 0;) backward(n);
  }

  // By what is read by ops that end the graph.
  std::map<std::string, Vector> outcomes() const { return outcomes_; }
  // Of what the graph is given, by name.
  std::map<std::string, Vector> gradients() const {
    std::map<std::string, Vector> found;
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      const amp::plan::TypedNode& node = graph_.nodes[n];
      if (!node.is_cast() && op_of(node).kind != amp::plan::Kind::op)
        found[op_of(node).key.path] = gradients_[n][0];
    }
    return found;
  }

 private:
  const amp::plan::Op& op_of(const amp::plan::TypedNode& node) const { return graph_.graph.at(node.op); }
  const Vector& value(const amp::plan::Read& read) const {
    return values_[static_cast<std::size_t>(read.op)][static_cast<std::size_t>(read.result)];
  }
  // Any number, the same for the same place.
  static double given(int op, std::size_t i) {
    const auto mixed = static_cast<unsigned>(op * 7919 + static_cast<int>(i) * 104729 + 12345) * 2654435761u;
    return (static_cast<double>(mixed >> 8) / (1u << 24) - 0.5) * ((mixed & 1) ? 4.0 : 0x1p-12);
  }

  void forward(int n) {
    const amp::plan::TypedNode& node = graph_.at(n);
    std::vector<Vector> made;
    if (node.is_cast()) {
      made = {value(node.reads[0])};
    } else if (op_of(node).kind != amp::plan::Kind::op) {
      made.emplace_back();
      for (std::size_t i = 0; i < static_cast<std::size_t>(op_of(node).results[0].elements); ++i)
        made[0].push_back(given(node.op, i));
    } else {
      made = computed(node);
    }
    for (Vector& result : made)
      for (double& x : result) x = stored(x, node.type);
    values_.push_back(std::move(made));
  }

  std::vector<Vector> computed(const amp::plan::TypedNode& node) {
    const amp::plan::Op& op = op_of(node);
    const std::string& name = op.key.op;
    const Vector x = value(node.reads[0]);
    Vector y = x;
    const auto half = static_cast<std::ptrdiff_t>(x.size() / 2);
    if (name == "flip") y.assign(x.rbegin(), x.rend());
    if (name == "neg")
      for (double& v : y) v = -v;
    if (name == "slice") y.assign(x.begin(), x.begin() + half);
    if (name == "split") return {{x.begin(), x.begin() + half}, {x.begin() + half, x.end()}};
    if (name == "concat") y.insert(y.end(), value(node.reads[1]).begin(), value(node.reads[1]).end());
    if (name == "pad") y.push_back(static_cast<float>(op.pad_value));
    if (name == "broadcast_to") y.insert(y.end(), x.begin(), x.end());
    if (name == "relu")
      for (double& v : y) v = std::max(v, 0.0);
    if (name == "abs")
      for (double& v : y) v = std::abs(v);
    if (name == "max")
      for (std::size_t i = 0; i < x.size() / 2; ++i) y[i] = std::max(x[2 * i], x[2 * i + 1]);
    if (name == "max") y.resize(x.size() / 2);
    if (name == "norm" || name == "exp")
      for (double& v : y) v = static_cast<float>(v * 1.3 + 0.1);
    if (name == "add")
      for (std::size_t i = 0; i < y.size(); ++i) y[i] = static_cast<float>(x[i] + value(node.reads[1])[i]);
    if (name == "linear") {
      for (const amp::plan::Read& read : node.reads)
        if (read.role == Role::data && graph_.at(read.op).type != graph_.at(node.reads[0].op).type)
          FAIL("a product of two types");
      const Vector& w = value(node.reads.back());
      for (std::size_t i = 0; i < y.size(); ++i) y[i] = static_cast<float>(x[i] * w[i % w.size()]);
    }
    if (name == "end") outcomes_[op.key.path] = x;
    return {y};
  }

  void give(const amp::plan::Read& read, std::size_t i, double gradient) {
    gradients_[static_cast<std::size_t>(read.op)][static_cast<std::size_t>(read.result)][i] +=
        stored(gradient, graph_.at(read.op).type);
  }

  void backward(int n) {
    const amp::plan::TypedNode& node = graph_.at(n);
    std::vector<Vector>& dy = gradients_[static_cast<std::size_t>(n)];
    for (Vector& result : dy)
      for (double& g : result) g = stored(static_cast<float>(g), node.type);
    if (node.is_cast()) {
      for (std::size_t i = 0; i < dy[0].size(); ++i) give(node.reads[0], i, dy[0][i]);
    } else if (op_of(node).kind == amp::plan::Kind::op) {
      backward_of(node, dy, values_[static_cast<std::size_t>(n)][0]);
    }
  }

  void backward_of(const amp::plan::TypedNode& node, const std::vector<Vector>& dy, const Vector& kept) {
    const std::string& name = op_of(node).key.op;
    const Vector& x = value(node.reads[0]);
    const Vector& g = dy[0];
    const std::size_t half = x.size() / 2;
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (name == "flip")
        give(node.reads[0], i, g[x.size() - 1 - i]);
      else if (name == "neg")
        give(node.reads[0], i, -g[i]);
      else if (name == "slice")
        give(node.reads[0], i, i < half ? g[i] : 0.0);
      else if (name == "split")
        give(node.reads[0], i, i < half ? g[i] : dy[1][i - half]);
      else if (name == "relu" || name == "abs")
        give(node.reads[0], i, x[i] > 0 ? g[i] : name == "abs" && x[i] < 0 ? -g[i] : 0.0);
      else if (name == "max") {
        if (i < half * 2)
          give(node.reads[0], i, x[i] > x[i ^ 1] || (x[i] == x[i ^ 1] && i % 2 == 0) ? g[i / 2] : 0.0);
      } else if (name == "broadcast_to")
        give(node.reads[0], i, static_cast<float>(g[i] + g[i + x.size()]));
      else if (name == "norm")
        give(node.reads[0], i, static_cast<float>(g[i] * 1.3));
      else if (name == "exp")
        give(node.reads[0], i, static_cast<float>(g[i] * kept[i]));
      else if (name == "end")
        give(node.reads[0], i, static_cast<float>(given(node.op, i) * (1 + x[i])));
      else if (name != "linear")
        give(node.reads[0], i, g[i]);
    }
    if (name == "concat")
      for (std::size_t i = x.size(); i < g.size(); ++i) give(node.reads[1], i - x.size(), g[i]);
    if (name == "add")
      for (std::size_t i = 0; i < g.size(); ++i) give(node.reads[1], i, g[i]);
    if (name == "linear") {
      const Vector& w = value(node.reads.back());
      Vector dw(w.size());
      for (std::size_t i = 0; i < x.size(); ++i) {
        give(node.reads[0], i, static_cast<float>(g[i] * w[i % w.size()]));
        dw[i % w.size()] += static_cast<float>(g[i] * x[i]);
      }
      for (std::size_t i = 0; i < dw.size(); ++i) give(node.reads.back(), i, static_cast<float>(dw[i]));
    }
  }

  const amp::plan::TypedGraph& graph_;
  std::vector<std::vector<Vector>> values_, gradients_;  // by node and result
  std::map<std::string, Vector> outcomes_;
};

}  // namespace tandem::test
