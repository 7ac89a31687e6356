// NVTX ranges: Nsight Systems shows the op and the stage of a step that a kernel belongs to.
//
//   TANDEM_NVTX=1 nsys profile -t cuda,nvtx tandem train …
//
// Ranges have the names of stages and of ops: "conv2d", "conv2d backward". Ops inside a composite op are
// nested. A step that replays a recording has only the ranges of its stages.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "autograd/observers.h"
#include "core/backend.h"
#include "train/stages.h"

namespace tandem::profile {

// Pushes ranges for the ops of its thread while it lives. Watched timers must outlive it.
class Ranges final : public OpObserver, public train::StageObserver {
 public:
  explicit Ranges(Backend& backend) : backend_(backend), observed_(*this) {}
  ~Ranges() override;
  Ranges(const Ranges&) = delete;
  Ranges& operator=(const Ranges&) = delete;

  void watch(train::StageTimer& timer);

  void before_forward(const OpInfo& op, std::span<const Tensor>) override { push(op.name); }
  void after_forward(const OpInfo&, std::span<const Tensor>, std::span<const Tensor>) override { pop(); }
  void before_backward(const Node& node, std::span<const Tensor>) override;
  void after_backward(const Node&, std::span<const Tensor>) override { pop(); }
  void begin(train::Stage stage) override;
  void end(train::Stage stage) override;

 private:
  void push(const char* name);
  void pop();
  void pop_all();

  Backend& backend_;
  int depth_ = 0;
  std::unordered_map<const OpInfo*, std::string> backward_names_;
  std::vector<train::StageTimer*> timers_;
  ObserverScope observed_;
};

// Null, at no cost, unless the device is a GPU and TANDEM_NVTX or NVTX_INJECTION64_PATH (set by collecting
// tools) is in the environment.
std::unique_ptr<Ranges> ranges_if_asked(Device device);

}  // namespace tandem::profile
