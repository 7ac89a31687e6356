#include "amp/segmented_loss_scale.h"

#include <algorithm>
#include <cmath>
#include <queue>
#include <unordered_set>

#include "autograd/apply.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/parts.h"
#include "autograd/recompute.h"
#include "autograd/wide_gradients.h"
#include "core/error.h"

namespace tandem::amp {

namespace {

struct ScaleGradient {
  int log2_factor = 0;
  static constexpr OpInfo info{"scale_gradient", CastRule::none};
  using In = ops::Operand;
  using Saved = ops::Nothing;
  using Out = ops::Result;
  Out forward(Context&, Saved&, const In& in) const { return {in.x.viewed(in.x.shape())}; }
  In backward(const Saved&, const Out& dy, const Needs&) const {
    return {log2_factor == 0 ? dy.y : mul(dy.y, std::ldexp(1.0, log2_factor))};
  }
};

bool is_leaf(const Node& node) { return dynamic_cast<const Leaf*>(&node) != nullptr; }

// f32 gradients of a 16-bit tensor stay f32 (WideGradients).
bool has_wide_gradient(const Tensor& x) {
  const GradientEdge edge = x.edge();
  const Node* const node = node_of(x);
  return is_16bit(x.dtype()) && edge.output < node->outputs.size() &&
         node->outputs[edge.output].dtype == DType::f32;
}

struct Uses {
  std::size_t first, last;  // links
};

// Removes borders between two uses of a leaf, and renumbers links.
BackwardChain without_shared(const std::vector<const Node*>& borders,
                             const std::unordered_map<const Node*, Uses>& uses) {
  std::vector<char> shared(borders.size(), 0);
  for (const auto& [leaf, span] : uses)
    for (std::size_t border = span.first; border < span.last; ++border) shared[border] = 1;
  BackwardChain chain;
  std::vector<std::size_t> link_of(borders.size() + 1, 0);
  for (std::size_t i = 0; i < borders.size(); ++i) {
    if (!shared[i]) chain.borders.push_back(borders[i]);
    link_of[i + 1] = chain.borders.size();
  }
  for (const auto& [leaf, span] : uses) chain.leaves.emplace(leaf, link_of[span.first]);
  return chain;
}

}  // namespace

Tensor scale_gradient(const Tensor& x, int log2_factor) {
  // Recomputed parts have no borders, in either pass.
  if (!x.defined() || !x.requires_grad() || !GradMode::records() || recomputes()) return x;
  const PrecisionScope none(nullptr);
  const WideGradients wide(has_wide_gradient(x));
  return apply(ScaleGradient{log2_factor}, {x}).y;
}

std::optional<int> gradient_scale_of(const Node& node) {
  const auto* const border = dynamic_cast<const detail::OpNode<ScaleGradient>*>(&node);
  return border ? std::optional(border->op().log2_factor) : std::nullopt;
}

BackwardChain chain_of(const Tensor& loss) {
  const auto later = [](const Node* a, const Node* b) { return a->sequence() < b->sequence(); };
  std::priority_queue<const Node*, std::vector<const Node*>, decltype(later)> live(later);
  std::unordered_set<const Node*> seen;
  std::vector<const Node*> borders;
  std::unordered_map<const Node*, Uses> uses;
  const auto reach = [&](const Node* node) {
    if (is_leaf(*node)) {
      uses.emplace(node, Uses{borders.size(), 0}).first->second.last = borders.size();
    } else if (seen.insert(node).second) {
      live.push(node);
    }
  };
  if (const Node* const node = node_of(loss)) reach(node);
  while (!live.empty()) {
    const Node* const node = live.top();
    live.pop();
    if (gradient_scale_of(*node) && live.empty()) borders.push_back(node);
    for (const GradientEdge& input : node->inputs)
      if (input.node) reach(static_cast<const Node*>(input.node.get()));
  }
  return without_shared(borders, uses);
}

SegmentedLossScale::SegmentedLossScale(nn::Module& model, const std::vector<Segment>& segments) {
  const std::vector<Parameter> parameters = model.parameters();
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const Segment& segment = segments[i];
    scales_.push_back(segment.log2_scale);
    if (i > 0) {
      const nn::Module* const module = model.find(segment.border == kWholeModel ? "" : segment.border);
      require(module != nullptr, "scaler", "segments: the model has no module {}", segment.border);
      borders_.emplace(module, Border{.path = segment.border,
                                      .number = i - 1,
                                      .log2_factor = segment.log2_scale - segments[i - 1].log2_scale});
    }
    for (const std::string& name : segment.parameters) {
      const auto found = std::ranges::find(parameters, name, &Parameter::name);
      require(found != parameters.end(), "scaler", "segments: the model has no parameter {}", name);
      segments_.emplace(&found->leaf(), i);
    }
  }
}

int SegmentedLossScale::log2_scale_of(const Parameter& parameter) const {
  const auto found = segments_.find(&parameter.leaf());
  return found == segments_.end() ? 0 : scales_[found->second];
}

BorderScope::BorderScope(const SegmentedLossScale* borders) : borders_(borders) {
  if (!borders) return;
  crossed_.resize(borders->borders_.size());
  observed_.emplace(*this);
}

Tensor BorderScope::passed_on(nn::Module& module, const Tensor& output) {
  const auto found = borders_->borders_.find(&module);
  if (found == borders_->borders_.end()) return output;
  Tensor scaled = scale_gradient(output, found->second.log2_factor);
  if (scaled.requires_grad()) crossed_[found->second.number].push_back(node_of(scaled));
  return scaled;
}

void BorderScope::finish(const Tensor& loss) const {
  constexpr const char* kWayOut =
      "segments need the same graph in every step; set precision.scaler to dynamic, or use BF16 "
      "(precision=amp_bf16)";
  if (!borders_) return;
  const BackwardChain chain = chain_of(loss);
  for (const auto& [module, border] : borders_->borders_) {
    const std::vector<const Node*>& nodes = crossed_[border.number];
    require(nodes.size() == 1 && border.number < chain.borders.size() &&
                chain.borders[border.number] == nodes.front(),
            "scaler",
            "the gradient behind {} is not the only live one in backward, or occurs {} times, unlike in the "
            "calibration batches; {}",
            border.path, nodes.size(), kWayOut);
  }
  for (const auto& [leaf, link] : chain.leaves) {
    const auto found = borders_->segments_.find(leaf);
    require(found == borders_->segments_.end() ? link == 0 : found->second == link, "scaler",
            "a parameter is used in segment {}, unlike in the calibration batches; {}", link + 1, kWayOut);
  }
}

}  // namespace tandem::amp
