#include "autograd/node.h"

#include <atomic>

namespace tandem {

namespace {
std::atomic<std::uint64_t> next_sequence{1};
thread_local std::vector<RefCounted*>* draining = nullptr;
}  // namespace

Node::Node() : sequence_(next_sequence.fetch_add(1, std::memory_order_relaxed)) {}

std::uint64_t Node::newest() { return next_sequence.load(std::memory_order_relaxed) - 1; }

void Node::dispose() {
  // Deleting a node drops its edges, which may delete further nodes: they are queued instead of recursing.
  if (draining) {
    draining->push_back(this);
    return;
  }
  std::vector<RefCounted*> queue{this};
  draining = &queue;
  while (!queue.empty()) {
    auto* node = static_cast<Node*>(queue.back());
    queue.pop_back();
    delete node;
  }
  draining = nullptr;
}

}  // namespace tandem
