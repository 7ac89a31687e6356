#include "train/ranges.h"

#include <cstdlib>

#include "autograd/node.h"

namespace tandem::profile {

Ranges::~Ranges() {
  pop_all();
  for (train::StageTimer* timer : timers_) timer->set_observer(nullptr);
}

void Ranges::watch(train::StageTimer& timer) {
  timer.set_observer(this);
  timers_.push_back(&timer);
}

void Ranges::before_backward(const Node& node, std::span<const Tensor>) {
  std::string& name = backward_names_[&node.info()];
  if (name.empty()) name = std::string(node.info().name) + " backward";
  push(name.c_str());
}

// A stage also ends ranges that an exception left open.
void Ranges::begin(train::Stage stage) {
  pop_all();
  push(train::kStageNames[static_cast<std::size_t>(stage)]);
}

void Ranges::end(train::Stage) { pop_all(); }

void Ranges::push(const char* name) {
  backend_.begin_range(name);
  ++depth_;
}

void Ranges::pop() {
  if (depth_ == 0) return;
  backend_.end_range();
  --depth_;
}

void Ranges::pop_all() {
  while (depth_ > 0) pop();
}

std::unique_ptr<Ranges> ranges_if_asked(Device device) {
  const bool asked = std::getenv("TANDEM_NVTX") || std::getenv("NVTX_INJECTION64_PATH");
  if (!asked || device.type != DeviceType::cuda) return nullptr;
  return std::make_unique<Ranges>(backend_for(device));
}

}  // namespace tandem::profile
