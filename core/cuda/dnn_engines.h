// Interface between the choice of plans (dnn_plan.cpp) and the library: candidates for a problem, and
// executable plans. Implemented by cuDNN in dnn.cpp and by a stand-in in tests.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/cuda/dnn.h"

namespace tandem::cuda::dnn {

// Failed call and its error text.
struct Failure {
  std::string call, text;
};
using Outcome = std::optional<Failure>;

// Throws the VendorError with the problem and ways out.
[[noreturn]] void fail(Pass pass, const Convolution& problem, const Rules& rules, std::string_view call,
                       std::string_view text);

// An executable plan.
class Engine {
 public:
  virtual ~Engine() = default;
  // Enqueues the plan on the backend's stream. `room` has `workspace` bytes and is aligned to 256.
  virtual Outcome run(const Addresses& addresses, void* room) const = 0;

  std::string name;
  std::int64_t workspace = 0;  // bytes
};

// The library's candidates for one problem under given rules.
class Offer {
 public:
  virtual ~Offer() = default;

  struct Listed {
    std::string name;
    bool compiled = false;  // for the shape, at build time, which takes a second
  };
  std::vector<Listed> listed;  // in the heuristics' order, best first

  // Builds candidate `index`. Threads with different numbers may build concurrently; the main thread is 0.
  virtual Outcome build(std::int64_t index, int thread, std::unique_ptr<Engine>& engine) = 0;
};

class Engines {
 public:
  explicit Engines(CudaBackend& backend);
  ~Engines();
  Engines(const Engines&) = delete;
  Engines& operator=(const Engines&) = delete;

  // Queries the heuristics; the offer may be empty.
  Outcome ask(Pass pass, const Convolution& problem, const Rules& rules, std::unique_ptr<Offer>& offer);

  // As Library::handle.
  std::shared_ptr<cudnnContext> handle();

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace tandem::cuda::dnn
