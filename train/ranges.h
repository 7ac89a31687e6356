// Ranges for NVIDIA's tools: Nsight Systems shows which op and which stage of a step a kernel belongs to.
//
//   TANDEM_NVTX=1 nsys profile -t cuda,nvtx tandem train …
//
// Named after the op, "conv2d" and "conv2d backward", and after the stage. Ops that an op is made of lie
// within it. A step that is done from a recording has the ranges of its stages only.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "autograd/observers.h"
#include "core/backend.h"
#include "train/stages.h"

namespace tandem::profile {

// Pushes ranges for the ops of its thread while it lives. Timers that it watches must outlive it.
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

// Where the environment asks for ranges, with TANDEM_NVTX or, as a tool that collects them does, with
// NVTX_INJECTION64_PATH, and the device is a GPU; else absent, and nothing is paid.
std::unique_ptr<Ranges> ranges_if_asked(Device device);

}  // namespace tandem::profile
