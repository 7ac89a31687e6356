// The only file that includes Boost.Graph, which takes seconds to compile.
#include "amp/plan/max_flow.h"

#include <algorithm>
#include <boost/graph/boykov_kolmogorov_max_flow.hpp>
#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <boost/property_map/property_map.hpp>
#include <boost/range/iterator_range.hpp>
#include <numeric>
#include <utility>

#include "core/error.h"

namespace tandem::amp::plan {

namespace {

// Edges are numbered in the order of their tails.
using FlowGraph = boost::compressed_sparse_row_graph<boost::directedS, boost::no_property, boost::no_property,
                                                     boost::no_property, std::size_t, std::size_t>;
using FlowEdge = boost::graph_traits<FlowGraph>::edge_descriptor;

// Every arc and its reverse, whose capacity is the arc's flow.
class Network {
 public:
  Network(int nodes, std::span<const Arc> arcs) : capacity_(2 * arcs.size()), residual_(2 * arcs.size()) {
    // Edge 2i is arc i, 2i + 1 its reverse; then in the order of tails.
    std::vector<std::pair<std::size_t, std::size_t>> ends;
    for (const Arc& arc : arcs) {
      ensure(arc.capacity >= 0 && arc.from >= 0 && arc.to >= 0 && arc.from < nodes && arc.to < nodes, "plan",
             "an arc of capacity {} from {} to {} among {} nodes", arc.capacity, arc.from, arc.to, nodes);
      ends.emplace_back(arc.from, arc.to);
      ends.emplace_back(arc.to, arc.from);
    }
    std::vector<std::size_t> order(ends.size()), place(ends.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, {}, [&](std::size_t edge) { return ends[edge].first; });
    std::vector<std::pair<std::size_t, std::size_t>> sorted;
    for (std::size_t i = 0; i < order.size(); ++i) {
      place[order[i]] = i;
      sorted.push_back(ends[order[i]]);
      if (order[i] % 2 == 0) capacity_[i] = arcs[order[i] / 2].capacity;
    }
    graph_ =
        FlowGraph(boost::edges_are_sorted, sorted.begin(), sorted.end(), static_cast<std::size_t>(nodes));
    std::vector<FlowEdge> edges;
    for (const FlowEdge& edge : boost::make_iterator_range(boost::edges(graph_))) edges.push_back(edge);
    for (const std::size_t edge : order) reverse_.push_back(edges[place[edge ^ 1]]);
  }

  std::int64_t push(int source, int sink) {
    const auto by_edge = [&](auto& values) {
      return boost::make_iterator_property_map(values.begin(), boost::get(boost::edge_index, graph_));
    };
    // Named parameters of this function were broken (boostorg/graph#60), and so are its colour maps (#185).
    return boost::boykov_kolmogorov_max_flow(graph_, by_edge(capacity_), by_edge(residual_),
                                             by_edge(reverse_), boost::get(boost::vertex_index, graph_),
                                             static_cast<std::size_t>(source),
                                             static_cast<std::size_t>(sink));
  }

  // Follows edges with residual capacity.
  std::vector<bool> reached_from(int source) const {
    std::vector<bool> seen(boost::num_vertices(graph_));
    std::vector<std::size_t> due{static_cast<std::size_t>(source)};
    seen[due.front()] = true;
    while (!due.empty()) {
      const std::size_t node = due.back();
      due.pop_back();
      for (const FlowEdge& edge : boost::make_iterator_range(boost::out_edges(node, graph_))) {
        const std::size_t to = boost::target(edge, graph_);
        if (residual_[boost::get(boost::edge_index, graph_, edge)] <= 0 || seen[to]) continue;
        seen[to] = true;
        due.push_back(to);
      }
    }
    return seen;
  }

 private:
  FlowGraph graph_;
  std::vector<std::int64_t> capacity_, residual_;  // by edge
  std::vector<FlowEdge> reverse_;
};

}  // namespace

FlowCut minimum_cut(int nodes, std::span<const Arc> arcs, int source, int sink) {
  ensure(source != sink, "plan", "source and sink are both node {}", source);
  Network network(nodes, arcs);
  const std::int64_t flow = network.push(source, sink);
  return {flow, network.reached_from(source)};
}

}  // namespace tandem::amp::plan
